"""OpenDocument: texts, sheets and slides (.odt, .ods, .odp), which keep all that is said in one content.xml."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading.archive import Archive, attribute, inside, local
from reground.retrieval.reading.result import Circumstances, Read, Text
from reground.retrieval.reading.rows import MOST_COLUMNS, Rows

_CONTENT = "content.xml"
_MOST_SPACES = 100
_TITLES = 20
"""Elements of a file's description among which its title is looked for."""
_UNSAID = ("tracked-changes", "annotation")


def read_open_document(content: bytes, around: Circumstances) -> Read:
    """An .odt, .ods or .odp: headings as Markdown, rows of sheets with their columns' names, slides by number."""
    archive = Archive(content, around.tick)
    if _CONTENT not in archive.names:
        raise Unreadable("is damaged: it holds no OpenDocument content", kind="damaged")
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise Unreadable("is protected by a password; save it without one", kind="encrypted")
    text, sheets = Text(), _Sheets()
    for element in archive.elements(_CONTENT, "p", "h", "table-row", "page", "tracked-changes"):
        if not all(text.add(block) for block in _blocks(element, sheets)):
            break
    return Read(_title(archive), str(text), partly=text.partly or sheets.partly)


class _Sheets:
    """The tables of a file, row by row."""

    def __init__(self) -> None:
        self._name = ""
        self._rows = Rows()
        self.partly = ""
        self._slides = 0

    def row(self, element: Any) -> Iterator[str]:
        """The line of a row, after its sheet's name where it is the first of it."""
        table = next((outer for outer in element.iterancestors() if local(outer) == "table"), None)
        name = "" if table is None else attribute(table, "name")
        if name != self._name:
            self._name, self._rows = name, Rows()
            if inside(element, "spreadsheet"):
                yield f"# {name}"
        yield from self._rows.lines([_cells(element)])
        self.partly = self.partly or self._rows.partly

    def slide(self, element: Any) -> str:
        """A slide with its number."""
        self._slides += 1
        lines = [said for each in _paragraphs(element) if (said := _said(each))]
        return "\n".join([f"Slide {self._slides}", *lines]) if lines else ""


def _blocks(element: Any, sheets: _Sheets) -> Iterator[str]:
    name = local(element)
    if name == "table-row":
        yield from sheets.row(element)
    elif name == "page":
        yield sheets.slide(element)
    elif name == "h":
        level = attribute(element, "outline-level")
        yield f"{'#' * min(int(level) if level.isdecimal() and len(level) < 3 else 1, 6)} {_said(element)}"
    elif name == "p":
        yield _said(element)


def _cells(row: Any) -> list[str]:
    """The cells of a row up to the last that is not empty: office programs write the empty rest of a sheet too."""
    cells: list[str] = []
    empty = 0
    for cell in row:
        if local(cell) not in ("table-cell", "covered-table-cell"):
            continue
        said = " ".join(_said(each) for each in _paragraphs(cell))
        times = _count(cell, "number-columns-repeated")
        if not said:
            empty += times
            continue
        room = MOST_COLUMNS + 1 - len(cells)  # one too many, so that the cut is seen
        cells += ([""] * min(empty, room) + [said] * min(times, room))[:room]
        empty = 0
        if len(cells) > MOST_COLUMNS:
            break
    return cells


def _paragraphs(element: Any) -> Iterator[Any]:
    """The paragraphs of a cell or a slide, without remarks."""
    return (each for each in element.iter() if local(each) in ("p", "h") and not inside(each, *_UNSAID))


def _count(element: Any, name: str) -> int:
    """How often something is there, said by an attribute; at least once and within reason."""
    said = attribute(element, name)
    return max(1, int(said)) if said.isdecimal() and len(said) < 9 else 1


def _said(element: Any) -> str:
    """The text of a paragraph, without what was struck out and without remarks in the margin."""
    pieces = [element.text or ""]
    for each in element.iterdescendants():
        name = local(each)
        if not inside(each, *_UNSAID) and name not in _UNSAID:
            pieces += [_white(name, each), each.text or ""]
        if not inside(each, *_UNSAID):
            pieces.append(each.tail or "")
    return " ".join("".join(pieces).split())


def _white(name: str, element: Any) -> str:
    if name == "s":
        return " " * min(_count(element, "c"), _MOST_SPACES)
    return " " if name in ("tab", "line-break", "p", "h") else ""


def _title(archive: Archive) -> str:
    tree = archive.tree("meta.xml")
    found = [] if tree is None else [each.text or "" for each in tree.iter() if local(each) == "title"][:_TITLES]
    return next((title for title in found if title.strip()), "")

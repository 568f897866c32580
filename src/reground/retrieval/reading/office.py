"""Word and PowerPoint: the paragraphs, tables and notes of .docx and .pptx, found in their XML.

The two formats need a hundred lines together, so no library is asked: none of them limits what a file unpacks to.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading.archive import Archive, attribute, inside, local
from reground.retrieval.reading.result import Circumstances, Read, Text
from reground.retrieval.reading.rows import MOST_COLUMNS, Rows

_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_SKIPPED = ("Fallback", "del", "moveFrom")  # a second copy for old programs, and text that was struck out
_CONTROLS = ("sdt", "sdtContent", "customXml")
"""What forms put around cells and rows."""
_HEADING = re.compile(r"heading ([1-6])")
_NUMBER = re.compile(r"(\d{1,9})\.xml")


def read_word(content: bytes, around: Circumstances) -> Read:
    """A .docx: headings as Markdown, the rows of tables on a line each, then foot- and endnotes."""
    archive = Archive(content, around.tick)
    if "word/document.xml" not in archive.names:
        raise Unreadable("is damaged: it holds no Word document", kind="damaged")
    levels, tables = _heading_levels(archive), _Tables()
    text, title = Text(), ""
    for part in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml"):
        for element in archive.elements(part, "p", "tr"):
            is_row = local(element) == "tr"
            said = tables.row(element) if is_row else paragraph(element)
            level = 0 if is_row else levels.get(_style(element), 0)
            title = title or (said if level == 1 else "")
            if not text.add(f"{'#' * level} {said}" if level and said else said):
                break
    return Read(title or _core_title(archive), str(text), partly=text.partly)


def read_slides(content: bytes, around: Circumstances) -> Read:
    """A .pptx: slide by slide in the order of the show, each with its notes."""
    archive = Archive(content, around.tick)
    slides = _slides(archive)
    if not slides:
        raise Unreadable("is damaged: it holds no slides", kind="damaged")
    text, title = Text(), ""
    for number, slide in enumerate(slides, start=1):
        lines = _paragraphs(archive, slide)
        title = title or (lines[0] if lines else "")
        notes = [line for part in _related(archive, slide, "/notesSlide") for line in _paragraphs(archive, part)]
        said = [f"Slide {number}", *lines, *(["Notes:", *notes] if notes else [])]
        if (lines or notes) and not text.add("\n".join(said)):
            break
    return Read(title, str(text), partly=text.partly)


def paragraph(element: Any) -> str:
    """The text of a paragraph; those inside it, such as of a text box, on lines of their own."""
    pieces: list[str] = []
    for each in element.iter():
        name = local(each)
        if name == "p" and each is not element:
            pieces.append("\n")
        elif name in _BREAKS:
            pieces.append(_BREAKS[name])
        elif name == "t" and each.text and not inside(each, *_SKIPPED):
            pieces.append(each.text)
    return "".join(pieces).strip()


def relations(archive: Archive, part: str) -> Iterator[tuple[str, str, str]]:
    """Id, type and target of what a part of an Office file refers to, inside of the file."""
    folder, name = posixpath.split(part)
    tree = archive.tree(f"{folder}/_rels/{name}.rels")
    for each in [] if tree is None else tree:
        target = posixpath.normpath(posixpath.join("/", folder, attribute(each, "Target"))).lstrip("/")
        if target in archive.names and attribute(each, "TargetMode") != "External":
            yield attribute(each, "Id"), attribute(each, "Type"), target


def _related(archive: Archive, part: str, kind: str) -> list[str]:
    return [target for _, type_, target in relations(archive, part) if type_.endswith(kind)]


class _Tables:
    """Turns the rows of a part's tables into lines, each table with the names of its own columns."""

    def __init__(self) -> None:
        self._table: Any = None
        self._rows = Rows()

    def row(self, element: Any) -> str:
        """The line of a row; "" of an empty one."""
        table = next((outer for outer in element.iterancestors() if local(outer) == "tbl"), None)
        if table is not self._table:
            self._table, self._rows = table, Rows()
        cells: list[str] = []
        for cell in _cells(element):
            said = " ".join(paragraph(each) for each in cell.iter() if local(each) == "p")
            cells += [said, *[""] * (_columns(cell) - 1)]
        return next(self._rows.lines([cells]), "")


def _cells(row: Any) -> Iterator[Any]:
    """The cells of a row, also those that stand in content controls."""
    for each in row:
        if local(each) == "tc":
            yield each
        elif local(each) in _CONTROLS:
            yield from _cells(each)


def _columns(cell: Any) -> int:
    """The columns that a cell of Word takes; PowerPoint writes an empty cell for each more."""
    properties = next((each for each in cell if local(each) == "tcPr"), ())
    said = next((attribute(each, "val") for each in properties if local(each) == "gridSpan"), "")
    return min(int(said), MOST_COLUMNS) if said.isdecimal() and len(said) < 9 else 1


def _style(element: Any) -> str:
    return next((attribute(each, "val") for each in element.iter() if local(each) == "pStyle"), "")


def _heading_levels(archive: Archive) -> dict[str, int]:
    """The level of each style that is a heading or a title; ids depend on the language of Word, names do not."""
    tree = archive.tree("word/styles.xml")
    levels = {}
    for style in [] if tree is None else tree:
        named = next((attribute(each, "val").lower() for each in style if local(each) == "name"), "")
        found = _HEADING.fullmatch(named)
        if found or named == "title":
            levels[attribute(style, "styleId")] = int(found[1]) if found else 1
    return levels


def _core_title(archive: Archive) -> str:
    tree = archive.tree("docProps/core.xml")
    return next((each.text or "" for each in ([] if tree is None else tree) if local(each) == "title"), "")


def _slides(archive: Archive) -> list[str]:
    """The parts that are slides, in the order of the show."""
    parts = {id_: target for id_, type_, target in relations(archive, _SHOW) if type_.endswith("/slide")}
    show = archive.tree(_SHOW)
    ids = [_relation_id(each) for each in ([] if show is None else show.iter()) if local(each) == "sldId"]
    return list(dict.fromkeys(parts[id_] for id_ in ids if id_ in parts)) or sorted(parts.values(), key=_number)


_SHOW = "ppt/presentation.xml"


def _relation_id(element: Any) -> str:
    return next((str(value) for key, value in element.items() if key.endswith("}id")), "")


def _number(part: str) -> int:
    found = _NUMBER.search(part)
    return int(found[1]) if found else 0


def _paragraphs(archive: Archive, part: str) -> list[str]:
    """The paragraphs and rows of a slide; page numbers and the like, which fields fill in, are left out."""
    tables, said = _Tables(), []
    for each in archive.elements(part, "p", "tr"):
        if local(each) == "tr":
            said.append(tables.row(each))
        elif not any(local(piece) == "fld" for piece in each):
            said.append(paragraph(each))
    return [line for line in said if line]

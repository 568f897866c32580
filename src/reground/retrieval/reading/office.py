"""Word, PowerPoint, Excel, OpenDocument and EPUB: zip archives of XML, read within limits.

A small file can unpack to anything, so three limits hold for every archive: its number of members, the bytes that are
unpacked, and the elements that a parser holds at once. Entities are never expanded. Whatever breaks one of them, or the
format, is `Unreadable`. What is needed of each format takes about a hundred lines, so no library is asked: none of them
limits what a file unpacks to.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from io import BytesIO
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import unquote

from reground.core.language import storable_text
from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.reading.result import MOST_COLUMNS, Circumstances, Read, Rows, Text
from reground.retrieval.reading.web import plain

T = TypeVar("T")

MOST_MEMBERS = 20_000
MOST_UNPACKED = 256 << 20
MOST_HELD = 2_000_000
"""Elements of XML in memory at once: some 300 MB."""
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_OFFICE = "EncryptedPackage".encode("utf-16-le")
_ENTRY = b"PK\x01\x02"  # every member of an archive has one in the directory at the end
_HEAD = 65_536
"""Bytes in which declarations are looked for before anything is parsed; others are found by the parser."""
_TICK_ELEMENTS = 20_000


class Archive:
    """The members of an archive by name. Raises Unreadable for one that is damaged, encrypted or a bomb."""

    def __init__(self, content: bytes, tick: Callable[[], None]) -> None:
        if content.startswith(_OLD_OFFICE):
            raise _not_zipped(content)
        if content.count(_ENTRY) > MOST_MEMBERS:
            raise Unreadable(f"is an archive of more than {MOST_MEMBERS} members", kind="large")
        self._left = MOST_UNPACKED
        self._held = 0
        self._tick = tick
        self._zip = _guarded(lambda: zipfile.ZipFile(BytesIO(content)))
        self.names = frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """The content of a member; b"" where there is none."""
        if name not in self.names:
            return b""
        info = self._member(name)
        return _guarded(lambda: self._zip.read(info))  # no more bytes than it has announced

    def tree(self, name: str) -> Any:
        """A small member as a tree of lxml's; None where it is missing."""
        self._held = 0
        root = None
        for root in self._parsed(name):  # noqa: B007
            pass
        return root

    def elements(self, name: str, *tags: str) -> Iterator[Any]:
        """The elements of a member with these local names, each when it ends, and then emptied; all others stay.

        Elements inside of a wanted one are left to it.
        """
        self._held = 0
        for element in self._parsed(name):
            if local(element) in tags and not inside(element, *tags):
                yield element
                self._held -= sum(1 for _ in element.iter())
                _empty(element)

    def _parsed(self, name: str) -> Iterator[Any]:
        """Every element of a member, when it ends; the root is the last."""
        if name not in self.names:
            return
        from lxml import etree

        info = self._member(name)
        with _guarded(lambda: self._zip.open(info)) as head:
            if b"<!ENTITY" in _guarded(lambda: head.read(_HEAD)):
                raise _entities()
        parse = etree.iterparse(
            _guarded(lambda: self._zip.open(info)), events=("end",), resolve_entities=False, load_dtd=False,
            no_network=True, huge_tree=False, remove_comments=True, remove_pis=True,
        )  # fmt: skip
        for number, element in enumerate(_guarded_each(parse)):
            if not number:
                _refuse_entities(element)
            self._held += 1
            if self._held > MOST_HELD:
                raise Unreadable(f"holds more than {MOST_HELD} elements of XML at once", kind="large")
            if number % _TICK_ELEMENTS == 0:
                self._tick()
            yield element

    def _member(self, name: str) -> zipfile.ZipInfo:
        """What the archive says of a member, if that keeps the limits; its size counts against them."""
        info = self._zip.getinfo(name)
        if info.flag_bits & 1:
            raise Unreadable("is protected by a password; save it without one", kind="encrypted")
        if info.file_size > self._left:
            raise Unreadable(f"unpacks to more than {MOST_UNPACKED >> 20} MB", kind="large")
        self._left -= info.file_size
        self._tick()
        return info


def local(element: Any) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def attribute(element: Any, name: str) -> str:
    """The value of an attribute whatever its namespace; "" without one."""
    found = element.get(name)
    if found is None:
        found = next((value for key, value in element.items() if key.rpartition("}")[2] == name), "")
    return str(found)


def named(tree: Any, *names: str) -> Iterator[Any]:
    """The elements of a tree with these local names; none of a missing tree."""
    return (each for each in (() if tree is None else tree.iter()) if local(each) in names)


def inside(element: Any, *names: str) -> bool:
    """Whether an element stands in another of these local names."""
    return any(local(outer) in names for outer in element.iterancestors())


def _empty(element: Any) -> None:
    """Free what an element holds, and the emptied ones before it."""
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def _refuse_entities(element: Any) -> None:
    declared = element.getroottree().docinfo.internalDTD
    if declared is not None and next(declared.iterentities(), None) is not None:
        raise _entities()


def _entities() -> Unreadable:
    return Unreadable("is damaged: it declares entities, which no file of its kind needs", kind="damaged")


def _not_zipped(content: bytes) -> Unreadable:
    if _ENCRYPTED_OFFICE in content:
        return Unreadable("is protected by a password; save it without one", kind="encrypted")
    return Unreadable("is an old Office file under a new name; open it and save it again", kind="old")


def _guarded(work: Callable[[], T]) -> T:
    """The result of the work; what it trips over in a hostile or damaged archive is Unreadable."""
    try:
        return work()
    except (MemoryError, Unreadable):
        raise
    except Exception as error:  # zipfile and zlib raise some ten kinds
        raise Unreadable(f"is damaged: {error or type(error).__name__}") from None


def _guarded_each(parse: Iterator[tuple[str, Any]]) -> Iterator[Any]:
    done = object()
    while (event := _guarded(lambda: next(parse, done))) is not done:
        yield event[1]  # type: ignore[index]


_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_SKIPPED = ("Fallback", "del", "moveFrom")  # a second copy for old programs, and text that was struck out
_CONTROLS = ("sdt", "sdtContent", "customXml")
"""What forms put around cells and rows."""
_HEADING = re.compile(r"heading ([1-6])")
_NUMBER = re.compile(r"(\d{1,9})\.xml")
_TITLES = 20
"""Elements of a file's description among which its title is looked for."""


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
            line = tables.row(element) if is_row else paragraph(element)
            level = 0 if is_row else levels.get(_value(element, "pStyle"), 0)
            title = title or (line if level == 1 else "")
            if not text.add(f"{'#' * level} {line}" if level and line else line):
                break
    return Read(title or _title(archive.tree("docProps/core.xml")), str(text), partly=text.partly)


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
        block = [f"Slide {number}", *lines, *(["Notes:", *notes] if notes else [])]
        if (lines or notes) and not text.add("\n".join(block)):
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
    for each in named(tree, "Relationship"):
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
            text = " ".join(map(paragraph, named(cell, "p")))
            cells += [text, *[""] * (_columns(cell) - 1)]
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
    properties = next((each for each in cell if local(each) == "tcPr"), None)
    span = "" if properties is None else _value(properties, "gridSpan")
    return min(int(span), MOST_COLUMNS) if span.isdecimal() and len(span) < 9 else 1


def _heading_levels(archive: Archive) -> dict[str, int]:
    """The level of each style that is a heading or a title; ids depend on the language of Word, names do not."""
    levels = {}
    for style in named(archive.tree("word/styles.xml"), "style"):
        name = _value(style, "name").lower()
        match = _HEADING.fullmatch(name)
        if match or name == "title":
            levels[attribute(style, "styleId")] = int(match[1]) if match else 1
    return levels


def _value(element: Any, name: str) -> str:
    """The attribute `val` of the first element of this name in another; "" without one."""
    return next((attribute(each, "val") for each in named(element, name)), "")


def _title(tree: Any) -> str:
    """The title in a description of a file; "" without one."""
    titles = (each.text or "" for each in islice(named(tree, "title"), _TITLES))
    return next(filter(str.strip, titles), "")


def _slides(archive: Archive) -> list[str]:
    """The parts that are slides, in the order of the show."""
    parts = {id_: target for id_, type_, target in relations(archive, _SHOW) if type_.endswith("/slide")}
    ids = [_relation_id(each) for each in named(archive.tree(_SHOW), "sldId")]
    return list(dict.fromkeys(parts[id_] for id_ in ids if id_ in parts)) or sorted(parts.values(), key=_number)


_SHOW = "ppt/presentation.xml"


def _relation_id(element: Any) -> str:
    return next((str(value) for key, value in element.items() if key.endswith("}id")), "")


def _number(part: str) -> int:
    match = _NUMBER.search(part)
    return int(match[1]) if match else 0


def _paragraphs(archive: Archive, part: str) -> list[str]:
    """The paragraphs and rows of a slide; page numbers and the like, which fields fill in, are left out."""
    tables, lines = _Tables(), []
    for each in archive.elements(part, "p", "tr"):
        if local(each) == "tr":
            lines.append(tables.row(each))
        elif not any(local(piece) == "fld" for piece in each):
            lines.append(paragraph(each))
    return [line for line in lines if line]


_BOOK = "xl/workbook.xml"
_DATES = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
"""The built-in number formats that show a date or a time (ECMA-376, part 1, 18.8.30)."""
_COLUMN = re.compile(r"[A-Z]{1,3}")
_QUOTED = re.compile(r'"[^"]{0,255}"|\[[^\]]{0,255}\]|[\\_*].')
"""What is no code: texts, colours, and behind _ and * the characters whose width is kept free or that fill a cell, as
in the formats of amounts in dinars (`_d_i_n_.`) and marks (`_D_M`)."""
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that XML cannot hold, such as a carriage return (ECMA-376, part 1, 22.9.2.19)."""
_MOST_STRINGS = 2_000_000
_LAST_DAY = 2_958_466.0  # the year 9999 ends


def read_sheets(content: bytes, around: Circumstances) -> Read:
    """An .xlsx: for every sheet its name, and its rows as `column: value`."""
    archive = Archive(content, around.tick)
    sheets, is_1904 = _sheets(archive)
    if not sheets:
        raise Unreadable("is damaged: it holds no sheets", kind="damaged")
    values = _Values(_strings(archive), _date_styles(archive), datetime(1904, 1, 1) if is_1904 else None)
    text, partly = Text(), ""
    for name, part in sheets:
        rows = Rows()
        lines = rows.lines(values.row(row) for row in archive.elements(part, "row"))
        first = next(lines, None)
        if first is not None:
            text.extend([f"# {name}", first]).extend(lines)
        partly = partly or text.partly or rows.partly
    return Read("", str(text), partly=partly)


def _sheets(archive: Archive) -> tuple[list[tuple[str, str]], bool]:
    """Name and part of every sheet, and whether dates are counted from 1904."""
    parts = {id_: target for id_, type_, target in relations(archive, _BOOK) if type_.endswith("/worksheet")}
    sheets: list[tuple[str, str]] = []
    is_1904 = False
    for each in named(archive.tree(_BOOK), "sheet", "workbookPr"):
        if local(each) == "workbookPr":
            is_1904 = attribute(each, "date1904") in ("1", "true")
        elif part := parts.get(attribute(each, "id")):
            sheets.append((attribute(each, "name"), part))
    return sheets, is_1904


def _strings(archive: Archive) -> list[str]:
    """The strings that cells refer to by number."""
    strings: list[str] = []
    for each in archive.elements("xl/sharedStrings.xml", "si"):
        if len(strings) >= _MOST_STRINGS:
            raise Unreadable(f"has more than {_MOST_STRINGS} different texts in its cells", kind="large")
        strings.append(_string(each))
    return strings


def _string(element: Any) -> str:
    """A text without its reading aids for Chinese characters."""
    text = "".join(each.text or "" for each in named(element, "t") if not inside(each, "rPh"))
    return _ESCAPED.sub(_unescaped, text)


def _unescaped(escaped: re.Match[str]) -> str:
    return storable_text(chr(int(escaped[1], 16)))


def _date_styles(archive: Archive) -> frozenset[int]:
    """The numbers of the cell styles that show a date or a time."""
    styles = archive.tree("xl/styles.xml")
    if styles is None:
        return frozenset()
    own = {attribute(each, "numFmtId") for each in named(styles, "numFmt") if _is_date(each)}
    formats = next((each for each in styles if local(each) == "cellXfs"), ())
    ids = [attribute(each, "numFmtId") for each in formats]
    return frozenset(n for n, id_ in enumerate(ids) if id_ in own or (id_.isdecimal() and int(id_[:9]) in _DATES))


def _is_date(element: Any) -> bool:
    format_ = attribute(element, "formatCode")[:255].lower()
    code = _QUOTED.sub("", format_)
    lasts = any(f"[{letter}" in format_ for letter in "hms")  # hours beyond a day: a length of time
    return not lasts and any(letter in code for letter in "ymdh")


class _Values:
    """What stands in the cells of a row."""

    def __init__(self, strings: list[str], dates: frozenset[int], epoch: datetime | None) -> None:
        self._strings = strings
        self._dates = dates
        self._epoch = epoch

    def row(self, element: Any) -> list[str]:
        """The values of a row's cells, at their columns' places."""
        cells: list[str] = []
        for cell in element:
            place = _place(cell.get("r", ""), len(cells))
            if place > MOST_COLUMNS:
                cells += [""] * (MOST_COLUMNS + 1 - len(cells))  # one too many, so that the cut is seen
                break
            cells += [""] * (place - len(cells))
            cells[place:] = [self._value(cell)]
        return cells

    def _value(self, cell: Any) -> str:
        type_ = cell.get("t", "")
        stored = next((each.text or "" for each in cell if local(each) == "v"), "")
        if type_ == "inlineStr":
            return _string(cell)
        if type_ == "s":
            number = int(stored) if stored.isdecimal() and len(stored) < 9 else -1
            return self._strings[number] if 0 <= number < len(self._strings) else ""
        if type_ == "b":
            return "TRUE" if stored == "1" else "FALSE" if stored else ""
        style = cell.get("s", "")
        is_date = style.isdecimal() and len(style) < 9 and int(style) in self._dates
        if type_ == "str":
            return _ESCAPED.sub(_unescaped, stored)
        return stored if type_ in ("e", "d") else self._number(stored, is_date=is_date)

    def _number(self, stored: str, *, is_date: bool) -> str:
        try:
            number = float(stored)
        except ValueError:
            return stored
        if is_date and 0 <= number < _LAST_DAY:
            try:
                return self._date(number)
            except OverflowError:  # rounded, or counted from 1904, it lies beyond the last day
                return stored
        return f"{number:.15g}" if "." in stored and len(stored) > 15 else stored  # what Excel shows of 0.1 + 0.2

    def _date(self, number: float) -> str:
        # Excel has a 29th of February 1900, so that its first two months are a day behind.
        start = self._epoch or datetime(1899, 12, 31 if number < 60 else 30)
        moment = start + timedelta(seconds=round(number * 86_400))
        if number < 1:
            return moment.strftime("%H:%M:%S")
        return moment.date().isoformat() if number == int(number) else moment.isoformat(" ")


def _place(reference: str, following: int) -> int:
    """The column of a cell such as C7, from 0; the following one where it has no reference or goes back."""
    match = _COLUMN.match(reference)
    place = 0
    for letter in match.group() if match else "":
        place = place * 26 + ord(letter) - 64
    return max(place - 1, following) if place else following


_CONTENT = "content.xml"
_MOST_SPACES = 100
_UNSAID = ("tracked-changes", "annotation")


def read_open_document(content: bytes, around: Circumstances) -> Read:
    """An .odt, .ods or .odp: headings as Markdown, rows of sheets with their columns' names, slides by number."""
    archive = Archive(content, around.tick)
    if _CONTENT not in archive.names:
        raise Unreadable("is damaged: it holds no OpenDocument content", kind="damaged")
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise Unreadable("is protected by a password; save it without one", kind="encrypted")
    text, sheets = Text(), _OpenTables()
    for element in archive.elements(_CONTENT, "p", "h", "table-row", "page", "tracked-changes"):
        if not all(text.add(block) for block in _open_blocks(element, sheets)):
            break
    return Read(_title(archive.tree("meta.xml")), str(text), partly=text.partly or sheets.partly)


class _OpenTables:
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
        yield from self._rows.lines([_sheet_cells(element)])
        self.partly = self.partly or self._rows.partly

    def slide(self, element: Any) -> str:
        """A slide with its number."""
        self._slides += 1
        lines = [line for each in _unremarked(element) if (line := _open_text(each))]
        return "\n".join([f"Slide {self._slides}", *lines]) if lines else ""


def _open_blocks(element: Any, sheets: _OpenTables) -> Iterator[str]:
    name = local(element)
    if name == "table-row":
        yield from sheets.row(element)
    elif name == "page":
        yield sheets.slide(element)
    elif name == "h":
        level = attribute(element, "outline-level")
        yield f"{'#' * min(int(level) if level.isdecimal() and len(level) < 3 else 1, 6)} {_open_text(element)}"
    elif name == "p":
        yield _open_text(element)


def _sheet_cells(row: Any) -> list[str]:
    """The cells of a row up to the last that is not empty: office programs write the empty rest of a sheet too."""
    cells: list[str] = []
    empty = 0
    for cell in row:
        if local(cell) not in ("table-cell", "covered-table-cell"):
            continue
        text = " ".join(_open_text(each) for each in _unremarked(cell))
        times = _repeated(cell, "number-columns-repeated")
        if not text:
            empty += times
            continue
        room = MOST_COLUMNS + 1 - len(cells)  # one too many, so that the cut is seen
        cells += ([""] * min(empty, room) + [text] * min(times, room))[:room]
        empty = 0
        if len(cells) > MOST_COLUMNS:
            break
    return cells


def _unremarked(element: Any) -> Iterator[Any]:
    """The paragraphs of a cell or a slide, without remarks."""
    return (each for each in named(element, "p", "h") if not inside(each, *_UNSAID))


def _repeated(element: Any, name: str) -> int:
    """How often something is there, said by an attribute; at least once and within reason."""
    number = attribute(element, name)
    return max(1, int(number)) if number.isdecimal() and len(number) < 9 else 1


def _open_text(element: Any) -> str:
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
        return " " * min(_repeated(element, "c"), _MOST_SPACES)
    return " " if name in ("tab", "line-break", "p", "h") else ""


_LARGEST_CHAPTER = 32 << 20
_PAGES = ("application/xhtml+xml", "text/html")


def read_epub(content: bytes, around: Circumstances) -> Read:
    """A book's title and the text of its chapters."""
    archive = Archive(content, around.tick)
    root = next(named(archive.tree("META-INF/container.xml"), "rootfile"), None)
    package = attribute(root, "full-path") if root is not None else ""
    book = archive.tree(package)
    if book is None:
        raise Unreadable("is damaged: it holds no book", kind="damaged")
    chapters = _chapters(book, posixpath.dirname(package))
    locked = _locked(archive)
    text, partly = Text(), ""
    for chapter in chapters:
        if chapter in locked:
            continue
        page, missing = _chapter_text(archive, chapter)
        partly = partly or missing
        if not text.add(page):
            break
    if locked.intersection(chapters) and not str(text):
        raise Unreadable("is protected against copying", kind="encrypted")
    return Read(_title(book), str(text), partly=text.partly or partly)


def _chapter_text(archive: Archive, chapter: str) -> tuple[str, str]:
    """The text of a chapter, and what of it was not read."""
    content = archive.read(chapter)
    if len(content) > _LARGEST_CHAPTER:
        raise Unreadable(f"has a chapter of more than {_LARGEST_CHAPTER >> 20} MB", kind="large")
    return plain(decode(content, markup=True).text)


def _chapters(book: Any, folder: str) -> list[str]:
    """The pages of a book in the order of reading, which its spine gives, without its list of chapters (nav)."""
    items = {
        attribute(each, "id"): posixpath.normpath(posixpath.join(folder, unquote(attribute(each, "href"))))
        for each in named(book, "item")
        if attribute(each, "media-type") in _PAGES and "nav" not in attribute(each, "properties").split()
    }
    order = [attribute(each, "idref") for each in named(book, "itemref")]
    return list(dict.fromkeys(items[id_] for id_ in order if id_ in items)) or list(items.values())


def _locked(archive: Archive) -> set[str]:
    """The parts that are encrypted; fonts often are, and do no harm."""
    parts = named(archive.tree("META-INF/encryption.xml"), "CipherReference")
    return {posixpath.normpath(unquote(attribute(each, "URI"))) for each in parts}

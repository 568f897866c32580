"""Word, PowerPoint, Excel, OpenDocument and EPUB: zip archives of XML, read within limits.

No library is asked: none of them limits what a file unpacks to, and what is needed of each format is little.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count, islice, takewhile
from typing import Any
from urllib.parse import unquote

from reground.core.language import storable_text
from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.reading.archive import (
    LOCKED,
    Archive,
    Relation,
    attribute,
    beside,
    inside,
    named,
    number_in,
    related,
    relations,
    setting,
)
from reground.retrieval.reading.formulas import formula, local, noted
from reground.retrieval.reading.markup import Context, Piece, behind_link, joined, paragraph, picture, run_sign, sign_of
from reground.retrieval.reading.number_formats import BUILT_IN, shown
from reground.retrieval.reading.numbering import MOST_STYLES, OpenNumbers, SlideNumbers, WordNumbers
from reground.retrieval.reading.result import MOST_COLUMNS, Circumstances, Placed, Read, Table, Text
from reground.retrieval.reading.web import plain


def _title(tree: Any) -> str:
    """The title in a description of a file; "" without one."""
    return next((each.text for each in named(tree, "title") if each.text and each.text.strip()), "")


class _Tables:
    """The tables that the rows of a part belong to, each with the names of its own columns. tag: of their elements."""

    def __init__(self, text: Text, tag: str) -> None:
        self._text = text
        self._tag = f"{{*}}{tag}"
        self._element: Any = None
        self._table = Table(text)
        self._above: list[str] = []
        self._tables = self._next = 0

    def lines(self, row: Any, cells_of: Callable[[Any, list[str]], list[str]]) -> list[str]:
        """The lines that are certain with a row, whose cells are made with those above; the first of a sheet stands
        behind its name."""
        element = next(row.iterancestors(self._tag), None)
        lines = list[str]()
        if element is not self._element:
            lines += self._table.end()
            self._tables += 1
            sheet = attribute(element, "name") if element is not None and inside(element, "spreadsheet") else ""
            self._element = element
            self._table = Table(self._text, f"# {sheet}\n\n" if sheet else "", sheet or f"table {self._tables}")
            self._above, self._next = [], 1
        self._above = cells_of(row, self._above)
        number, self._next = self._next, self._next + max(1, number_in(row, "number-rows-repeated"))
        return lines + self._table.lines(self._above, number)

    def end(self) -> Sequence[str]:
        """The lines of a table's last rows, before whatever is no row."""
        return self._table.end()


_CONTROLS = ("sdt", "sdtContent", "customXml")  # what forms put around cells and rows
_MARGINS = ("header", "footer", "comments")
_PAGE_NAMES = (".htm", ".html", ".xhtml", ".txt")
_EMBEDDED = "embedded files in it were not read"
_HEADING = re.compile(r"heading ([1-6])")


def read_word(content: bytes, around: Circumstances) -> Read:
    """A .docx: headings as Markdown, the rows of tables on a line each, then notes, headers, footers and comments."""
    archive = Archive(content, around.tick)
    main = related(archive, "", "officeDocument", "word/document.xml")
    if not main:
        raise Unreadable("is damaged: it holds no Word document")
    signs, styles = dict[str, str](), archive.tree(related(archive, main, "styles", "styles.xml"))
    for style in named(styles, "style"):
        signs[attribute(style, "styleId")] = sign_of(setting(style, "vertAlign"))
    levels = _heading_levels(styles)
    text, title = Text(), ""
    tables = _Tables(text, "tbl")
    numbers = WordNumbers(archive.tree(related(archive, main, "numbering", "numbering.xml")), styles)
    notes = (related(archive, main, kind, f"{kind}.xml") for kind in ("footnotes", "endnotes"))
    for part in (main, *notes):
        context = _context(archive, part, text)._replace(signs=signs)
        cells_of = partial(_cells, say=partial(_said, numbers=numbers, context=context))
        for element in archive.elements(part, "p", "tr"):
            is_row = local(element) == "tr"
            if is_row:
                lines = tables.lines(element, cells_of)
            else:
                number, said = numbers.number(element), paragraph(element, context)
                line, level = _numbered(number, said), levels.get(setting(element, "pStyle"), 0)
                title = title or (said if level == 1 else "")
                lines = [*tables.end(), f"{'#' * level} {line}" if level and line else line]
            if not all(map(text.add, lines)):
                break
        for line in tables.end():
            text.add(line)
    for line in _margins(archive, main, numbers, signs, text):
        text.add(line)
    return text.read(title or _title(archive.tree(related(archive, "", "core-properties", "docProps/core.xml"))))


def _heading_levels(styles: Any) -> dict[str, int]:
    """The levels of the styles of headings and titles, and 0 of others, by their ids, which depend on the language of
    Word; the names do not. A style is of the level of the one that it is based on, unless it has its own."""
    said = {
        attribute(style, "styleId"): [setting(style, name) for name in ("name", "outlineLvl", "basedOn")]
        for style in named(styles, "style")
    }
    levels: dict[str, int] = {}
    for id_ in said:
        style = id_
        for _ in range(MOST_STYLES):
            name, outline, style = said.get(style, ("", "", ""))
            match, is_title = _HEADING.fullmatch(name.lower()), name.lower() == "title"
            if match or outline or is_title:
                levels[id_] = int(match[1]) if match else 1 if is_title else _OUTLINE.get(outline, 0)
                break
    return levels


_OUTLINE = {str(level - 1): level for level in range(1, 7)}


def _margins(archive: Archive, main: str, numbers: WordNumbers, signs: dict[str, str], text: Text) -> Iterable[str]:
    """What stands in headers and footers, once, the comments, and pages that were put in; not the numbers of pages."""
    lines = []
    for each in relations(archive, main):
        if each.kind == "aFChunk" and each.target.lower().endswith(_PAGE_NAMES):
            lines.append(plain(decode(archive.read(each.target), markup=True).text)[0])
        elif each.kind == "aFChunk":
            text.partly = text.partly or _EMBEDDED
        if each.kind not in _MARGINS:
            continue
        context = Context(signs, _links(archive, each.target), fields=[])
        for element in archive.elements(each.target, "p"):
            said = _said(element, numbers, context)
            author = next((attribute(outer, "author") for outer in element.iterancestors("{*}comment")), "")
            if any(map(str.isalpha, said)):
                lines.append(f"Comment by {author}: {said}" if author else said)
    return dict.fromkeys(lines)


def _said(element: Any, numbers: WordNumbers | SlideNumbers, context: Context) -> str:
    return _numbered(numbers.number(element), paragraph(element, context))


def _links(archive: Archive, part: str) -> dict[str, str]:
    return {each.id: each.target for each in relations(archive, part) if each.kind == "hyperlink"}


def _context(archive: Archive, part: str, text: Text) -> Context:
    """The links and drawings of a part. text: is told of files in it."""
    if any(each.kind in ("package", "oleObject") for each in relations(archive, part)):
        text.partly = text.partly or _EMBEDDED
    drawn = {each.id: "\n".join(_drawing(archive, each, text)) for each in relations(archive, part)}
    return Context({}, _links(archive, part), drawn, [])


_MOST_LEVELS = 10  # of names before each value of a chart
_CHARTS_LEFT = "not all of its charts were read; save them with their values"


def _drawing(archive: Archive, relation: Relation, text: Text) -> Iterator[str]:
    """The lines of a drawing, of a sheet's shapes and of their charts. text: is told what was not read."""
    if relation.kind == "chart":
        yield from _chart(archive.tree(relation.target), text)
    elif relation.kind in ("diagramData", "drawing"):
        yield from filter(None, map(paragraph, named(archive.tree(relation.target), "p")))
    elif relation.kind == "chartEx":  # waterfalls, maps and the like
        text.partly = text.partly or _CHARTS_LEFT
    if relation.kind == "drawing":
        for each in relations(archive, relation.target):
            if each.kind != "drawing":
                yield from _drawing(archive, each, text)


def _chart(tree: Any, text: Text) -> Iterator[str]:
    """The title of a chart with those of its axes, and each series as `name: category: value; ...`."""
    titles = (" ".join(map(paragraph, named(each, "p"))).strip() for each in named(tree, "title"))
    yield ": ".join(("Chart", *filter(None, titles)))
    for series in named(tree, "ser"):
        parts = {local(each): each for each in series}
        values = _points(parts.get("val", parts.get("yVal")))
        labels = _points(parts.get("cat", parts.get("xVal")))
        name = " ".join(_points(parts.get("tx")).values()) or "".join(each.text or "" for each in parts.get("tx", ()))
        said = (f"{labels[at]}: {value}" if labels.get(at) else value for at, value in values.items())
        if values:
            yield f"{name.strip()}: {'; '.join(said)}".removeprefix(": ")
        else:
            text.partly = text.partly or _CHARTS_LEFT


def _points(element: Any) -> dict[int, str]:
    """The texts or numbers that a chart has stored, by their place; those of outer levels stand before."""
    levels = list(islice(named(element, "lvl"), _MOST_LEVELS)) or [element]
    points = _level_points(levels[0])
    for level in levels[1:]:
        outer = _level_points(level)
        above = ""
        for at in points:
            above = outer.get(at, above)
            points[at] = f"{above} {points[at]}"
    return points


def _level_points(element: Any) -> dict[int, str]:
    code = next((each.text or "" for each in named(element, "formatCode")), "")
    points = dict[int, str]()
    for each in named(element, "pt"):
        stored = each.findtext("{*}v") or ""
        is_number = inside(each, "numCache", "numLit")
        said = shown(stored, attribute(each, "formatCode") or code) if is_number else stored
        points[number_in(each, "idx", len(points))] = said
    return points


def read_slides(content: bytes, around: Circumstances) -> Read:
    """A .pptx: slide by slide in the order of the show, each with its notes."""
    archive = Archive(content, around.tick)
    main = related(archive, "", "officeDocument", "ppt/presentation.xml")
    parts = _listed(archive, main, ("slide",), "slides/slide{}.xml")
    if not main:
        raise Unreadable("is damaged: it holds no slides")
    # A slide has a number in the attribute id and the part's name in another of the same local name.
    shown = (value for each in named(archive.tree(main), "sldId") for key, value in each.items() if key.endswith("}id"))
    slides = list(dict.fromkeys(parts[id_] for id_ in shown if id_ in parts)) or list(parts.values())
    text, title, people = Text(), "", _people(archive, main)
    for number, slide in enumerate(slides, start=1):
        lines = _slide_lines(archive, slide, text)
        title = title or (lines[0] if lines else "")
        notes = _slide_lines(archive, related(archive, slide, "notesSlide"), text)
        lines += [*(["Notes:", *notes] if notes else []), *(said for _, said in _comments(archive, slide, people))]
        if lines and not text.add(Placed("\n".join([f"Slide {number}", *lines]), f"slide {number}")):
            break
    return text.read(title)


def _people(archive: Archive, main: str) -> dict[str, str]:
    """The names of those who comment on a presentation or a workbook, by their ids."""
    parts = (each.target for each in relations(archive, main) if each.kind in ("commentAuthors", "authors", "person"))
    people = (each for part in parts for each in named(archive.tree(part), "cmAuthor", "author", "person"))
    return {attribute(each, "id"): attribute(each, "name") or attribute(each, "displayName") for each in people}


def _comments(archive: Archive, part: str, people: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The comments on a slide or a sheet and the replies to them, each behind its cell."""
    parts = {each.target: each.kind for each in relations(archive, part) if each.kind in _COMMENTS}
    has_threads = "threadedComment" in parts.values()
    for tree in map(archive.tree, parts):
        known = {**people, **{str(number): each.text or "" for number, each in enumerate(named(tree, "author"))}}
        for comment in named(tree, "comment", "threadedComment", "cm", "reply"):
            author = known.get(attribute(comment, "authorId") or attribute(comment, "personId"), "")
            body = next((each for each in comment if local(each) in ("text", "txBody")), None)
            if body is None or (has_threads and author.startswith("tc=")):  # a copy for old programs
                continue
            said = " ".join(map(paragraph, named(body, "p"))) or _string(body) or body.text or ""
            said, cell = " ".join(said.split()).removeprefix(f"{author}: "), attribute(comment, "ref")
            if said:
                yield cell, f"Comment{cell and f' on {cell}'}{author and f' by {author}'}: {said}"


_COMMENTS = ("comments", "threadedComment")


def _listed(archive: Archive, part: str, kinds: Sequence[str], usual: str) -> dict[str, str]:
    """The members of some kinds that a part refers to, by their ids; where there are none, those of the usual names."""
    parts = {each.id: each.target for each in relations(archive, part) if each.kind in kinds}
    names = (beside(archive, part, usual.format(number)) for number in count(1))
    return parts or {str(number): name for number, name in enumerate(takewhile(bool, names), start=1)}


def _slide_lines(archive: Archive, part: str, text: Text) -> list[str]:
    """The paragraphs and rows of a slide, without page numbers and the like: fields that fill in a whole paragraph."""
    tables, lines = _Tables(text, "tbl"), list[str]()
    context = _context(archive, part, text)
    say = partial(_said, numbers=SlideNumbers(), context=context)
    for each in archive.elements(part, "p", "tr", "cNvPr"):
        if local(each) == "cNvPr":
            lines += [*tables.end(), picture(each).strip()]
        elif local(each) == "tr":
            lines += tables.lines(each, partial(_cells, say=say))
        elif any(each.text and each.text.strip() and not inside(each, "fld") for each in named(each, "t")):
            lines += [*tables.end(), say(each)]
    return [line for line in (*lines, *tables.end(), *context.drawings.values()) if line]


def _numbered(number: str, text: str) -> str:
    return f"{number} {text}" if number and text else text


def _cells(row: Any, above: list[str], say: Callable[[Any], str]) -> list[str]:
    """The texts of the cells of a row, also those in content controls, each at the column where it begins. One that
    goes on from the row above has its text. PowerPoint writes an empty cell for each more column that a cell takes."""
    cells: list[str] = []
    for each in row:
        if local(each) == "tc":
            span = next((number_in(inner, "val") for inner in named(each.find("{*}tcPr"), "gridSpan")), 1)
            columns = min(max(span, 1), MOST_COLUMNS)
            outermost = (inner for inner in named(each, "p") if not inside(inner, "p", "Fallback"))
            text = " ".join(map(say, outermost))
            cells += [above[len(cells)] if _goes_on(each) and len(cells) < len(above) else text]
            cells += [""] * (columns - 1)
        elif local(each) in _CONTROLS:
            cells += _cells(each, above[len(cells) :], say)
    return cells


def _goes_on(cell: Any) -> bool:
    """Whether a cell of Word or PowerPoint is a part of the one above it."""
    merged = (attribute(inner, "val") for inner in named(cell.find("{*}tcPr"), "vMerge"))
    return cell.get("vMerge") in ("1", "true") or next(merged, "restart") in ("", "continue")


_LETTERS = re.compile(r"[A-Z]{1,3}")
_MERGED = re.compile(rb"""mergeCell\s[^>]{0,100}?ref=["']([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})["']""")
_MOST_MERGED = 100_000
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that XML cannot hold, such as a carriage return (ECMA-376, part 1, 22.9.2.19)."""
_MOST_STRINGS = 2_000_000
_NOT_COMPUTED = "some of its formulas have no value; open it in a spreadsheet and save it again"


def read_sheets(content: bytes, around: Circumstances) -> Read:
    """An .xlsx: for every sheet its name, and its rows as `column: value`."""
    archive = Archive(content, around.tick)
    main = related(archive, "", "officeDocument", "xl/workbook.xml")
    parts, book = _listed(archive, main, ("worksheet", "chartsheet"), "worksheets/sheet{}.xml"), archive.tree(main)
    sheets = {  # a part once, however many sheets name it
        parts.get(attribute(each, "id")) or parts.get(str(number), ""): attribute(each, "name")
        for number, each in enumerate(named(book, "sheet"), start=1)
    }
    if not any(sheets):
        raise Unreadable("is damaged: it holds no sheets")
    strings: list[str] = []
    shared = related(archive, main, "sharedStrings", "sharedStrings.xml")
    for each in archive.elements(shared, "si"):
        if len(strings) >= _MOST_STRINGS:
            raise Unreadable(f"has more than {_MOST_STRINGS} different texts in its cells", kind="large")
        strings.append(_string(each))
    styles = archive.tree(related(archive, main, "styles", "styles.xml"))
    is_1904 = any(attribute(each, "date1904") in ("1", "true") for each in named(book, "workbookPr"))
    text, people = Text(), _people(archive, main)
    values = _Values(text, strings, _formats(styles), datetime(1904, 1, 1) if is_1904 else None)
    for part, name in sheets.items():
        rows = values.rows(archive.elements(part, "row"), _merged(archive, part))
        Table(text, f"# {name}\n\n", name).extend(rows)
        for line in (line for each in relations(archive, part) for line in _drawing(archive, each, text)):
            text.add(line)
        for cell, line in _comments(archive, part, people):
            text.add(Placed(line, f"{name}, {cell}"))
    return text.read()


def _string(element: Any) -> str:
    """A text without its reading aids for Chinese characters."""
    texts = (each for each in named(element, "t") if not inside(each, "rPh"))
    return _unescaped(joined(Piece(each.text or "", run_sign(each.getparent())) for each in texts))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda escaped: storable_text(chr(int(escaped[1], 16))), text)


def _formats(styles: Any) -> list[str]:
    """The code of the number format of each cell style."""
    own = {attribute(each, "numFmtId"): attribute(each, "formatCode") for each in named(styles, "numFmt")}
    listed = next(named(styles, "cellXfs"), ())
    ids = (attribute(each, "numFmtId") for each in listed if local(each) == "xf")
    return [own.get(id_, "") or BUILT_IN.get(int(id_) if id_.isdecimal() else 0, "") for id_ in ids]


def _merged(archive: Archive, part: str) -> dict[int, list[tuple[int, int, int]]]:
    """The cells over several rows or columns of a sheet, by their first row: first column, last row, last column."""
    merged: dict[int, list[tuple[int, int, int]]] = {}
    for match in islice(archive.found(part, _MERGED, b"mergeCell"), _MOST_MERGED):
        first, top, last, bottom = (each.decode() for each in match.groups())
        merged.setdefault(int(top), []).append((_column(first), int(bottom), min(_column(last), MOST_COLUMNS)))
    return merged


def _column(letters: str) -> int:
    """The place of a column from 0."""
    place = 0
    for letter in letters:
        place = place * 26 + ord(letter) - 64
    return place - 1


@dataclass(frozen=True)
class _Values:
    """What stands in the cells of a row. formats: of the styles. epoch: the first day, where it is 1904."""

    text: Text
    strings: list[str]
    formats: list[str]
    epoch: datetime | None

    def rows(
        self, elements: Iterable[Any], merged: dict[int, list[tuple[int, int, int]]]
    ) -> Iterator[tuple[int, list[str]]]:
        """The numbers and the values of rows. What stands over several of them holds for all."""
        held: dict[int, tuple[int, str]] = {}  # until which row, and what, by the column
        number = 0
        for element in elements:
            number = number_in(element, "r", number + 1)
            cells = self.row(element)
            held = {column: each for column, each in held.items() if number <= each[0]}
            begun = merged.pop(number, [])
            wide = [*((column, column) for column in held), *((first, last) for first, _, last in begun)]
            cells += [""] * (max((last + 1 for _, last in wide), default=0) - len(cells))
            for column, (_, text) in held.items():
                cells[column] = cells[column] or text
            for first, bottom, _ in begun:
                if bottom > number and first < len(cells) and cells[first]:
                    held[first] = (bottom, cells[first])
            yield number, cells

    def row(self, element: Any) -> list[str]:
        """The values of a row's cells, at their columns' places."""
        cells: list[str] = []
        for cell in element:
            column = _LETTERS.match(cell.get("r", ""))
            # the following one where it has no reference or goes back
            place = max(_column(column.group() if column else ""), len(cells))
            if place > MOST_COLUMNS:
                cells += [""] * (MOST_COLUMNS + 1 - len(cells))  # one too many, so that the cut is seen
                break
            cells += [""] * (place - len(cells))
            cells.append(self._value(cell))
        return cells

    def _value(self, cell: Any) -> str:
        type_ = cell.get("t", "")
        value = cell.findtext("{*}v")
        stored = value or ""
        if type_ == "inlineStr":
            return _string(cell)
        if not stored and (type_ != "str" or value is None):
            return self._formula(cell)
        if type_ == "s":
            number = int(stored) if stored.isdecimal() and len(stored) < 9 else len(self.strings)
            return self.strings[number] if number < len(self.strings) else ""
        if type_ == "b":
            return "TRUE" if stored == "1" else "FALSE" if stored else ""
        if type_ == "str":
            return _unescaped(stored)
        style = number_in(cell, "s")
        code = self.formats[style] if 0 <= style < len(self.formats) else ""
        return stored if type_ in ("e", "d") else shown(stored, code, self.epoch)

    def _formula(self, cell: Any) -> str:
        """The formula of a cell whose value nobody has computed; "" where another cell has it."""
        formula = cell.find("{*}f")
        if formula is None:
            return ""
        self.text.partly = self.text.partly or _NOT_COMPUTED
        return f"={formula.text}" if formula.text else ""


_CONTENT = "content.xml"
_NO_CHART = "objects of other programs in it were not read"
_STYLES = ("style", "list-style", "outline-style")
_MOST_SPACES = 100
_REMARKS = ("tracked-changes", "annotation")


def read_open_document(content: bytes, around: Circumstances) -> Read:
    """An .odt, .ods or .odp: headings as Markdown, rows of sheets with their columns' names, slides by number."""
    archive = Archive(content, around.tick)
    if not archive.find(_CONTENT):
        raise Unreadable("is damaged: it holds no OpenDocument content")
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise Unreadable(LOCKED, kind="encrypted")
    text, slides = Text(), 0
    tables, words = _Tables(text, "table"), _OpenText()
    cells_of = partial(_sheet_cells, say=words.cell)
    for style in named(archive.tree("styles.xml"), *_STYLES):
        words.learn(style)
    for element in archive.elements(_CONTENT, *_STYLES, "p", "h", "table-row", "page", "tracked-changes"):
        name, block, place = local(element), "", ""
        if name in _STYLES:
            words.learn(element)
        if name == "page":
            slides += 1
            lines = [line for each in _unremarked(element) if (line := words.line(each))]
            block, place = "\n".join([f"Slide {slides}", *lines]) if lines else "", f"slide {slides}"
        elif name in ("p", "h"):
            level = min(number_in(element, "outline-level", 1), 6) if name == "h" else 0
            block = f"{'#' * level} {words.line(element)}"
        blocks = tables.lines(element, cells_of) if name == "table-row" else [*tables.end(), Placed(block, place)]
        if not all(map(text.add, blocks)):
            break
    for block in tables.end():
        text.add(block)
    _add_objects(archive, text, cells_of)
    return text.read(_title(archive.tree("meta.xml")))


def _add_objects(archive: Archive, text: Text, cells_of: Callable[[Any, list[str]], list[str]]) -> None:
    """Add the rows of charts and the equations; of other objects tell that they were not read."""
    for part in takewhile(bool, (archive.find(f"Object {number}/content.xml") for number in count(1))):
        rows = [cells_of(row, []) for row in archive.elements(part, "table-row")]
        tree = None if rows else archive.tree(part)
        said = formula(tree) if tree is not None and local(tree) == "math" else ""
        text.partly = text.partly or ("" if rows or said else _NO_CHART)
        Table(text, name="chart").extend(enumerate(rows, start=1))
        text.add(said)


def _sheet_cells(row: Any, above: list[str], say: Callable[[Any], str]) -> list[str]:
    """The cells of a row up to the last that is not empty: office programs write the empty rest of a sheet too. One
    that goes on from the row above has its text."""
    cells: list[str] = []
    empty = across = 0
    for cell in row:
        if local(cell) not in ("table-cell", "covered-table-cell"):
            continue
        times = max(1, number_in(cell, "number-columns-repeated"))
        at = len(cells) + empty
        if local(cell) == "covered-table-cell":
            times, across = max(times - across, 0), max(across - times, 0)
            texts = above[at : at + times]
        else:
            across = max(number_in(cell, "number-columns-spanned", 1), 1) - 1
            texts = [say(cell)] * min(times, MOST_COLUMNS + 1)
            times += across
        while texts and not texts[-1]:
            texts.pop()
        texts += [""] * (min(across, MOST_COLUMNS - at - 1) if texts else 0)
        if not texts:
            empty += times
            continue
        room = MOST_COLUMNS + 1 - len(cells)  # one too many, so that the cut is seen
        cells += ([""] * min(empty, room) + texts)[:room]
        empty = times - len(texts) if len(texts) < min(times, room) else 0
        if len(cells) > MOST_COLUMNS:
            break
    return cells


def _unremarked(element: Any) -> Iterator[Any]:
    """The paragraphs of a cell or a slide, without remarks and without those inside of others, which are theirs."""
    return (each for each in named(element, "p", "h") if not inside(each, "p", "h", *_REMARKS))


class _OpenText:
    """The texts of paragraphs."""

    def __init__(self) -> None:
        self._signs: dict[str, str] = {}  # of the styles that raise or lower
        self._numbers = OpenNumbers()

    def learn(self, style: Any) -> None:
        """Take in a style of characters, of lists or of headings."""
        if local(style) != "style":
            self._numbers.learn(style)
            return
        shifts = (attribute(each, "text-position").split() for each in named(style, "text-properties"))
        shift = next((words[0].removesuffix("%") for words in shifts if words), "")
        if shift not in ("", "0"):
            self._signs[attribute(style, "name")] = "_" if shift == "sub" or shift.startswith("-") else "^"

    def text(self, paragraph: Any) -> str:
        """The text of a paragraph, without what was struck out and without remarks in the margin."""
        return " ".join(joined(self._pieces(paragraph, "")).split())

    def line(self, paragraph: Any) -> str:
        """The text of a paragraph behind its number."""
        return _numbered(self._numbers.number(paragraph), self.text(paragraph))

    def cell(self, cell: Any) -> str:
        """The text of a cell, or its formula where nobody has computed it."""
        text = " ".join(map(self.line, _unremarked(cell)))
        formula = attribute(cell, "formula").partition("=")[2]
        return text or (f"={formula}" if formula and not attribute(cell, "value-type") else "")

    def _pieces(self, element: Any, sign: str) -> Iterator[Piece]:
        yield Piece(element.text or "", sign)
        for each in element:
            yield from () if local(each) in _REMARKS else self._said(each, sign)
            yield Piece(each.tail or "", sign)

    def _said(self, element: Any, sign: str) -> Iterator[Piece]:
        name = local(element)
        if name == "s":
            yield Piece(" " * min(max(1, number_in(element, "c")), _MOST_SPACES))
        elif name in ("note-citation", "note-body"):
            said = self.text(element)
            yield Piece(f" ({said})" if name == "note-body" else noted(said, "1"))
        else:
            own = self._signs.get(attribute(element, "style-name"), "") if name == "span" else ""
            gap = Piece(" " if name in ("tab", "line-break", "p", "h", "title", "desc") else "")
            yield gap
            yield from self._pieces(element, own or sign)
            yield Piece(behind_link(attribute(element, "href"), element)) if name == "a" else gap


_LARGEST_CHAPTER = 32 << 20
_PAGES = ("application/xhtml+xml", "text/html")


def read_epub(content: bytes, around: Circumstances) -> Read:
    """A book's title and the text of its chapters, in the order of reading, which its spine gives, without its list of
    chapters (nav)."""
    archive = Archive(content, around.tick)
    root = next(named(archive.tree("META-INF/container.xml"), "rootfile"), None)
    package = attribute(root, "full-path") if root is not None else ""
    book = archive.tree(package)
    if book is None:
        raise Unreadable("is damaged: it holds no book")
    items = {
        attribute(each, "id"): posixpath.normpath(
            posixpath.join(posixpath.dirname(package), unquote(attribute(each, "href")))
        )
        for each in named(book, "item")
        if attribute(each, "media-type") in _PAGES and "nav" not in attribute(each, "properties").split()
    }
    order = (attribute(each, "idref") for each in named(book, "itemref"))
    chapters = dict.fromkeys(items[id_] for id_ in order if id_ in items) or items.values()
    references = named(archive.tree("META-INF/encryption.xml"), "CipherReference")
    locked = {posixpath.normpath(unquote(attribute(each, "URI"))) for each in references}  # fonts often are
    text = Text()
    for number, chapter in enumerate(chapters, start=1):
        page = b"" if chapter in locked else archive.read(chapter)
        if len(page) > _LARGEST_CHAPTER:
            raise Unreadable(f"has a chapter of more than {_LARGEST_CHAPTER >> 20} MB", kind="large")
        words, missing = plain(decode(page, markup=True).text, links=True)
        text.partly = text.partly or missing
        if not text.add(Placed(words, f"part {number}")):
            break
    read = text.read(_title(book))
    if locked.intersection(chapters) and not read.text:
        raise Unreadable("is protected against copying", kind="encrypted")
    return read

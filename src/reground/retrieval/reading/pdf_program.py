"""A PDF's texts, or a picture of one page, as a program that reads the PDF from its input:

    python -P pdf_program.py PARENT text LETTERS [PAGES]    title, texts and pictures of the first PAGES, as JSON
    python -P pdf_program.py PARENT draw PAGE PIXELS        one page, counted from 0, in grey, as a PGM

PARENT: the process that begins it. LETTERS: the most characters that are read. PIXELS: those of the longer side. PDFium
is native code, and a hostile file may crash or swell it. It does so here, in a process without consequences, which does
not outlive the one that began it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import re
import resource
import signal
import sys
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium
from pypdfium2 import PdfDocument, PdfImage, PdfiumError, PdfPage, PdfTextPage

from reground.retrieval.reading.formulas import lowered, noted, raised

_MEMORY = 2 << 30  # bytes that the process may ask for
_SECONDS = 600  # seconds that the processor may work for it
_PR_SET_PDEATHSIG = 1
_PASSWORD = 4  # PDFium's number of the error that a password is missing
_DIVIDE = "\ufffe"
_DIVIDED = re.compile(r"(-?)([^\W\d_]{0,50}+)\ufffe([^\W\d_]{0,50}+)")
"""A word that a line's end divides: PDFium puts a sign of its own for the hyphen there."""
_LEAST_LINES, _MOST_BOXES, _SAMPLE = 8, 2000, 400  # of a page with two columns; characters
_LEAST_FILLED = 0.7  # of a column's width, by the lines of prose
_SHORTEST = 3  # letters of the first half of a compound

_DIGITS = re.compile(r"[-+\u2212\u2013]?\d++")
_NOTED = re.compile(r"(?:[^\W\d_]{4}|[.,;:!?”\"'’)」』]|[\u1100-\u11ff\u3040-\u9fff\uac00-\ud7ff])\Z")
"""A word or the end of a sentence: a raised number behind it is the mark of a note. Behind a unit it is a power."""
_LINE, _PIECE = re.compile(r"[^\r\n]++"), re.compile(r"\S++")
_APART, _LEADING = 0.7, 0.4  # of the height of a line: the room between cells, and between the lines of one cell
_LEAST_ROWS, _MOST_ROWS, _HEADS_TRIED = 3, 500, 5
_SMALLER, _RISE = 0.85, 0.15  # of the height of the character before it

_FROM_RIGHT = re.compile("[\u0590-\u065f\u066a-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]{2,}")
"""Words of Hebrew and Arabic, without figures, which are read from the left."""
_OPENING, _MIRRORED = re.compile(r" ?\( ?"), str.maketrans("()", ")(")

_LEADERS = re.compile(r"(?: ?\.){5,}")  # the dots of a table of contents, which would fill passages


def text(letters: int, most: int | None = None) -> None:
    """Write the title and the pages, or what is wrong."""
    try:
        result = _read(PdfDocument(sys.stdin.buffer.read()), letters, most)
    except PdfiumError as error:
        result = {"why": str(error), "is_locked": error.err_code == _PASSWORD}
    json.dump(result, sys.stdout)


def draw(number: int, longest: int) -> None:
    """Write one page as a picture."""
    page = PdfDocument(sys.stdin.buffer.read())[number]
    bitmap = page.render(scale=longest / max(page.get_size()), grayscale=True)
    pixels = memoryview(bitmap.buffer).cast("B")
    sys.stdout.buffer.write(b"P5 %d %d 255\n" % (bitmap.width, bitmap.height))
    for row in range(bitmap.height):
        sys.stdout.buffer.write(pixels[row * bitmap.stride : row * bitmap.stride + bitmap.width])


def _read(document: PdfDocument, letters: int, most: int | None) -> dict[str, object]:
    """The fields of `pdf.Pages`. Raises PdfiumError if no page can be loaded."""
    texts: list[str] = []
    pictures: list[int] = []
    files = range(min(pdfium.FPDFDoc_GetAttachmentCount(document), _MOST_ADDED))
    attached = [_string(pdfium.FPDFAttachment_GetName, pdfium.FPDFDoc_GetAttachment(document, each)) for each in files]
    unread = 0
    document.init_forms()
    for number in range(len(document))[:most]:
        try:
            page = document[number]
            letters_of = page.get_textpage()
            shown = _with_tables(letters_of, _spelt(letters_of, letters_of.get_text_range()))
            content = _with_brackets(_by_columns(letters_of, shown).replace("\r\n", "\n"))
            added = list(_added(page, letters_of, attached))
            letters_of.close()
            texts.append("\n".join([_LEADERS.sub(" …", content), *added]))
            images = page.get_objects([pdfium.FPDF_PAGEOBJ_IMAGE]) if not content.strip() else ()
            sizes = [each.get_px_size() for each in images if isinstance(each, PdfImage)]
            pictures.append(max((width * height for width, height in sizes), default=0))
            page.close()
        except PdfiumError:
            texts[number:], pictures[number:] = [""], [0]
            unread += 1
        letters -= len(texts[-1])
        if letters < 0:
            texts[-1] = texts[-1][:letters]
            break
    if texts and unread == len(texts):
        raise PdfiumError("none of its pages can be loaded")
    entries = _entries(document)
    return {
        "title": document.get_metadata_value("Title"),
        "texts": _united([*texts[:-1], "\n".join([*texts[-1:], *entries])] if entries else texts),
        "pictures": pictures,
        "unread": unread,
        "is_cut": letters < 0,
        "attached": attached,
    }


def _spelt(letters: PdfTextPage, text: str) -> str:
    """The text of a page whose words of Hebrew and Arabic are spelt as they are read, not as PDFium saw them drawn."""

    def word(match: re.Match[str]) -> str:
        first, last = (_letter(letters, text, place) for place in (match.start(), match.end() - 1))
        return match[0][::-1] if first.right > first.left and first.left < last.left else match[0]

    return _FROM_RIGHT.sub(word, text)


def _with_brackets(text: str) -> str:
    """A text whose lines of Hebrew and Arabic open brackets before they close them, where all do the contrary: they
    stand there as they look, and the blank before one that opens stands behind it."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        is_mirrored = 0 <= line.find(")") < line.find("(") and line.rfind(")") < line.rfind("(")
        if is_mirrored and line.count("(") == line.count(")") and _FROM_RIGHT.search(line):
            lines[number] = _OPENING.sub(" (", line.translate(_MIRRORED))
    return "\n".join(lines)


class _Cell(NamedTuple):
    """A part of a line with room around it. start, end: its place in the text."""

    left: float
    right: float
    start: int
    end: int


class _Line(NamedTuple):
    """A line of a page. bottom, top: of its first character."""

    start: int
    end: int
    bottom: float
    top: float
    cells: list[_Cell]


def _with_tables(letters: PdfTextPage, text: str) -> str:
    """The text of a page in which each row of a table is a paragraph that has the names of its columns."""
    pieces: list[str] = []
    done = 0
    for lines in _wide_lines(letters, text):
        for start in range(min(len(lines), _HEADS_TRIED)):
            if rows := _under_names(letters, text, lines[start:]):
                pieces += [_with_scripts(letters, text, done, lines[start].start), *_as_rows(letters, text, rows)]
                done = lines[-1].end
                break
    return "".join([*pieces, _with_scripts(letters, text, done)])


def _wide_lines(letters: PdfTextPage, text: str) -> Iterator[list[_Line]]:
    """Lines one under the other in which parts stand apart, and what goes on below one of these parts."""
    lines: list[_Line] = []
    for found in _LINE.finditer(text):
        line = _line(letters, text, found.start(), found.end())
        last = lines[-1] if lines else None
        if line and last and _is_on(last, line):
            lines[-1] = last._replace(end=line.end, cells=[*last.cells, *line.cells])
        elif line and (len(line.cells) > 1 or (last and _goes_on(last, line))) and (not last or line.top < last.top):
            lines.append(line)
        else:
            yield lines[:_MOST_ROWS]
            lines = [line] if line and len(line.cells) > 1 else []
    yield lines[:_MOST_ROWS]


def _line(letters: PdfTextPage, text: str, start: int, end: int) -> _Line | None:
    """A line with its parts; None where it has no place."""
    words = ((word.start(), word.end()) for word in _PIECE.finditer(text, start, end))
    boxes = [(_letter(letters, text, first), _letter(letters, text, last - 1), first, last) for first, last in words]
    boxes = [each for each in boxes if each[0].right > each[0].left]
    if not boxes:
        return None
    bottom, top = boxes[0][0].bottom, boxes[0][0].top
    room = _APART * (top - bottom)
    edges = [at for at, (one, two) in enumerate(pairwise(boxes), 1) if two[0].left - one[1].right > room]
    cells = [
        _Cell(boxes[first][0].left, boxes[last - 1][1].right, boxes[first][2], boxes[last - 1][3])
        for first, last in pairwise([0, *edges, len(boxes)])
    ]
    return _Line(start, end, bottom, top, cells)


def _number(letters: PdfTextPage, place: int) -> int:
    """PDFium's number of a character of the text."""
    return int(pdfium.FPDFText_GetCharIndexFromTextIndex(letters, place))


def _font(letters: PdfTextPage, place: int) -> str:
    name = ctypes.create_string_buffer(_LONGEST_LABEL)
    pdfium.FPDFText_GetFontInfo(letters, _number(letters, place), name, _LONGEST_LABEL, ctypes.c_int())
    return name.value.decode("utf-8", "replace")


def _is_on(line: _Line, other: _Line) -> bool:
    """Whether the other one goes on to the right, as behind a raised number."""
    middle = (other.bottom + other.top) / 2
    return line.bottom < middle < line.top and other.cells[0].left >= line.cells[-1].right


def _goes_on(line: _Line, other: _Line) -> bool:
    """Whether the other one is a second line of a cell: alone close below it, not in the first column."""
    is_close = line.bottom - other.top < _LEADING * (other.top - other.bottom)
    return is_close and len(other.cells) == 1 and other.cells[0].left > line.cells[0].right


def _columns(lines: Sequence[_Line]) -> list[tuple[float, float]]:
    """From where to where the columns go, where no cell stands over two of them."""
    columns: list[tuple[float, float]] = []
    for cell in sorted(cell for line in lines for cell in line.cells):
        if columns and cell.left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], cell.right))
        else:
            columns.append((cell.left, cell.right))
    return columns


def _under_names(letters: PdfTextPage, text: str, lines: Sequence[_Line]) -> list[dict[int, _Cell]]:
    """The lines as rows of cells by the numbers of their columns, if the first one names the columns of the others;
    else none. It has a cell in each, and either its font is not theirs, or there are three columns or more, in one of
    which all cells but its own have numbers. Two columns of prose are no table."""
    columns = _columns(lines)
    rows = [{bisect(columns, (cell.left, math.inf)) - 1: cell for cell in line.cells} for line in lines]
    are_apart = all(len(row) == len(line.cells) for row, line in zip(rows, lines, strict=True))
    if len(columns) < 2 or len(rows) < _LEAST_ROWS or len(rows[0]) < len(columns) or not are_apart:
        return []
    names = [text[cell.start : cell.end] for cell in lines[0].cells]
    has_numbers = any(map(str.isdigit, "".join(names)))
    if max(map(len, names)) > _LONGEST_LABEL or (has_numbers and len(columns) == 2):
        return []
    below = [[row[number] for row in rows[1:] if number in row] for number in range(len(columns))]
    width = columns[-1][1] - columns[0][0]
    if sum(len(cells) >= _LEAST_LINES and _is_filled([cell[:2] for cell in cells], width) for cells in below) > 1:
        return []
    fonts, *others = [{_font(letters, cell.start) for cell in line.cells} for line in lines]
    if len(fonts) == 1 and fonts.isdisjoint(set().union(*others)):
        return rows
    values = ([text[cell.start : cell.end] for cell in cells] for cells in below if len(cells) > 1)
    counted = any(all(any(map(str.isdigit, value)) for value in column) for column in values)
    return rows if counted and len(columns) > 2 and not has_numbers else []


def _as_rows(letters: PdfTextPage, text: str, placed: Sequence[dict[int, _Cell]]) -> Iterator[str]:
    """The rows of a table whose first one names its columns, each as a paragraph."""
    rows: list[dict[int, str]] = []
    for line in placed:
        cells = {at: _with_scripts(letters, text, cell.start, cell.end) for at, cell in line.items()}
        if len(cells) == 1 and 0 not in cells:
            [(at, more)] = cells.items()
            rows[-1][at] = f"{rows[-1].get(at, '')} {more}"
        else:
            rows.append(cells)
    names, *others = [{at: " ".join(cell.split()) for at, cell in row.items()} for row in rows]
    yield "\n" + " | ".join(names.values()) + "\n"
    for row in others:
        yield "\n" + "; ".join(f"{names[at]}: {cell}" for at, cell in sorted(row.items())) + "\n"


def _with_scripts(letters: PdfTextPage, text: str, start: int = 0, stop: int | None = None) -> str:
    """A part of a page's text in which numbers that are raised or lowered stand apart from what they follow: 10^6.
    PDFium ends a line behind them; it goes on here."""
    pieces: list[str] = []
    done, stop = start, len(text) if stop is None else stop
    for run in _DIGITS.finditer(text, start, stop):
        places = ((at, _script(letters, text, at)) for at in range(max(run.start(), done + 1), run.end()))
        place, script = next((each for each in places if each[1]), (0, 0))
        if not script:
            continue
        end = place + 1
        while end < stop and not text[end].isspace() and _script(letters, text, end, place - 1) == script:
            end += 1
        is_note = _NOTED.search(text, max(place - 4, 0), place)
        write = lowered if script < 0 else noted if is_note else raised
        pieces += [text[done:place], write(text[place:end], text[place - 1])]
        done = end
        if text.startswith("\r\n", end) and _is_beside(letters, text, end + 2, place - 1):
            pieces.append(" " if text[end + 2].isalnum() else "")
            done = end + 2
    return "".join([*pieces, text[done:stop]])


def _script(letters: PdfTextPage, text: str, place: int, base: int | None = None) -> int:
    """1 for a character that is smaller and raised behind the one before it, -1 for a lowered one, else 0."""
    before = place - 1 if base is None else base
    if before < 0 or text[before].isspace():
        return 0
    own, other = _letter(letters, text, place), _letter(letters, text, before)
    height = other.top - other.bottom
    if not 0 < own.top - own.bottom < _SMALLER * height:
        return 0
    rise = (own.bottom - other.bottom) / height
    return 1 if rise > _RISE else -1 if rise < 0 else 0


def _is_beside(letters: PdfTextPage, text: str, place: int, base: int) -> bool:
    """Whether a character stands on the line of another one, to its right."""
    if place >= len(text):
        return False
    own, other = _letter(letters, text, place), _letter(letters, text, base)
    return bool(own.left >= other.right and other.bottom <= (own.bottom + own.top) / 2 <= other.top)


def _letter(letters: PdfTextPage, text: str, place: int) -> Any:
    """Where a character of the text lies, with the room that its font gives to each; nowhere if it is not known."""
    box = pdfium.FS_RECTF()
    number = _number(letters, place)
    if number >= 0 and pdfium.FPDFText_GetUnicode(letters, number) == ord(text[place]):
        pdfium.FPDFText_GetLooseCharBox(letters, number, box)
    return box


def _by_columns(letters: PdfTextPage, text: str) -> str:
    """The text of a page, and of two columns of prose that were written row by row first all of the left one. In
    prose, lines are about as long as their column is wide; rows of a table are not."""
    lines, middle = text.count("\n"), len(text) // 2
    in_middle = text.count("\n", middle, middle + _SAMPLE)  # there a line ought to be of two pieces or more
    if lines < _LEAST_LINES or 2 * letters.count_rects(middle, _SAMPLE) < 3 * in_middle:
        return text
    count = min(letters.count_rects(), _MOST_BOXES)
    boxes = [letters.get_rect(number) for number in range(count)]  # left, bottom, right, top
    least, most = min(box[0] for box in boxes), max(box[2] for box in boxes)
    starts = Counter(round(box[0]) for box in boxes if box[0] > least + (most - least) / 3)
    start = starts.most_common(1)[0][0] - 1 if starts else most
    right = [box for box in boxes if box[0] >= start]
    low, top = min((box[1] for box in right), default=0), max((box[3] for box in right), default=0)
    beside = [box for box in boxes if box[0] < start and low <= (box[1] + box[3]) / 2 <= top]
    turns = sum((before[0] < start) != (after[0] < start) for before, after in pairwise(boxes))
    sides = ([box[::2] for box in column] for column in (beside, right))
    are_filled = all(len(side) >= _LEAST_LINES and _is_filled(side, most - least) for side in sides)
    if not are_filled or turns < len(right) or any(box[2] > start for box in beside):
        return text
    parts = ((None, top, None, None), (None, low, start, top), (start, low, None, top), (None, None, None, low))
    return "\n".join(filter(str.strip, (letters.get_text_bounded(*part) for part in parts)))


def _is_filled(column: Sequence[Sequence[float]], width: float) -> bool:
    """Whether parts of lines, from left to right, are as long as those of prose."""
    lengths = [right - left for left, right in column]
    return sum(lengths) / len(lengths) > max(_LEAST_FILLED * max(lengths), width / 4)


def _united(texts: list[str]) -> list[str]:
    """The texts without what divides words at the ends of lines. A compound keeps its hyphen: one that stands so
    elsewhere, or whose halves do, and of a text that divides no words also one whose first half does."""
    divided = [match for text in texts if _DIVIDE in text for match in _DIVIDED.finditer(text)]
    forms = {form for match in divided for form in _forms(match)}
    wanted = {f"{before}{form}{behind}" for form in forms for before in ("", "(") for behind in ("", *".,;:)")}
    words = (word for text in texts if forms for word in wanted.intersection(text.lower().split()))
    known = {word.strip("().,;:") for word in words}
    divides = any(_forms(match)[0] in known for match in divided)

    def united(match: re.Match[str]) -> str:
        joined, compound, left, right = _forms(match)
        least = 2 if match[1] else _SHORTEST if right in known else _SHORTEST + 1
        is_compound = left in known and (right in known or not divides) and len(left) >= least
        is_word = left and match[3][:1].islower() and (joined in known or not (compound in known or is_compound))
        return f"{match[1]}{match[2]}{'' if is_word else '-'}{match[3]}"

    return [_DIVIDED.sub(united, text) if _DIVIDE in text else text for text in texts]


def _forms(match: re.Match[str]) -> tuple[str, str, str, str]:
    left, right = match[2].lower(), match[3].lower()
    return left + right, f"{left}-{right}", left, right


def _entries(document: PdfDocument) -> list[str]:
    """What stands on a form in XML (XFA), and what its fields hold; its page may only name the program to open it."""
    if pdfium.FPDF_GetFormType(document.raw) not in (pdfium.FORMTYPE_XFA_FULL, pdfium.FORMTYPE_XFA_FOREGROUND):
        return []
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, remove_comments=True)
    packets = {}
    for number in range(min(pdfium.FPDF_GetXFAPacketCount(document.raw), _MOST_ADDED)):
        size = ctypes.c_ulong()
        name = ctypes.create_string_buffer(_LONGEST_LABEL)
        pdfium.FPDF_GetXFAPacketName(document.raw, number, name, _LONGEST_LABEL)
        pdfium.FPDF_GetXFAPacketContent(document.raw, number, None, 0, size)
        content = ctypes.create_string_buffer(size.value + 1)
        pdfium.FPDF_GetXFAPacketContent(document.raw, number, content, size.value, size)
        packets[name.value] = etree.fromstring(content.raw[: size.value] or b"<a/>", parser)
    values: dict[str, list[str]] = {}
    for each in packets.get(b"datasets", etree.Element("a")).iter("{*}*"):
        if not len(each) and each.text:
            values.setdefault(etree.QName(each).localname, []).append(each.text)
    parts = packets.get(b"template", etree.Element("a")).iter("{*}draw", "{*}field")
    return [line for each in parts if (line := _entry(each, values.get(each.get("name", ""), [])))]


def _entry(part: Any, values: list[str]) -> str:
    """A text of a form, or a field behind its caption. values: of the fields of its name, the first of which it has."""
    found = (part.find(path) for path in ("{*}caption/{*}value", "{*}value"))
    caption, own = ("" if each is None else " ".join("".join(each.itertext()).split()) for each in found)
    value = " ".join(values.pop(0).split()) if values else own
    name = part.get("name", "") if value and part.tag.endswith("}field") else ""
    return ": ".join(filter(None, (caption or name, value)))


_MOST_ADDED = 1000  # fields and notes of one page, and attached files, that are read
_TICKS = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
_VALUES = (pdfium.FPDF_FORMFIELD_TEXTFIELD, pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)
_NO_NOTES = (pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_POPUP, pdfium.FPDF_ANNOT_WIDGET)
_LONGEST_LABEL = 100
_WORD = re.compile(r"[^\W\d_]+")


def _annotations(page: PdfPage) -> Iterator[Any]:
    """What lies on a page: fields of a form, notes, attached files."""
    for number in range(min(pdfium.FPDFPage_GetAnnotCount(page), _MOST_ADDED)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        if annotation:
            yield annotation
            pdfium.FPDFPage_CloseAnnot(annotation)


def _is_field(annotation: Any) -> bool:
    return bool(pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_WIDGET)


def _added(page: PdfPage, letters: PdfTextPage, attached: list[str]) -> Iterator[str]:
    """What was filled into the fields of a page, and its notes. Attached files go to those of the document."""
    boxes = [_box(each) for each in _annotations(page) if _is_field(each)]
    form = page.formenv.raw if page.formenv else None
    for annotation in _annotations(page):
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        note = "" if kind in _NO_NOTES else _string(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents").strip()
        value = _filled(form, annotation) if form and _is_field(annotation) else ""
        file = pdfium.FPDFAnnot_GetFileAttachment(annotation) if kind == pdfium.FPDF_ANNOT_FILEATTACHMENT else None
        if file and len(attached) < _MOST_ADDED:
            attached.append(_string(pdfium.FPDFAttachment_GetName, file))
        if value:
            yield f"{_label(form, letters, annotation, boxes)}: {value}"
        elif note:
            yield f"Note: {note}"


def _filled(form: Any, annotation: Any) -> str:
    """The value of a field, or whether it is ticked; "" for a button, an empty field and a choice that was not made."""
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in _VALUES:
        return " ".join(_string(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation).split())
    is_ticked = kind in _TICKS and pdfium.FPDFAnnot_IsChecked(form, annotation)
    return "ticked" if is_ticked else "not ticked" if kind == pdfium.FPDF_FORMFIELD_CHECKBOX else ""


def _label(form: Any, letters: PdfTextPage, annotation: Any, boxes: Sequence[Any]) -> str:
    """What names a field: the words between it and the fields beside it, those that its own name has a word of, else
    those before it, or behind one to tick; its own name where there are none."""
    box = _box(annotation)
    beside = [each for each in boxes if each.bottom < box.top and each.top > box.bottom]
    left = max((each.right for each in beside if each.right <= box.left), default=None)
    right = min((each.left for each in beside if each.left >= box.right), default=None)
    before = letters.get_text_bounded(left=left, bottom=box.bottom, right=box.left, top=box.top)
    behind = letters.get_text_bounded(left=box.right, bottom=box.bottom, right=right, top=box.top)
    names = (pdfium.FPDFAnnot_GetFormFieldAlternateName, pdfium.FPDFAnnot_GetFormFieldName)
    own = next(filter(None, (_string(name, form, annotation) for name in names)), "Field")
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    is_tick = kind in _TICKS
    if kind == pdfium.FPDF_FORMFIELD_RADIOBUTTON:  # all of a group have one name
        own = f"{own} {_string(pdfium.FPDFAnnot_GetFormFieldExportValue, form, annotation)}".strip()
    near = (behind, before) if is_tick else (before,)
    labels = [label for words in near if (label := " ".join(words.split())[-_LONGEST_LABEL:].strip(" :._"))]
    words = set(_WORD.findall(own.lower()))
    return next((label for label in labels if words.intersection(_WORD.findall(label.lower()))), [*labels, own][0])


def _box(annotation: Any) -> Any:
    box = pdfium.FS_RECTF()
    pdfium.FPDFAnnot_GetRect(annotation, box)
    return box


def _string(call: Callable[..., int], *of: object) -> str:
    """A text of PDFium, which says first how long it is; in UTF-16 with a zero behind it."""
    size = int(call(*of, None, 0))
    buffer = ctypes.create_string_buffer(size + 2)
    call(*of, ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), size)
    return buffer.raw[: max(size - 2, 0)].decode("utf-16-le", "replace")


def bind(parent: int) -> None:
    """Set the limits of this process, and let it end with the one that began it, where the system can do so."""
    for limit, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, _SECONDS)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended meanwhile
        sys.exit(1)


if __name__ == "__main__":
    _, process, work, *numbers = sys.argv
    bind(int(process))
    if work == "draw":
        draw(*map(int, numbers))
    else:
        text(*map(int, numbers))

"""Excel: the rows of every sheet of an .xlsx, with the values of formulas as Excel stored them.

Read here and not by openpyxl: that would be one more package, and it sets no limit to what a file unpacks to. What is
needed of the format is small: shared strings, sheets, and which styles are dates.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from reground.core.language import storable_text
from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading.archive import Archive, attribute, inside, local
from reground.retrieval.reading.office import relations
from reground.retrieval.reading.result import Circumstances, Read, Text
from reground.retrieval.reading.rows import MOST_COLUMNS, Rows

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
    found: list[tuple[str, str]] = []
    is_1904 = False
    book = archive.tree(_BOOK)
    for each in [] if book is None else book.iter():
        if local(each) == "sheet" and (part := parts.get(attribute(each, "id"))):
            found.append((attribute(each, "name"), part))
        elif local(each) == "workbookPr":
            is_1904 = attribute(each, "date1904") in ("1", "true")
    return found, is_1904


def _strings(archive: Archive) -> list[str]:
    """The strings that cells refer to by number."""
    found: list[str] = []
    for each in archive.elements("xl/sharedStrings.xml", "si"):
        if len(found) >= _MOST_STRINGS:
            raise Unreadable(f"has more than {_MOST_STRINGS} different texts in its cells", kind="large")
        found.append(_string(each))
    return found


def _string(element: Any) -> str:
    """A text without its reading aids for Chinese characters."""
    said = "".join(each.text or "" for each in element.iter() if local(each) == "t" and not inside(each, "rPh"))
    return _ESCAPED.sub(_unescaped, said)


def _unescaped(escaped: re.Match[str]) -> str:
    return storable_text(chr(int(escaped[1], 16)))


def _date_styles(archive: Archive) -> frozenset[int]:
    """The numbers of the cell styles that show a date or a time."""
    styles = archive.tree("xl/styles.xml")
    if styles is None:
        return frozenset()
    own = {attribute(each, "numFmtId") for each in styles.iter() if local(each) == "numFmt" and _is_date(each)}
    formats = next((each for each in styles if local(each) == "cellXfs"), ())
    ids = [attribute(each, "numFmtId") for each in formats]
    return frozenset(n for n, id_ in enumerate(ids) if id_ in own or (id_.isdecimal() and int(id_[:9]) in _DATES))


def _is_date(element: Any) -> bool:
    written = attribute(element, "formatCode")[:255].lower()
    code = _QUOTED.sub("", written)
    lasts = any(f"[{letter}" in written for letter in "hms")  # hours beyond a day: a length of time
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
    found = _COLUMN.match(reference)
    place = 0
    for letter in found.group() if found else "":
        place = place * 26 + ord(letter) - 64
    return max(place - 1, following) if place else following

"""What every reader is told and gives back, texts of bounded size, and the rows of tables as lines.

A reader is a function of a file's content and its `Circumstances`, and gives a `Read`. It puts blocks into a `Text`,
which bounds them and holds what was left out.

A row is a paragraph of its own, `column: value; column: value`, so that no passage begins inside of one and a quote is
a whole row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise, zip_longest
from types import MappingProxyType
from typing import NamedTuple

MOST_TEXT = 100_000_000  # characters of text that are kept of one file
ONLY_FIRST = f"only its first {MOST_TEXT // 1_000_000} million characters were read"

Tick = Callable[..., object]
"""Called now and then in slow work, with the share of the file that is read, from 0 to 1, where it is known. What it
raises ends the reading."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What surrounds the reading of a file.

    tick: see there. language: the ISO 639-1 code of the documents' language, for the recognition of scanned pages.
    """

    tick: Tick = lambda share=0.0: None
    language: str = "en"


PLAIN = Circumstances()


class Heading(NamedTuple):
    """A heading. at: where it begins in the text. level: 1 to 6. id: its own in a page, or that of its section."""

    at: int
    level: int
    text: str
    id: str = ""


class Read(NamedTuple):
    """What is in a file. guessed: its encoding where that was a guess. partly: what of it was not read, and why.

    places: from which character on the text is of which place, such as "slide 3", where that is known. fields: what the
    file says of itself by names, such as its date, its author or its tags.
    """

    title: str
    text: str
    guessed: str = ""
    partly: str = ""
    places: Sequence[tuple[int, str]] = ()
    fields: Mapping[str, object] = MappingProxyType({})


class Placed(str):
    """A block of text that knows its place in the file, such as "row 3"."""

    place: str

    def __new__(cls, block: str, place: str) -> Placed:
        """The block at a place."""
        placed = super().__new__(cls, block)
        placed.place = place
        return placed


class Text:
    """A text that grows block by block up to `MOST_TEXT` characters; a blank line stands between blocks.

    partly: what was not read, in words; "" where everything was.
    """

    def __init__(self) -> None:
        self._text = StringIO()
        self._room = MOST_TEXT
        self._is_cut = False
        self._places: list[tuple[int, str]] = []
        self.partly = ""

    def add(self, block: str, *, goes_on: bool = False) -> bool:
        """Add a block if it holds anything, and of one that does not fit its beginning. False where there is no room
        for more. goes_on: whether it is the next line of the block before."""
        place, block = block.place if isinstance(block, Placed) else "", block.strip()
        if block and not self._is_cut:
            if place != (self._places[-1][1] if self._places else "") and len(self._places) <= MOST_ROWS:
                self._places.append((MOST_TEXT - self._room, place if len(self._places) < MOST_ROWS else ""))
            mark = "" if self._room == MOST_TEXT else "\n" if goes_on else "\n\n"
            self._is_cut = len(mark) + len(block) > self._room
            self.partly = ONLY_FIRST if self._is_cut else self.partly
            self._room -= self._text.write((mark + block)[: self._room])
        return not self._is_cut

    def read(self, title: str = "", guessed: str = "") -> Read:
        """What a reader gives back. Half a surrogate pair, which JSON may escape, becomes a question mark."""
        title, text = (each.encode("utf-8", "replace").decode() for each in (title, self._text.getvalue()))
        return Read(title, text, guessed, self.partly, self._places)


MOST_ROWS = 200_000  # that are read of one table, and places that are kept of one file
MOST_COLUMNS = 500
MOST_ATTRIBUTES = 1000  # of one element; what looks for one goes through all
TOO_MANY_ATTRIBUTES = f"has an element with more than {MOST_ATTRIBUTES:,} attributes"
_LONGEST_NAME = 100  # characters of a column's name; a longer text is none, as in a table that only serves the layout
MOST_CELL = 20_000  # characters of one cell


def record(names: Iterable[str], cells: Iterable[str]) -> str:
    """A row as readers write it, `name: value; name: value`, of the cells that hold something. Some have no name."""
    pairs = zip_longest(names, cells, fillvalue="")
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)


class Table:
    """Turns the rows of one table into blocks of a text. Of its first rows one is taken for the columns' names, if it
    is wider than all before it, or two, where the first names groups of columns.

    heading: stands before the first row that holds anything. name: what the place of a row begins with.
    """

    def __init__(self, text: Text, heading: str = "", name: str = "") -> None:
        self._text = text
        self._heading = heading
        self._name = f"{name}, " if name else ""
        self._names: Sequence[str] = ()
        self._first: list[list[str]] | None = []  # rows that wait until it is known which of them holds the names
        self._waiting: list[int] = []  # their numbers
        self._held = 0
        self._count = 0

    def extend(self, rows: Iterable[tuple[int, Sequence[str]]]) -> None:
        """Add rows, each behind its number, until there is no room."""
        for number, row in rows:
            if not all(map(self._text.add, self.lines(row, number))) or self._count > MOST_ROWS:
                break
        for line in self.end():
            self._text.add(line)

    def lines(self, row: Sequence[str], number: int | None = None) -> list[Placed]:
        """The lines that are certain with the next row; none for one that holds nothing or is too far behind.

        number: of the row; the next one by default.
        """
        self._count += 1
        number = self._count if number is None else number
        if self._count > MOST_ROWS or len(row) > MOST_COLUMNS or any(len(cell) > MOST_CELL for cell in row):
            most = f"{MOST_ROWS:,} rows, {MOST_COLUMNS} columns and {MOST_CELL:,} characters a cell"
            self._text.partly = self._text.partly or f"only {most} were read"
        cells = [cell and " ".join(cell[:MOST_CELL].split()) for cell in row[:MOST_COLUMNS]]
        if not any(cells) or self._count > MOST_ROWS:
            return []
        if self._first is None:
            return [self._line(cells, number)]
        self._first.append(cells)
        self._waiting.append(number)
        self._held += sum(map(len, cells), len(cells))
        is_certain = sum(_width(each) > 1 for each in self._first[-_LOOKED_AT:]) == _LOOKED_AT
        return self.end() if is_certain or self._held > _MOST_HELD else []

    def end(self) -> list[Placed]:
        """The lines of the rows that wait."""
        rows, self._first = self._first or [], None
        at, count, names = _head(rows)
        lines = list(map(self._line, rows[:at], self._waiting))
        if names:
            lines.append(self._begun(" | ".join(filter(None, names)), self._waiting[at]))
            self._names = names
        return [*lines, *map(self._line, rows[at + count :], self._waiting[at + count :])]

    def _line(self, cells: Sequence[str], number: int) -> Placed:
        return self._begun(record(self._names, cells), number)

    def _begun(self, line: str, number: int) -> Placed:
        heading, self._heading = self._heading, ""
        return Placed(heading + line, f"{self._name}row {number}")


_LOOKED_AT = 12  # rows of several cells by which it is told whether one above them holds names
_MOST_HELD = 1_000_000  # cells and characters of rows that wait
_LABEL = re.compile(  # a number that may name a column: a year, a range, a share, a date or a time
    r"1[5-9]\d\d|2[01]\d\d|[<>≤≥] ?\d{1,9}|\d{1,9}\+|\d{1,3} ?%|\d{1,4}(?: ?[-–/:] ?\d{1,4}){1,3}"
    r"|\d{1,4}[./]\d{1,2}[./]\d{1,4}|\d{4}-\d\d-\d\d[T ][\d:]{5,8}"
)


def _head(rows: Sequence[list[str]]) -> tuple[int, int, list[str]]:
    """Where the rows of names begin, how many they are, and the names; the number of rows and no names without one."""
    widest = 0
    for at, cells in enumerate(rows):
        if _width(cells) <= widest:
            continue
        widest = _width(cells)
        below = rows[at + 1 : at + 1 + _LOOKED_AT]
        if _stands_over(cells, below) and (names := _grouped(cells, below[0])):
            return at, 2, names
        is_caption = len(below) > 1 and _width(below[0]) > widest + 1 and _has_figures(below[0], below[1:])
        if _are_names(cells, below) and not (is_caption and _are_names(below[0], below[1:])):
            return at, 1, cells
    return len(rows), 0, []


def _width(cells: Sequence[str]) -> int:
    return sum(map(bool, cells))


def _is_number(cell: str) -> bool:
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))


def _at(cells: Sequence[str], places: Iterable[int]) -> list[str]:
    return [cells[place] if place < len(cells) else "" for place in places]


def _has_figures(names: Sequence[str], below: Sequence[list[str]]) -> bool:
    """Whether numbers stand under a word, as under the name of a column."""
    words = [place for place, name in enumerate(names) if name and not _is_number(name)]
    return any(any(map(_is_number, _at(cells, words))) for cells in below)


def _are_names(cells: Sequence[str], below: Sequence[list[str]]) -> bool:
    """Whether cells are names of the columns of the rows below. A sign alone, such as # or %, may well be one, and so
    may years, dates and numbers that count up, where those below are of another kind; equal ones if figures follow; no
    formula."""
    places = [place for place, cell in enumerate(cells) if cell]
    filled = _at(cells, places)
    if len(filled) < 2 or max(map(len, filled)) > _LONGEST_NAME or any(cell[0] == "=" for cell in filled):
        return False
    is_once = len(set(filled)) == len(filled)
    numbers = [place for place in places if _is_number(cells[place])]
    if not numbers:
        return is_once or _has_figures(cells, below)
    values = _at(cells, numbers)
    step, are_labels = _step(values), _are_labels(values)
    is_bare = len(numbers) == len(filled)  # then only years that count up, or what stands beside an empty corner
    if not (step or are_labels) or (is_bare and not (are_labels and (step or places[0]))):
        return False
    others = (_at(row, numbers) for row in below)
    alike = sum(_step(each) == step and (_are_labels(each) or not are_labels) for each in others)
    is_widest = all(not any(row[places[-1] + 1 :]) for row in below)
    return is_once and is_widest and 2 * alike < len(below)


def _are_labels(values: Sequence[str]) -> bool:
    return all(map(_LABEL.fullmatch, values))


def _step(values: Sequence[str]) -> int:
    """By how much whole numbers count up or down, where all steps are equal, and of only two numbers 1; 0 otherwise."""
    if not all(value.isdecimal() and len(value) < 9 for value in values):
        return 0
    steps = {int(after) - int(before) for before, after in pairwise(values)}
    step = steps.pop() if len(steps) == 1 else 0
    return step if len(values) > 2 or step in (1, -1) else 0


def _stands_over(cells: Sequence[str], below: Sequence[list[str]]) -> bool:
    """Whether cells name groups of the columns named below: one stands over two names, none over a column without."""
    if len(below) < 2 or max(map(len, (*cells, *below[0]))) > _LONGEST_NAME:
        return False
    names = below[0]
    over = [place for place, cell in enumerate(cells) if cell]
    is_title = over[-1] == 0
    is_wide = any(after - before > 1 for before, after in pairwise([*over, min(len(names), len(cells))]))
    is_full = all(names[over[0] :]) and not any(map(_is_number, names))
    return is_wide and is_full and not is_title and _has_figures(names, below[1:])


def _grouped(cells: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names of columns, each behind that of its group."""
    grouped, group = [], ""
    for place, name in enumerate(names):
        above = cells[place] if place < len(cells) else ""
        group = above or group
        grouped.append(name if group in ("", name) else f"{group} {name}")
    return grouped

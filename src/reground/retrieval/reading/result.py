"""What every reader is told and gives back, texts of bounded size, and the rows of tables as lines.

A reader is a function of a file's content and its `Circumstances`, and gives a `Read`. It puts blocks into a `Text`,
which bounds them and holds what was left out.

A row is a paragraph of its own, `column: value; column: value`, so that no passage begins inside of one and a quote is
a whole row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import NamedTuple

MOST_TEXT = 100_000_000
"""Characters of text that are kept of one file."""
ONLY_FIRST = f"only its first {MOST_TEXT // 1_000_000} million characters were read"


Tick = Callable[..., object]
"""Called now and then in slow work, with the share of the file that is read, from 0 to 1, where it is known. What it
raises ends the reading."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What surrounds the reading of a file.

    tick: see there. language: the ISO 639-1 code of the documents' language, for the recognition of scanned pages.
    is_foreign: whether it is a stranger's page, of which nothing is read that its own markup hides from a reader.
    """

    tick: Tick = lambda share=0.0: None
    language: str = "en"
    is_foreign: bool = False


PLAIN = Circumstances()


class Heading(NamedTuple):
    """A heading. at: where it begins in the text. level: 1 to 6. id: its own in a page, or that of its section."""

    at: int
    level: int
    text: str
    id: str = ""


class Read(NamedTuple):
    """What is in a file. guessed: its encoding where that was a guess. partly: what of it was not read, and why."""

    title: str
    text: str
    guessed: str = ""
    partly: str = ""


class Text:
    """A text that grows block by block up to `MOST_TEXT` characters; a blank line stands between blocks.

    partly: what was not read, in words; "" where everything was.
    """

    def __init__(self) -> None:
        self._text = StringIO()
        self._room = MOST_TEXT
        self._is_cut = False
        self.partly = ""

    def add(self, block: str, *, goes_on: bool = False) -> bool:
        """Add a block if it holds anything, and of one that does not fit its beginning. False where there is no room
        for more. goes_on: whether it is the next line of the block before."""
        block = block.strip()
        if block and not self._is_cut:
            mark = "" if self._room == MOST_TEXT else "\n" if goes_on else "\n\n"
            self._is_cut = len(mark) + len(block) > self._room
            self.partly = ONLY_FIRST if self._is_cut else self.partly
            self._room -= self._text.write((mark + block)[: self._room])
        return not self._is_cut

    def read(self, title: str = "", guessed: str = "") -> Read:
        """What a reader gives back. Half a surrogate pair, which JSON may escape, becomes a question mark."""
        title, text = (each.encode("utf-8", "replace").decode() for each in (title, self._text.getvalue()))
        return Read(title, text, guessed, self.partly)


MOST_ROWS = 200_000
"""Rows that are read of one table."""
MOST_COLUMNS = 500
_LONGEST_NAME = 100  # characters of a column's name; a longer text is none, as in a table that only serves the layout
MOST_CELL = 20_000
"""Characters of one cell."""


class Table:
    """Turns the rows of one table into blocks of a text. The first row of two or more names is taken for the columns'
    names, if it is wider than all before it: where the first row has none, such as years, a later one of words is no
    heading.

    heading: stands before the first row that holds anything.
    """

    def __init__(self, text: Text, heading: str = "") -> None:
        self._text = text
        self._heading = heading
        self._names: Sequence[str] | None = None
        self._widest = 0
        self._count = 0

    def add(self, row: Sequence[str]) -> bool:
        """Add a row, if it holds anything. False where there is no room for more."""
        line = self.line(row)
        return self._text.add(line) and self._count <= MOST_ROWS

    def extend(self, rows: Iterable[Sequence[str]]) -> None:
        """Add rows until there is no room."""
        for row in rows:
            if not self.add(row):
                break

    def line(self, row: Sequence[str]) -> str:
        """The line of the next row; "" for one that holds nothing or is too far behind."""
        self._count += 1
        if self._count > MOST_ROWS or len(row) > MOST_COLUMNS or any(len(cell) > MOST_CELL for cell in row):
            most = f"{MOST_ROWS:,} rows, {MOST_COLUMNS} columns and {MOST_CELL:,} characters a cell"
            self._text.partly = self._text.partly or f"only {most} were read"
        cells = [" ".join(cell[:MOST_CELL].split()) for cell in row[:MOST_COLUMNS]]
        width, before = sum(map(bool, cells)), self._widest
        if not width or self._count > MOST_ROWS:
            return ""
        self._widest = max(width, before)
        heading, self._heading = self._heading, ""
        if self._names is None and width > before and _are_names(cells):
            self._names = cells
            return heading + " | ".join(filter(None, cells))
        names = self._names or ()
        labelled = ((names[place] if place < len(names) else "", cell) for place, cell in enumerate(cells) if cell)
        return heading + "; ".join(f"{name}: {cell}" if name else cell for name, cell in labelled)


def _are_names(cells: Sequence[str]) -> bool:
    """Whether cells are names, all different. A sign alone, such as # or %, may well be one, but no number or date."""
    filled = [cell for cell in cells if cell]
    numbers = [cell for cell in filled if any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))]
    return 1 < len(filled) == len(set(filled)) and not numbers and max(map(len, filled)) <= _LONGEST_NAME

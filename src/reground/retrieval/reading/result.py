"""What every reader is told and gives back, texts of bounded size, and the rows of tables as lines.

A row is a paragraph of its own, `column: value; column: value`, so that no passage begins inside of one and a quote is
a whole row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """

    tick: Tick = lambda share=0.0: None
    language: str = "en"


PLAIN = Circumstances()


class Read(NamedTuple):
    """What is in a file. guessed: its encoding where that was a guess. partly: what of it was not read, and why."""

    title: str
    text: str
    guessed: str = ""
    partly: str = ""


class Heading(NamedTuple):
    """A heading. at: where it begins in the text. level: 1 to 6. id: its own in a page, or that of its section."""

    at: int
    level: int
    text: str
    id: str = ""


class Text:
    """A text that grows block by block up to `MOST_TEXT` characters; a blank line stands between blocks."""

    def __init__(self) -> None:
        self._text = StringIO()
        self._room = MOST_TEXT
        self.is_cut = False

    def add(self, block: str, *, goes_on: bool = False) -> bool:
        """Add a block if it holds anything, and of one that does not fit its beginning. False where there is no room
        for more. goes_on: whether it is the next line of the block before."""
        block = block.strip()
        if block and not self.is_cut:
            mark = "" if self._room == MOST_TEXT else "\n" if goes_on else "\n\n"
            self.is_cut = len(mark) + len(block) > self._room
            self._room -= self._text.write((mark + block)[: self._room])
        return not self.is_cut

    def extend(self, blocks: Iterable[str]) -> Text:
        """Add blocks until there is no room."""
        for block in blocks:
            if not self.add(block):
                break
        return self

    @property
    def partly(self) -> str:
        """What was not read, in words; "" where everything was."""
        return ONLY_FIRST if self.is_cut else ""

    def __str__(self) -> str:
        return self._text.getvalue()


MOST_ROWS = 200_000
"""Rows that are read of one table."""
MOST_COLUMNS = 500
_LONGEST_NAME = 100
"""Characters of a column's name; a longer text is none, as in a table that only serves the layout."""
MOST_CELL = 20_000
"""Characters of one cell."""


class Rows:
    """Turns the rows of one table into lines. The first row of two or more names is taken for the columns' names, if it
    is wider than all before it: where the first row has none, such as years, a later one of words is no heading."""

    def __init__(self) -> None:
        self._names: Sequence[str] | None = None
        self._widest = 0
        self._count = 0
        self.is_cut = False

    def lines(self, rows: Iterable[Sequence[str]]) -> Iterator[str]:
        """A line for each row that holds anything."""
        for row in rows:
            self._count += 1
            if self._count > MOST_ROWS:
                self.is_cut = True
                return
            self.is_cut = self.is_cut or len(row) > MOST_COLUMNS or any(len(cell) > MOST_CELL for cell in row)
            cells = [" ".join(cell[:MOST_CELL].split()) for cell in row[:MOST_COLUMNS]]
            if not any(cells):
                continue
            width, before = sum(map(bool, cells)), self._widest
            self._widest = max(width, before)
            if self._names is None and width > before and _are_names(cells):
                self._names = cells
                yield " | ".join(filter(None, cells))
                continue
            names = self._names or ()
            labelled = ((names[place] if place < len(names) else "", cell) for place, cell in enumerate(cells) if cell)
            yield "; ".join(f"{name}: {cell}" if name else cell for name, cell in labelled)

    @property
    def partly(self) -> str:
        """What was not read, in words; "" where everything was."""
        if not self.is_cut:
            return ""
        return f"only {MOST_ROWS:,} rows, {MOST_COLUMNS} columns and {MOST_CELL:,} characters a cell were read"


def _are_names(cells: Sequence[str]) -> bool:
    """Whether cells are names, all different. A sign alone, such as # or %, may well be one, but no number or date."""
    filled = [cell for cell in cells if cell]
    numbers = [cell for cell in filled if any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))]
    return 1 < len(filled) == len(set(filled)) and not numbers and max(map(len, filled)) <= _LONGEST_NAME

"""Rows of a table as text: `column: value; column: value`, one row a line, within limits.

A row is a paragraph of its own, so that no passage begins inside of one and a quote is a whole row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
            else:
                yield self._line(cells)

    def _line(self, cells: Sequence[str]) -> str:
        names = self._names or ()
        named = ((names[place] if place < len(names) else "", cell) for place, cell in enumerate(cells) if cell)
        return "; ".join(f"{name}: {cell}" if name else cell for name, cell in named)

    @property
    def partly(self) -> str:
        """What was not read, in words; "" where everything was."""
        if not self.is_cut:
            return ""
        return f"only {MOST_ROWS:,} rows, {MOST_COLUMNS} columns and {MOST_CELL:,} characters a cell were read"


def _are_names(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    if len(filled) < 2 or len(set(filled)) < len(filled):
        return False
    return not any(_is_number(cell) or len(cell) > _LONGEST_NAME for cell in filled)


def _is_number(cell: str) -> bool:
    """Whether a cell holds a number or a date. A sign alone, such as # or %, may well be a column's name."""
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))

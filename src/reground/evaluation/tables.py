"""Tables of text, for Markdown and for the terminal, and the numbers in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reground.evaluation.compare import budget_label
from reground.evaluation.records import RunConfig

if TYPE_CHECKING:
    from rich.table import Table as RichTable

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A titled table of text; the first `words` columns are words, the others numbers."""

    title: str
    headers: list[str]
    rows: list[list[str]]
    words: int = 3

    def markdown(self) -> str:
        """The table in GitHub's Markdown, with numbers aligned right."""
        marks = ["---" if i < self.words else "---:" for i in range(len(self.headers))]
        lines = [self.headers, marks, *([cell.replace("|", "\\|") for cell in row] for row in self.rows)]
        return f"## {self.title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def terminal(self) -> RichTable:
        """The table for rich to print."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=self.title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=0)
        for i, header in enumerate(self.headers):
            word = i < self.words
            header = header if word else header.replace(" ", "\n").replace("95\n%", "95 %").replace("=\n0", "= 0")
            table.add_column(header, justify="left" if word else "right", no_wrap=word, overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table


def label(config: RunConfig) -> str:
    """A run's short name, e.g. rar@4k."""
    return f"{config.method}@{budget_label(config.budget.tokens)}"


def number(value: float | None, *, sign: bool = False) -> str:
    """Three decimals, or a dash for nothing."""
    return NOTHING if value is None else f"{value + 0.0:{'+' if sign else ''}.3f}"


def interval(low: float | None, high: float | None) -> str:
    """Both ends, or a dash for nothing."""
    return NOTHING if low is None else f"{number(low)}–{number(high)}"


def p_value(value: float | None) -> str:
    """Three decimals, "< 0.001", or a dash for nothing."""
    return NOTHING if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"

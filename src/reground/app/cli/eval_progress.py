"""Progress of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reground.app.cli._common import human_time, human_tokens
from reground.app.cli.live import LiveLine
from reground.core.language import Usage
from reground.evaluation.compare import Cell
from reground.evaluation.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console

LINES = 10
"""Plain lines per cell."""


@dataclass(frozen=True)
class Work:
    """A cell and its number of runs (questions x repeats). The time of a run is taken to grow with its budget."""

    cell: Cell
    runs: int

    @property
    def weight(self) -> float:
        """The weight of one run in the estimated end."""
        return float(self.cell.tokens or 1)


class EvalProgress(LiveLine):
    """Shows the finished runs, tokens, USD and estimated end over all cells."""

    def __init__(self, console: Console, works: Sequence[Work], *, shown: bool = True) -> None:
        super().__init__(console, shown=shown)
        self._works = works
        self._now: dict[int, Progress] = {}
        self._index = 0
        self._told = -1

    @property
    def done(self) -> int:
        """Finished runs (questions x repeats)."""
        return sum(progress.done for progress in self._now.values())

    @property
    def total(self) -> int:
        """All runs (questions x repeats)."""
        return sum(work.runs for work in self._works)

    def on_progress(self, index: int, progress: Progress) -> None:
        """Record the progress of a cell, and print a line if one is due."""
        if index != self._index:
            self._told = -1
        self._index = index
        self._now[index] = progress
        tenth = LINES * progress.done // max(1, progress.total)
        if self._plain and tenth > self._told:
            self._told = tenth
            self._print(self.line())

    def line(self) -> str:
        """The progress in one line."""
        if not self._now:
            return "starting"
        work, here = self._works[self._index], self._now[self._index]
        usage = sum((p.usage for p in self._now.values()), Usage())
        paid = sum((p.paid for p in self._now.values()), Usage())
        parts = [work.cell.label]
        if len(self._works) > 1:
            parts.append(f"run {self._index + 1} of {len(self._works)}")
        parts.append(f"{here.done}/{here.total} done")
        parts += [f"{count} {what}" for count, what in self._troubles() if count]
        parts.append(f"{human_tokens(usage.tokens)} tokens ({human_tokens(paid.tokens)} now)")
        parts.append("USD unknown" if usage.usd is None else f"{usage.usd:.4f} USD")
        left = self.seconds_left()
        parts.append("end unknown" if left is None else f"about {human_time(left)} left")
        return "  ".join(parts)

    def seconds_left(self) -> float | None:
        """Estimated seconds until all cells are done, from the pace of this attempt; None until a run has finished."""
        elapsed = sum(progress.elapsed for progress in self._now.values())
        done = sum((p.done - p.resumed) * self._works[i].weight for i, p in self._now.items())
        if not done:
            return 0.0 if self.done == self.total else None
        left = sum(
            (work.runs - (self._now[i].done if i in self._now else 0)) * work.weight
            for i, work in enumerate(self._works)
        )
        return elapsed / done * left

    def _troubles(self) -> list[tuple[int, str]]:
        return [
            (sum(p.failed for p in self._now.values()), "failed"),
            (sum(p.unscored for p in self._now.values()), "unscored"),
        ]

    def __rich__(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        grid.add_row(ProgressBar(total=self.total, completed=self.done, width=24), Text(self.line()))
        return grid

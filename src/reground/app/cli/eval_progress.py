"""Progress of an evaluation."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reground.app.cli._common import human_time, human_tokens, human_usd
from reground.app.cli.live import LiveLine
from reground.core.language import Usage
from reground.evaluation.compare import Cell
from reground.evaluation.runner import Progress

if TYPE_CHECKING:
    from rich.console import Console

LINES = 10
"""Plain lines per cell."""
_WIDE = 110
"""The columns of a terminal that has room for a bar beside the line."""


@dataclass(frozen=True)
class Work:
    """A cell and its number of runs (questions x repeats).

    expected: the tokens of a run, the cell's limit by default. The time of a run is taken to grow with them.
    """

    cell: Cell
    runs: int
    expected: int | None = None

    @property
    def weight(self) -> float:
        """The weight of one run in the estimated end."""
        return float(self.expected or self.cell.tokens or 1)


class EvalProgress(LiveLine):
    """Shows the finished runs, tokens, USD and estimated end over all works, each under a key of its own."""

    def __init__(self, console: Console, works: Mapping[Any, Work], *, shown: bool = True) -> None:
        super().__init__(console, shown=shown)
        self._works = works
        self._now: dict[Hashable, Progress] = {}
        self._here: Hashable = None
        self._told = -1

    @property
    def done(self) -> int:
        """Finished runs (questions x repeats)."""
        return sum(progress.done for progress in self._now.values())

    @property
    def total(self) -> int:
        """All runs (questions x repeats)."""
        return sum(work.runs for work in self._works.values())

    def on_progress(self, key: Hashable, progress: Progress) -> None:
        """Record the progress of a work, and print a line if one is due."""
        if key != self._here:
            self._told = -1
        self._here = key
        self._now[key] = progress
        tenth = LINES * progress.done // max(1, progress.total)
        if self._plain and tenth > self._told:
            self._told = tenth
            self._print(self.line())

    def plan(self, works: Mapping[Any, Work]) -> None:
        """Replace what there is to do. Progress of a work that is not among them is forgotten."""
        self._now = {key: progress for key, progress in self._now.items() if key in works}
        self._works = works

    def line(self) -> str:
        """The progress in one line."""
        if (here := self._now.get(self._here)) is None:
            return "starting"
        work = self._works[self._here]
        usage = sum((p.usage for p in self._now.values()), Usage())
        paid = sum((p.paid for p in self._now.values()), Usage())
        parts = [work.cell.label]
        if len(self._works) > 1:
            parts.append(f"run {len(self._now)} of {len(self._works)}")
        parts.append(f"{here.done}/{here.total} done")
        parts += [f"{count} {what}" for count, what in self._troubles() if count]
        parts.append(f"{human_tokens(usage.tokens)} tokens ({human_tokens(paid.tokens)} now)")
        if usage.usd != 0:
            parts.append("USD unknown" if usage.usd is None else human_usd(usage.usd))
        left = self.seconds_left()
        parts.append("end unknown" if left is None else f"about {human_time(left)} left")
        return "  ".join(parts)

    def seconds_left(self) -> float | None:
        """Estimated seconds until all works are done, from the pace of this attempt; None until a run has finished."""
        elapsed = sum(progress.elapsed for progress in self._now.values())
        done = sum((p.done - p.resumed) * self._works[key].weight for key, p in self._now.items())
        if not done:
            return 0.0 if self.done == self.total else None
        left = sum(
            (work.runs - (self._now[key].done if key in self._now else 0)) * work.weight
            for key, work in self._works.items()
        )
        return elapsed / done * left

    def _troubles(self) -> list[tuple[int, str]]:
        return [
            (sum(p.failed for p in self._now.values()), "failed"),
            (sum(p.unscored for p in self._now.values()), "unscored"),
        ]

    def __rich__(self) -> Table | Text:
        line = Text(self.line(), no_wrap=True, overflow="ellipsis")
        if self._console.width < _WIDE:
            return line
        grid = Table.grid(padding=(0, 2))
        grid.add_row(ProgressBar(total=self.total, completed=self.done, width=24), line)
        return grid

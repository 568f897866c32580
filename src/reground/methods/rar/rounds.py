"""When the rounds of phase 2 are over."""

from __future__ import annotations

from dataclasses import dataclass

from reground.core.run import Run
from reground.methods.shared.steps import squeezed


@dataclass(frozen=True)
class Idle:
    """A round that generated no answer, and why."""

    why: str


class Rounds:
    """Counts what the rounds of phase 2 brought. Only real generations count towards m identical ones in a row, the
    answer of phase 1 as the first; m - 1 rounds in a row without any end phase 2 too, since the next one would ask the
    same again."""

    def __init__(self, m: int) -> None:
        self.m = m
        self.done = 0
        self.identical = 1
        self.idle: list[str] = []

    def count(self, outcome: str | Idle, answer: str) -> None:
        """A round is done: it generated the answer before once more, or another one, or nothing."""
        self.done += 1
        if isinstance(outcome, Idle):
            self.idle.append(outcome.why)
            return
        self.idle.clear()
        self.identical = self.identical + 1 if squeezed(outcome) == squeezed(answer) else 1

    @property
    def over(self) -> bool:
        """m identical generations in a row, or no generation for as long."""
        return self.identical >= self.m or len(self.idle) >= self.m - 1

    def note_end(self, run: Run, *, most: int) -> None:
        """Say in the trace why phase 2 ended, of which `most` rounds were allowed."""
        if self.identical >= self.m:
            run.note("converged", identical=self.identical)
        elif self.over:
            whys = "; ".join(dict.fromkeys(self.idle))
            run.note("phase 2 ended", why=f"no new answer in {len(self.idle)} round(s) in a row: {whys}")
        else:
            run.note("phase 2 ended", why="max_rounds are done" if self.done == most else "max_contents is reached")

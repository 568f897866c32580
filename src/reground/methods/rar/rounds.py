"""Decides when the rounds of phase 2 end."""

from __future__ import annotations

from dataclasses import dataclass

from reground.core.run import Run
from reground.methods.shared.steps import squeezed


@dataclass(frozen=True)
class Idle:
    """A round that generated no answer, with the reason."""

    why: str


class Rounds:
    """Counts the rounds of phase 2.

    Phase 2 ends after m identical generations in a row; the answer of phase 1 counts as the first, rounds without a
    generation do not count. It also ends after m - 1 rounds in a row without a generation, because the next round would
    ask the same again.
    """

    def __init__(self, m: int) -> None:
        self.m = m
        self.done = 0
        self.identical = 1
        self.idle: list[str] = []

    def count(self, outcome: str | Idle, answer: str) -> None:
        """Count a round that changed `answer` to `outcome`."""
        self.done += 1
        if isinstance(outcome, Idle):
            self.idle.append(outcome.why)
            return
        self.idle.clear()
        self.identical = self.identical + 1 if squeezed(outcome) == squeezed(answer) else 1

    @property
    def over(self) -> bool:
        """Whether phase 2 has to end."""
        return self.identical >= self.m or len(self.idle) >= self.m - 1

    def note_end(self, run: Run, *, most: int) -> None:
        """Note in the trace why phase 2 ended. most: the number of rounds that were allowed."""
        if self.identical >= self.m:
            run.note("converged", identical=self.identical)
        elif self.over:
            whys = "; ".join(dict.fromkeys(self.idle))
            run.note("phase 2 ended", why=f"no new answer in {len(self.idle)} round(s) in a row: {whys}")
        else:
            run.note("phase 2 ended", why="max_rounds are done" if self.done == most else "max_contents is reached")

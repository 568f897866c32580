"""The whole answer of phase 2, which of two goes on, and when the rounds are over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods._steps import squeezed


@dataclass(frozen=True)
class Whole:
    """A whole answer, the mean log-probability of its tokens, and the markers of the passages it was refined with."""

    text: str
    logprob: float | None = None
    markers: tuple[int, ...] = ()


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

    def count(self, outcome: Whole | Idle, answer: Whole) -> None:
        """A round is done: it generated the answer before once more, or another one, or nothing."""
        self.done += 1
        if isinstance(outcome, Idle):
            self.idle.append(outcome.why)
            return
        self.idle.clear()
        self.identical = self.identical + 1 if squeezed(outcome.text) == squeezed(answer.text) else 1

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


def goes_on(refined: Whole, answer: Whole, *, accept: Literal["always", "surer"], question: str, run: Run) -> bool:
    """Whether the refined answer takes the place of the one before."""
    if accept == "always" or squeezed(refined.text) == squeezed(answer.text):
        return True
    if refined.logprob is None or answer.logprob is None:
        run.note("refined answer taken", why="there are no log-probabilities to compare it by")
        return True
    better = refined.logprob >= answer.logprob
    candidates = [Candidate(text=whole.text, logprob=whole.logprob) for whole in (answer, refined)]
    run.choose(
        "answer",
        by="perplexity",
        context=question,
        candidates=candidates,
        chosen=int(better),
        why="the refined answer is " + ("no less sure" if better else "less sure"),
    )
    return better

"""The whole answer of phase 2, and which of two goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods._steps import squeezed


@dataclass(frozen=True)
class Whole:
    """A whole answer, the mean log-probability of its tokens where it is one reply as it came, and the passages it was refined with."""

    text: str
    logprob: float | None = None
    markers: tuple[int, ...] = ()


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

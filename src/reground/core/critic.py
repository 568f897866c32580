"""The port of critics, which score the candidates for a method's next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from reground.core.language import Text, Value, finite

if TYPE_CHECKING:
    from reground.core.run import Run  # a run scores by critics, so it imports this module


class Pair(Value):
    """A candidate, and the text that it would follow."""

    context: Text
    candidate: Text


@runtime_checkable
class Critic(Protocol):
    """Anything that estimates expected reward (CR-Planner, section 2.3): a prompted model, a trained one, chance.

    Scores compare candidates of one context; they need no common scale across contexts. Methods ask through
    `Run.score`, which records the answer.
    """

    @property
    def name(self) -> str:
        """The critic and its version: part of the identity of a run and of a recorded score."""
        ...

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """One score per pair, higher is better. Model calls go through `run`."""
        ...


@runtime_checkable
class AskingCritic(Critic, Protocol):
    """A critic whose scores cost calls of a model, which a budget has to cover."""

    def calls_for(self, candidates: int) -> int:
        """The number of calls that a choice between this number of candidates takes; each reads the context once."""
        ...


def comparable(score: float) -> float:
    """A score that can be compared and stored as JSON: NaN becomes the lowest number, infinities the largest."""
    return finite(float(score))

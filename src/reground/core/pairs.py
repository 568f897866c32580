"""What critics compare, and the least that a run has to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from reground.core.language import Value
from reground.core.storable import Text, finite


class Pair(Value):
    """A candidate, and the text that it would follow."""

    context: Text
    candidate: Text


class Scorer(Protocol):
    """A critic as a run sees it (`reground.core.critic.Critic` is the port)."""

    @property
    def name(self) -> str:
        """What judges, and which version of it."""
        ...

    async def score(self, pairs: Sequence[Pair], run: Any, /) -> Sequence[float]:
        """One score a pair."""
        ...


def comparable(score: float) -> float:
    """A score that can be compared and stored as JSON: NaN becomes the lowest number, infinities the largest."""
    return finite(float(score))

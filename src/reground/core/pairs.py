"""The pairs that critics score, and the part of a critic that a run needs."""

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
        """The critic and its version."""
        ...

    async def score(self, pairs: Sequence[Pair], run: Any, /) -> Sequence[float]:
        """One score per pair."""
        ...


def comparable(score: float) -> float:
    """A score that can be compared and stored as JSON: NaN becomes the lowest number, infinities the largest."""
    return finite(float(score))

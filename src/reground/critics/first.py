"""Always chooses the first candidate: the planner without any judgement.

Sub-goals come in the planner's usual order and documents in the retriever's, so what is left is a fixed round of
reasoning, query and retrieval, with one sample each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.critic import Critic, Pair
from reground.core.errors import ConfigurationError
from reground.core.language import LanguageModel
from reground.core.run import Run


@dataclass(frozen=True)
class FirstCritic:
    """Scores 0, -1, -2, ... in the order given."""

    name: str = "first"

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """The earlier the better."""
        return [-float(place) for place in range(len(pairs))]


def create(kind: str, *, model: LanguageModel, detail: str) -> Critic:
    """The same critic for every kind. Raises ConfigurationError for a detail, because there is nothing to set."""
    if detail:
        raise ConfigurationError(f"the critic first takes no detail, not {detail!r}")
    return FirstCritic()

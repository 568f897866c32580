"""Scores at random: the baseline that every other critic has to beat.

A score is a hash of seed, kind, context and candidate, so that a replay chooses the same again and equal candidates
score alike. `random:SEED` draws other scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.critic import Critic, Pair
from reground.core.errors import ConfigurationError
from reground.core.language import LanguageModel
from reground.core.run import Run


@dataclass(frozen=True)
class RandomCritic:
    """Uniform scores between 0 and 1."""

    kind: str
    seed: int = 0

    @property
    def name(self) -> str:
        """With its seed: another one chooses otherwise."""
        return f"random:{self.seed}"

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """One draw a pair."""
        return [self._draw(pair) for pair in pairs]

    def _draw(self, pair: Pair) -> float:
        text = "\x1f".join((str(self.seed), self.kind, pair.context, pair.candidate))
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64


def create(kind: str, *, model: LanguageModel, detail: str) -> Critic:
    """A critic for the kind. Raises ConfigurationError if the detail is not a seed (a whole number)."""
    try:
        return RandomCritic(kind, int(detail or "0"))
    except ValueError:
        raise ConfigurationError(f"the detail of the critic random is a seed, not {detail!r}") from None

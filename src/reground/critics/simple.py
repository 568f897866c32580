"""Critics without a model: baselines that every other critic has to beat.

`first` always chooses the first candidate. Sub-goals come in the planner's usual order and documents in the
retriever's, so what is left is a fixed round of reasoning, query and retrieval, with one sample each.

`fixed:ROOT=GENQUERY,RATIONALE=GENQUERY,QUERY=RETRIEVE,DOC=REASON` chooses a sub-goal by the state's last observation.
Where that is not offered, and in states that are not named, the planner's usual one is chosen; of rationales, queries
and documents the first. `reground train critics eval` prints the table that fits the training trees best.

`random:SEED` scores by a hash of seed, kind, context and candidate, so that a replay chooses the same again and equal
candidates score alike.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.language import LanguageModel
from reground.core.run import Run
from reground.core.trajectory import Pair
from reground.core.untrusted import without_fenced

STAGES = ("ROOT", "RATIONALE", "QUERY", "DOC")
"""What the last observation of a state can be."""
SENTENCES = {
    "REASON": "The next step is to reason: write one more step of the reasoning.",
    "GENQUERY": "The next step is to write a search query for what the reasoning needs.",
    "RETRIEVE": "The next step is to look up documents with the search query.",
}
"""The sentence of each sub-goal, always the same (CR-Planner, equation 3, f_rule). It stands before what came of it."""

_YIELDS = dict(zip(SENTENCES, STAGES[1:], strict=True))
_CHOICE = re.compile(
    "^(?:" + "|".join(f"(?P<{goal}>{re.escape(sentence)})" for goal, sentence in SENTENCES.items()) + ")$", re.M
)


@dataclass(frozen=True)
class FixedCritic:
    """1 for the sub-goal of the table; the others, and all else, by their place: without a table all, as `first`."""

    kind: str
    table: Mapping[str, str]

    @classmethod
    def create(cls, kind: str, *, model: LanguageModel, detail: str) -> FixedCritic:
        """A critic for the kind. Raises ConfigurationError for a table that names no stage or no sub-goal."""
        table = {}
        for entry in filter(None, detail.split(",")):
            stage, equals, goal = entry.partition("=")
            for word, words in ((stage, STAGES), (goal, SENTENCES)):
                if not equals or word not in words:
                    raise ConfigurationError(
                        f"the detail of the critic fixed is STAGE=GOAL,..., not {entry!r}; {did_you_mean(word, words)}"
                    )
            table[stage] = goal
        return cls(kind, table)

    @property
    def name(self) -> str:
        """With its table."""
        table = ",".join(f"{stage}={goal}" for stage, goal in sorted(self.table.items()))
        return f"fixed:{table}" if table else "first"

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """The table's choice first, then the earlier the better."""
        goals = [self.table.get(stage_of(pair.context)) if self.kind == "subgoal" else None for pair in pairs]
        matches = [goal and pair.candidate.startswith(SENTENCES[goal]) for goal, pair in zip(goals, pairs, strict=True)]
        return [1.0 if is_named else -float(place) for place, is_named in enumerate(matches)]


def stage_of(context: str) -> str:
    """The stage of the state that a sub-goal critic is shown: what its last sub-goal yields.

    Observations may look like others of another kind, but hardly like the sentence of a sub-goal.
    """
    work = without_fenced(context.partition("\n\nWork so far:\n")[2])
    goals = [str(match.lastgroup) for match in _CHOICE.finditer(work)]
    return _YIELDS[goals[-1]] if goals else "ROOT"


@dataclass(frozen=True)
class RandomCritic:
    """Uniform scores between 0 and 1."""

    kind: str
    seed: int = 0

    @classmethod
    def create(cls, kind: str, *, model: LanguageModel, detail: str) -> RandomCritic:
        """A critic for the kind. Raises ConfigurationError if the detail is not a seed (a whole number)."""
        try:
            return cls(kind, int(detail or "0"))
        except ValueError:
            raise ConfigurationError(f"the detail of the critic random is a seed, not {detail!r}") from None

    @property
    def name(self) -> str:
        """With its seed: another one chooses otherwise."""
        return f"random:{self.seed}"

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """One draw a pair."""
        texts = ("\x1f".join((str(self.seed), self.kind, pair.context, pair.candidate)) for pair in pairs)
        digests = (hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts)
        return [int.from_bytes(digest) / 2**64 for digest in digests]

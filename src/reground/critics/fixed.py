"""The same sub-goal in every state of a kind: the baseline that a trained sub-goal critic has to beat.

`fixed:ROOT=GENQUERY,RATIONALE=GENQUERY,QUERY=RETRIEVE,DOC=REASON` chooses by the state's last observation. Where the
sub-goal is not offered, and in states that are not named, the planner's usual one is chosen. Of rationales, queries and
documents it chooses the first. `reground train critics eval` prints the table that fits the training trees best.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reground.core.critic import Critic, Pair
from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.language import LanguageModel
from reground.core.run import Run
from reground.core.untrusted import without_fenced

STAGES = ("ROOT", "RATIONALE", "QUERY", "DOC")
GOALS = {
    "REASON": "The next step is to reason: write one more step of the reasoning.",
    "GENQUERY": "The next step is to write a search query for what the reasoning needs.",
    "RETRIEVE": "The next step is to look up documents with the search query.",
}
"""The sentence of each sub-goal. It stands before what came of it."""

_YIELDS = dict(zip(GOALS, STAGES[1:], strict=True))
_CHOSEN = re.compile("^(?:" + "|".join(f"(?P<{goal}>{re.escape(said)})" for goal, said in GOALS.items()) + ")$", re.M)


@dataclass(frozen=True)
class FixedCritic:
    """1 for the sub-goal of the table; the others, and all else, by their place."""

    kind: str
    table: Mapping[str, str]

    @property
    def name(self) -> str:
        """With its table."""
        return "fixed:" + ",".join(f"{stage}={goal}" for stage, goal in sorted(self.table.items()))

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """The table's choice first, then the earlier the better."""
        return [1.0 if self._named(pair) else -float(place) for place, pair in enumerate(pairs)]

    def _named(self, pair: Pair) -> bool:
        goal = self.table.get(stage_of(pair.context)) if self.kind == "subgoal" else None
        return goal is not None and pair.candidate.startswith(GOALS[goal])


def stage_of(context: str) -> str:
    """The stage of the state that a sub-goal critic is shown: what its last sub-goal yields.

    Observations may look like others of another kind, but hardly like the sentence of a sub-goal.
    """
    work = without_fenced(context.partition("\n\nWork so far:\n")[2])
    chosen = [str(found.lastgroup) for found in _CHOSEN.finditer(work)]
    return _YIELDS[chosen[-1]] if chosen else "ROOT"


def create(kind: str, *, model: LanguageModel, detail: str) -> Critic:
    """A critic for the kind. Raises ConfigurationError for a table that names no stage or no sub-goal."""
    table = {}
    for entry in filter(None, detail.split(",")):
        stage, equals, goal = entry.partition("=")
        for word, known in ((stage, STAGES), (goal, GOALS)):
            if not equals or word not in known:
                raise ConfigurationError(
                    f"the detail of the critic fixed is STAGE=GOAL,..., not {entry!r}; {did_you_mean(word, known)}"
                )
        table[stage] = goal
    return FixedCritic(kind, table)

"""What a collection of trees would cost: some trees are searched with made-up replies, and nothing is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.answers import Answer
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.run import Run
from reground.evaluation.scaling import DryRun
from reground.methods.cr_planner import CRPlanner
from reground.methods.cr_planner.states import State
from reground.methods.cr_planner.tree import PlannerProblem, Rollout
from reground.treesearch.mcts import search
from reground.treesearch.settings import Settings

_SAMPLE = 3
"""Questions whose trees are searched; the others are taken to cost as much."""


class NotCalled:
    """A model and a retriever that a planner may be made with, and that nobody asks."""

    name = "none"

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Nobody may ask."""
        raise AssertionError(self.name)

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """Nobody may ask."""
        raise AssertionError(self.name)


@dataclass(frozen=True)
class TreeCost:
    """One tree on average."""

    calls: float
    tokens: float


async def tree_cost(
    planner: CRPlanner, questions: Sequence[str], searching: Settings, rollout: Rollout, *, most: int | None = None
) -> TreeCost:
    """The usual cost of a question's tree. most: the tokens that one tree may cost."""
    used: list[Usage] = []
    for question in questions[:_SAMPLE]:
        run = DryRun.of(planner)
        problem = PlannerProblem(planner=planner, run=run, reward=_some, rollout=rollout)
        await search(problem, State(question), searching)
        used.append(run.usage)
    tokens = [each.tokens if most is None else min(each.tokens, most) for each in used]
    return TreeCost(sum(each.calls for each in used) / len(used), sum(tokens) / len(used))


def _some(answer: Answer, run: Run) -> float:
    """The same for all answers, so that every branch is tried."""
    return 0.5

"""One tree: a planner's choices searched with the gold answer as reward (CR-Planner, section 2.3).

Growing is a method whose answer is the tree, so it is recorded, limited and sent to other machines as methods are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from reground.core.answers import Answer
from reground.core.errors import BudgetExceeded, DataError
from reground.core.programs import Execution, Program, Sandbox
from reground.core.run import Run
from reground.core.trajectory import Trajectory
from reground.evaluation.progress import SIMULATION
from reground.evaluation.task import Example, Task
from reground.methods.cr_planner import CRPlanner
from reground.methods.cr_planner.states import State
from reground.methods.cr_planner.tree import PlannerProblem, Rollout, decode, encode
from reground.treesearch.files import tree_from_dict, tree_to_dict
from reground.treesearch.mcts import Simulation, search
from reground.treesearch.settings import Settings
from reground.treesearch.tree import Tree


@dataclass(frozen=True)
class Searching:
    """How a tree is searched. rollout: how a simulation plays on."""

    settings: Settings
    rollout: Rollout = "answer"


@dataclass(frozen=True, kw_only=True)
class Growing:
    """Searches a planner's choices for one question; `tree_of` reads the answer. A method.

    task: its primary metric of the example is the reward. If the budget ends, the tree stays as it is, and `stopped`
    says so.
    """

    planner: CRPlanner
    task: Task
    example: Example
    searching: Searching
    sandbox: Sandbox | None = None

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Grow the tree; a note tells of every simulation that has entered it."""

        def watch(simulation: Simulation) -> None:
            run.note(SIMULATION, number=simulation.index + 1, reward=simulation.reward)

        problem = PlannerProblem(planner=self.planner, run=run, reward=self._reward, rollout=self.searching.rollout)
        tree = await search(problem, State(question), self.searching.settings, until=(BudgetExceeded,), watch=watch)
        return Answer(text=json.dumps(tree_to_dict(tree, encode), allow_nan=False))

    async def _reward(self, answer: Answer, run: Run) -> float:
        """The primary metric of the answer; a ranking is the simulation's last retrieval.

        Executions for it are recorded, so a resumed run gets the same reward.
        """
        example = self.example
        told = Trajectory(
            id=example.id, question=example.question, method="cr_planner", steps=run.within, answer=answer
        )
        sandbox = None if self.sandbox is None else _Recorded(self.sandbox, run)
        score = (await self.task.score(example, told, sandbox))[self.task.primary]
        if score.value is None:
            raise DataError(f"{self.task.name} {example.id} cannot be scored: {score.why}")
        return score.value


def tree_of(answer: Answer) -> Tree[State]:
    """The tree that is the answer of `Growing`."""
    return tree_from_dict(json.loads(answer.text), decode)


@dataclass(frozen=True)
class _Recorded:
    """A sandbox whose executions are a run's."""

    sandbox: Sandbox
    run: Run

    @property
    def name(self) -> str:
        return self.sandbox.name

    @property
    def packages(self) -> bool:
        return getattr(self.sandbox, "packages", True)

    async def execute(self, program: Program, /) -> Execution:
        return await self.run.execute(self.sandbox, program, name="reward")

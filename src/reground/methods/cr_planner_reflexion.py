"""Reflexion's rounds with CR-Planner as the actor.

Table 1 of CR-Planner's paper ("CR-Planner+Reflexion"; section 3.2, observation 5). The paper says that the code is
executed and revised, but not by whom. Here the planner is Reflexion's actor in every round.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from reground.core.answers import PROGRAM, Answer, AnswerForm
from reground.core.errors import BudgetExceeded
from reground.core.programs import Sandbox
from reground.core.run import Run
from reground.methods.cr_planner import CRPlanner
from reground.methods.reflexion import Reflexion
from reground.methods.shared.prompts import render
from reground.methods.shared.settings import NotNegative, Positive, require

_STEPWISE = "Think it through step by step."


@dataclass(frozen=True, kw_only=True)
class CRPlannerReflexion(CRPlanner):
    """CR-Planner with Reflexion on top: plan a program, run it on self-written tests, and plan it again.

    sandbox, rounds, tests, reflection_tokens, seconds: the settings of Reflexion. Everything else is CR-Planner's.
    """

    sandbox: Sandbox
    form: AnswerForm = PROGRAM
    rounds: NotNegative = 2
    tests: Positive = 4
    reflection_tokens: int = 256
    seconds: float = 5.0

    PRESETS: ClassVar = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.ranks, "cr_planner_reflexion writes programs, not rankings")
        _ = self._reflexion(super().solve)  # refuses invalid settings before any question is asked

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        return await self._reflexion(super().solve).solve(question, run)

    def sizes(self) -> Sequence[CRPlannerReflexion]:
        """Larger planners, then more rounds."""
        one = replace(self, rounds=1)
        planners = [replace(one, **size) for size in self.LADDER]
        return [*planners, *(replace(planners[-1], rounds=rounds) for rounds in range(2, 4))]

    def _reflexion(self, plan: Callable[[str, Run], Awaitable[Answer]]) -> Reflexion:
        names = ("model", "sandbox", "form", "rounds", "tests", "max_tokens", "reflection_tokens", "seconds")
        return _Planned(plan=plan, **{name: getattr(self, name) for name in names})


@dataclass(frozen=True, kw_only=True)
class _Planned(Reflexion):
    """Reflexion whose programs come from a planner. Earlier trials become part of the planner's problem."""

    plan: Callable[[str, Run], Awaitable[Answer]]

    async def _written(self, question: str, run: Run, trials: Sequence[str] = ()) -> str:
        template, actor = (self.prompts.again, run.span("again")) if trials else (self.prompts.write, run)
        problem = render(template, question=question, trials="\n\n".join(trials), form=_STEPWISE)
        before = run.best
        try:
            return (await self.plan(problem, actor)).text
        except BudgetExceeded:
            if before is not None:
                run.propose(before)  # a whole program is worth more than half of the next plan
            raise

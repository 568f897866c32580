"""Reflexion's rounds with CR-Planner as the actor."""

from __future__ import annotations

from reground.app import catalogue
from reground.core.answers import PROGRAM
from reground.core.errors import BudgetExceeded
from reground.core.programs import Execution, Program, Verdict
from reground.core.run import Run, solve
from reground.core.trajectory import ExecuteStep
from reground.methods.cr_planner_reflexion import CRPlannerReflexion
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, by_job, prompts
from tests.methods.planner import choices

WRONG = "```python\ndef double(x):\n    return x\n```"
RIGHT = "```python\ndef double(x):\n    return 2 * x\n```"


class Box:
    """A sandbox that knows the right program."""

    name = "box"

    async def execute(self, program: Program, /) -> Execution:
        right = program.source == PROGRAM.extract(RIGHT)
        return Execution(verdict=Verdict.PASSED if right else Verdict.WRONG_ANSWER, detail="double(2) == 4 is false")


def writer(*steps: str | Exception) -> ScriptedModel:
    return by_job(
        {
            "assert statement": "```python\nassert double(2) == 4\n```",
            "Say in a few sentences": "It returns x itself.",
            "the next step of the reasoning": list(steps or ("It doubles.", WRONG, "It must multiply.", RIGHT)),
            "Give the final answer now": WRONG,
        }
    )


def method(model: ScriptedModel | None = None, **settings: object) -> CRPlannerReflexion:
    made = catalogue.build_method(
        "cr_planner_reflexion",
        model=model if model is not None else writer(),
        retriever=ScriptedRetriever(PASSAGES),
        sandbox=Box(),
        settings={"critic": "first", "candidates": 1, "retrieval": False, **settings},
    )
    assert isinstance(made, CRPlannerReflexion)
    return made


async def test_a_program_that_fails_is_planned_again_with_what_was_learnt() -> None:
    run = Run()
    answer = await method().solve("Write double(x).", run)
    assert answer.text == RIGHT
    assert [thought.text for thought in answer.steps] == ["It returns x itself."]
    programs = [step.program.source for step in run.steps if isinstance(step, ExecuteStep)]
    assert programs == [PROGRAM.extract(WRONG), PROGRAM.extract(RIGHT)]
    first, _, second, last = prompts(run, "reason")
    assert "It returns x itself." not in first
    assert all("It returns x itself." in prompt and "double(2) == 4 is false" in prompt for prompt in (second, last))
    assert "It doubles." not in second.partition("Work so far")[2]
    spans = {step.span.split("/step.")[0] for step in choices(run)}
    assert spans == {"/write.0", "/trial.0/again.0"}
    assert run.best == answer


async def test_a_budget_that_ends_in_the_second_planning_leaves_the_first_program() -> None:
    run = Run()
    ends = writer("It doubles.", WRONG, "It must multiply.", BudgetExceeded("seconds", "too few are left"))
    solved = await solve(method(ends), "Write double(x).", run, id="q", name="x")
    assert (solved.error, solved.trajectory.stopped) == (None, "seconds")
    assert len(prompts(run, "reason")) == 3
    assert solved.trajectory.answer is not None and solved.trajectory.answer.text == WRONG

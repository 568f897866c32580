"""RAT and RaR begin with a draft that somebody else wrote, whole or in steps of which some are settled."""

import pytest

from reground.core.answers import PHRASE, TEXT
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError
from reground.core.run import Run, solve
from reground.methods.rar import RaR
from reground.methods.rat import RAT
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, by_job, effects, prompts, queries

QUESTION = "Which is longer, the Danube or the Rhine?"
STEPS = (
    "The Danube flows through Vienna.",
    "The Danube is 2000 km long [7].",
    "It is blue.",
    "The Rhine is 900 km long.",
)
CORRECTED = {"2000 km": "The Danube is 2850 km long [1].", "900 km": "The Rhine is 1230 km long [2]."}
JOBS = ("Find the errors", "Step to correct:\n", "\nText:\n", "Text to correct:\n")
METHODS = [pytest.param(RAT, {}, id="rat"), pytest.param(RaR, {"max_rounds": 0}, id="rar")]


def corrected(prompt: str) -> str:
    subject = next(prompt.split(mark)[1] for mark in JOBS[1:] if mark in prompt).split("\n\nTask:")[0]
    return "\n\n".join(
        next((right for wrong, right in CORRECTED.items() if wrong in part), part) for part in subject.split("\n\n")
    )


def build(cls, form=TEXT, **settings):
    model = by_job(
        {
            "Write only the query": lambda prompt: "rhine" if "Rhine is" in prompt.split("\nText:\n")[-1] else "danube",
            JOBS[0]: "The length is wrong [1].",
            "final answer that follows": "Answer: the Danube",
            "give the final answer": "Answer: the Danube",
            **dict.fromkeys(JOBS[1:], corrected),
        }
    )
    return cls(model=model, retriever=ScriptedRetriever(PASSAGES), form=form, **settings)


@pytest.mark.parametrize(("cls", "settings"), METHODS)
async def test_a_given_draft_takes_the_place_of_the_first_call_and_is_revised_like_any_other(cls, settings):
    run = Run()
    answer = await build(cls, draft="\n\n".join(STEPS), **settings).solve(QUESTION, run)
    assert "draft" not in [name for _, name in effects(run)]
    assert all(right in answer.text for right in CORRECTED.values())
    assert "[7]" not in answer.text
    assert [step.draft for step in answer.steps][1] == "The Danube is 2000 km long."


@pytest.mark.parametrize(("cls", "settings"), METHODS)
async def test_settled_steps_stay_and_only_the_others_are_looked_up_and_revised(cls, settings):
    run = Run()
    answer = await build(cls, draft=STEPS, settled=(0, 2), **settings).solve(QUESTION, run)
    expected = [STEPS[0], "The Danube is 2850 km long [1].", STEPS[2], "The Rhine is 1230 km long [2]."]
    assert [step.text for step in answer.steps] == expected
    assert sorted(queries(run)) == ["danube", "rhine"]
    assert all(STEPS[0] in prompt.split("Text:\n")[0] for prompt in prompts(run, "query"))  # read as context
    assert [name for _, name in effects(run)].count("refine" if cls is RaR else "revise") == 2


@pytest.mark.parametrize(("cls", "settings"), METHODS)
async def test_steps_are_never_joined_and_prompts_of_a_long_draft_stay_short(cls, settings):
    steps = tuple(f"Town {number} lies on the Rhine." for number in range(200))
    run = Run()
    answer = await build(cls, draft=steps, settled=tuple(range(1, 199)), **settings).solve(QUESTION, run)
    assert [step.text for step in answer.steps] == list(steps)
    assert max(len(step.messages[-1].content) for step in run.steps if hasattr(step, "messages")) < 4_000


@pytest.mark.parametrize(("cls", "settings"), METHODS)
@pytest.mark.parametrize("tokens", [1, 400, 800, 1500])
async def test_where_the_budget_ends_what_is_revised_so_far_stands_beside_the_rest_of_the_draft(cls, settings, tokens):
    method = build(cls, draft=STEPS, settled=(0, 2), **settings)
    trajectory = (await solve(method, QUESTION, Run(budget=Budget(tokens=tokens)), id="x", name="x")).trajectory
    texts = [step.text for step in trajectory.answer.steps]
    assert (texts[0], texts[2], len(texts)) == (STEPS[0], STEPS[2], 4)
    assert trajectory.usage.prompt + trajectory.usage.completion <= tokens


async def test_a_short_answer_is_revised_as_an_answer():
    answer = await build(RaR, PHRASE, draft=("the Rhine",), max_rounds=0).solve(QUESTION, Run())
    assert PHRASE.extract(answer.steps[0].text) == "the Danube"


@pytest.mark.parametrize(
    ("cls", "settings", "what"),
    [
        (RAT, {"draft": STEPS, "settled": (4,)}, "settled"),
        (RaR, {"draft": "One text.", "settled": (0,), "max_rounds": 0}, "settled"),
        (RaR, {"draft": STEPS, "settled": (0,)}, "max_rounds"),
        (RAT, {"draft": STEPS, "settled": (0,), "causal": False}, "causal"),
    ],
)
def test_what_would_touch_settled_steps_is_refused(cls, settings, what):
    with pytest.raises(ConfigurationError, match=what):
        build(cls, **settings)

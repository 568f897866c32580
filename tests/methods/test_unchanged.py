"""A model that repeats the text under revision unchanged gets it back unchanged, whatever its lines look like."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reground.core.answers import PLAN, TEXT, AnswerForm
from reground.core.run import Run
from reground.methods.rar import RaR
from reground.methods.rat import RAT
from reground.methods.self_refine import SelfRefine
from reground.methods.shared.prompts import Templates
from reground.methods.shared.steps import join_steps, split_draft, split_steps
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, prompts

QUESTION = "How is it done?"
PLANS = [
    "STEP 1:\nmine 1 log\n\nSTEP 2:\ncraft 4 planks from 1 log",
    "Plan for a stick:\nSTEP 1: mine 1 log\nTools:\nnone\nSTEP 3: craft 2 sticks",
]
ESSAYS = [
    "Question:\nWho was he?\n\nText:\nHe wrote novels.\n\nAnswer to correct:\nNone of them is short.",
    "Subtitle:\nOne.\nSubtitle:\nTwo.\n\nCriticism:\nThe critics liked it.\n\nTask: none was left to him.",
]
ORDINARY = [
    "It is so.",
    "The river is long, see a[1].",
    "- mine 1 log",
    "STEP 1:",
    "STEP 2: craft it",
    "## Heading",
    "---",
    "x = 1",
]


def templates_lines() -> list[str]:
    """Every line of every template without its places, so that the text may look like the prompt around it."""
    kinds: list[type[Templates]] = [type(method.prompts) for method in (rat([]), rar([]), refine([]))]
    templates = [getattr(kind(), name) for kind in kinds for name in kind.__dataclass_fields__]
    return sorted({line for text in templates for line in text.split("\n") if line.strip() and "{" not in line})


def rat(replies: list[str], form: AnswerForm = TEXT) -> RAT:
    return RAT(model=ScriptedModel(replies), retriever=ScriptedRetriever(PASSAGES), form=form)


def rar(replies: list[str], form: AnswerForm = TEXT) -> RaR:
    return RaR(model=ScriptedModel(replies), retriever=ScriptedRetriever(PASSAGES), form=form, queries="sequential")


def refine(replies: list[str], form: AnswerForm = TEXT) -> SelfRefine:
    return SelfRefine(model=ScriptedModel(replies), form=form, rounds=2)


def lines(text: str) -> list[str]:
    """The lines that say something: methods set blank lines between steps as they see fit."""
    return [line.strip() for line in text.split("\n") if line.strip()]


async def through_rat(text: str, form: AnswerForm) -> tuple[str, Run]:
    run = Run()
    steps = split_steps(text, most=5)
    revised = [join_steps(steps[: i + 1]) for i in range(len(steps))]
    method = rat([text, *(said for one in revised for said in ("river", one))], form)
    answer = await method.solve(QUESTION, run)
    assert all(one in prompt for one, prompt in zip(revised, prompts(run, "revise"), strict=True))
    return answer.text, run


async def through_rar(text: str, form: AnswerForm) -> tuple[str, Run]:
    run = Run()
    steps, raw = split_draft(text, form, most=4)
    phases = [*steps[:-1], join_steps([*steps[-1:], raw]), *[join_steps([*steps, raw])] * 2]
    method = rar([text, *(said for one in phases for said in ("river", "OK", one))], form)
    answer = await method.solve(QUESTION, run)
    assert all(one in prompt for one, prompt in zip(phases, prompts(run, "refine"), strict=False))
    return answer.text, run


async def through_self_refine(text: str, form: AnswerForm) -> tuple[str, Run]:
    run = Run()
    answer = await refine([text, "Wrong.", text, "Wrong.", text], form).solve(QUESTION, run)
    return answer.text, run


THROUGH = [through_rat, through_rar, through_self_refine]


@pytest.mark.parametrize("form", [PLAN, TEXT])
@pytest.mark.parametrize("through", THROUGH)
@given(
    parts=st.lists(
        st.sampled_from([*ORDINARY, *templates_lines(), ""]) | st.from_regex(r"[A-Z][a-z ]{2,9}:", fullmatch=True),
        min_size=1,
        max_size=9,
    )
)
@example(parts=[PLANS[0]])
@example(parts=[PLANS[1]])
@example(parts=[ESSAYS[0]])
@example(parts=[ESSAYS[1]])
@example(parts=["It is so.", "Answer:", "Answer:"])
@example(parts=["Answer:", "x = 1", "Answer:", "It is so."])
@example(parts=["It is so.", "## Heading", "Answer:"])
@settings(max_examples=60)
async def test_any_text_that_is_repeated_stays_whole(parts, through, form):
    text = "\n".join(parts).strip() or "Nothing."
    said, _ = await through(text, form)
    steps, raw = split_draft(text, form, most=len(text)) if through is through_rar else (split_steps(text), "")
    assert lines(said) == lines(text if through is through_self_refine else join_steps([*steps, raw]))

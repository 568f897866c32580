"""A model that thinks before it writes is asked with room for its thoughts; every other model keeps its limits."""

import re
from collections.abc import Sequence

import pytest

from reground.core.answers import PHRASE
from reground.core.budget import Budget
from reground.core.journal import MemoryJournal
from reground.core.language import Message, Reply, Sampling, TokenLogprob, estimate_tokens
from reground.core.run import Run, solve
from reground.core.trajectory import GenerateStep
from reground.models.scripted import ScriptedModel
from tests.methods.helpers import notes, queries
from tests.methods.test_every_method import METHODS, QUESTION, SAID, make

THOUGHT = "Okay, the user wants something of me, so let me think about it. " * 25  # 325 words
FORMS = {
    "tags": "<think>\n{thought}\n</think>\n\n{text}",
    "other tags": "<seed:think>{thought}</seed:think>{text}",
    "symbols": "◁think▷{thought}◁/think▷{text}",
    "channels": "<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant<|channel|>final<|message|>{text}",
    "apart": "{text}",
    "hidden": "{text}",
}
"""The last two are of servers that give the thought in a field of its own, or not at all."""


class Paid(ScriptedModel):
    """A prompt costs four fifths of its estimate."""

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        first, *others = await super().generate(messages, sampling)
        usage = first.usage.model_copy(update={"prompt": estimate_tokens(tuple(messages)) * 4 // 5})
        return [first.model_copy(update={"usage": usage}), *others]


def a_model(form: str = "") -> ScriptedModel:
    """One that thinks for 325 words before every reply; without a form it has no thoughts. A word is a token."""

    def reply(messages: Sequence[Message], sampling: Sampling) -> Reply:
        text = next(said for mark, said in SAID.items() if mark in messages[-1].content)
        words = re.findall(r"\s*\S+", FORMS.get(form, "{text}").format(thought=THOUGHT, text=text))
        thought, left = re.findall(r"\s*\S+", THOUGHT), sampling.max_tokens
        reasoning = "".join(thought[:left]) if form == "apart" else None
        if form in {"apart", "hidden"}:
            left = max(0, left - len(thought))
        written = tuple(TokenLogprob(token=word, logprob=-0.5) for word in words[:left])
        return Reply(
            text="".join(words[:left]),
            reasoning=reasoning,
            finish_reason="length" if left < len(words) else "stop",
            token_logprobs=written if sampling.logprobs else None,
        )

    return Paid(reply, name="thinking" if form else "scripted")


def written(run: Run) -> list[tuple[str, str]]:
    """Name and text of all replies that are not thought alone."""
    calls = [step for step in run.steps if isinstance(step, GenerateStep)]
    return sorted((step.name, reply.text.strip()) for step in calls for reply in step.replies if reply.text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", METHODS)
async def test_every_query_reflection_and_rewriting_of_a_model_that_thinks_arrives(name, form):
    without, run, journal = Run(), Run(), MemoryJournal()
    expected = await make(name, a_model(), form=PHRASE).solve(QUESTION, without)
    run = Run(journal=journal)
    answer = await make(name, a_model(form), form=PHRASE).solve(QUESTION, run)
    assert answer == expected
    for (step, text), (same, cut) in zip(written(run), written(without), strict=True):
        assert step == same
        assert text.startswith(cut)  # a short limit holds for the thought and the text together
    assert queries(run) == queries(without)
    rooms = [reply.room for step in run.steps if isinstance(step, GenerateStep) for reply in step.replies if reply.room]
    for note in notes(run, "thought needs room"):
        assert (note.data["model"], note.data["to"] - note.data["from"]) == ("thinking", rooms[0])
    assert len(notes(run, "thought needs room")) == (1 if rooms else 0)
    again = Run(journal=journal)
    assert await make(name, ScriptedModel([], name="thinking"), form=PHRASE).solve(QUESTION, again) == answer
    assert [step.model_copy(update={"elapsed": 0.0, "replayed": False}) for step in again.steps] == [
        step.model_copy(update={"elapsed": 0.0}) for step in run.steps
    ]
    assert again.usage == run.usage


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", METHODS)
async def test_what_thoughts_need_is_learnt_with_the_first(name, form):
    without, first, second = Run(), Run(), Run()
    await make(name, a_model(), form=PHRASE).solve(QUESTION, without)
    method = make(name, a_model(form), form=PHRASE)
    await method.solve(QUESTION, first)
    assert first.usage.calls <= without.usage.calls + 1
    await method.solve(QUESTION, second)
    assert second.usage.calls == without.usage.calls, "the model has been learnt in the question before"


@pytest.mark.parametrize("name", METHODS)
async def test_the_second_calls_keep_to_the_budget(name):
    whole = Run()
    await make(name, a_model("tags"), form=PHRASE).solve(QUESTION, whole)
    for budget in (
        *(Budget(calls=calls) for calls in range(0, whole.usage.calls + 1, 3)),
        *(Budget(tokens=tokens) for tokens in (400, 1500, 5000, 20_000)),
        Budget(completion=600),
    ):
        run = Run(budget=budget)
        solved = await solve(make(name, a_model("tags"), form=PHRASE), QUESTION, run, id="q", name=name)
        assert run.usage.calls <= (budget.calls if budget.calls is not None else 10**6)
        assert run.usage.completion <= (budget.completion or 10**6)
        assert run.usage.tokens <= (budget.tokens or 10**6)
        assert solved.error is None or solved.trajectory.answer is None

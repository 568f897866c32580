"""A model that thinks before it writes is asked with room for its thoughts; every other model keeps its limits."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from reground.core.answers import PHRASE
from reground.core.budget import Budget
from reground.core.journal import MemoryJournal
from reground.core.language import Message, Reply, Sampling, TokenLogprob, Usage, estimate_tokens
from reground.core.method import solve
from reground.core.run import Run
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


def said_to(messages: Sequence[Message]) -> str:
    return next(said for mark, said in SAID.items() if mark in messages[-1].content)


def words_of(text: str) -> list[str]:
    return re.findall(r"\s*\S+", text)


class Thinking:
    """A model that thinks for 325 words before every reply. A word is a token."""

    name = "thinking"

    def __init__(self, form: str) -> None:
        self.form = form
        self.limits: list[int] = []

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        self.limits.append(sampling.max_tokens)
        replies = [self._reply(said_to(messages), sampling) for _ in range(sampling.n)]
        spent = sum(min(sampling.max_tokens, len(words_of(THOUGHT + said_to(messages)))) for _ in replies)
        usage = Usage(calls=1, prompt=estimate_tokens(tuple(messages)) * 4 // 5, completion=spent)
        return [replies[0].model_copy(update={"usage": usage}), *replies[1:]]

    def _reply(self, text: str, sampling: Sampling) -> Reply:
        thought, room = words_of(THOUGHT), sampling.max_tokens
        if self.form in {"apart", "hidden"}:
            words, left = words_of(text), max(0, room - len(thought))
            reasoning = "".join(thought[:room]) if self.form == "apart" else None
        else:
            words, left = words_of(FORMS[self.form].format(thought=THOUGHT, text=text)), room
            reasoning = None
        written = tuple(TokenLogprob(token=word, logprob=-0.5) for word in words[:left])
        return Reply(
            text="".join(words[:left]),
            reasoning=reasoning,
            finish_reason="length" if left < len(words) else "stop",
            token_logprobs=written if sampling.logprobs else None,
        )


def plain() -> ScriptedModel:
    """The same model without the thoughts."""

    def reply(messages: Sequence[Message], sampling: Sampling) -> Reply:
        words = words_of(said_to(messages))
        tokens = tuple(TokenLogprob(token=word, logprob=-0.5) for word in words[: sampling.max_tokens])
        end = "length" if sampling.max_tokens < len(words) else "stop"
        text = "".join(token.token for token in tokens)
        return Reply(text=text, finish_reason=end, token_logprobs=tokens if sampling.logprobs else None)

    return ScriptedModel(reply)


def written(run: Run) -> list[tuple[str, str]]:
    """Name and text of all replies that are not thought alone."""
    calls = [step for step in run.steps if isinstance(step, GenerateStep)]
    return sorted((step.name, reply.text.strip()) for step in calls for reply in step.replies if reply.text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", METHODS)
async def test_every_query_reflection_and_rewriting_of_a_model_that_thinks_arrives(name, form):
    without, run, journal = Run(), Run(), MemoryJournal()
    expected = await make(name, plain(), form=PHRASE).solve(QUESTION, without)
    thinking = Thinking(form)
    run = Run(journal=journal)
    answer = await make(name, thinking, form=PHRASE).solve(QUESTION, run)
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
    assert await make(name, Thinking("nobody asks"), form=PHRASE).solve(QUESTION, again) == answer
    assert [step.model_copy(update={"elapsed": 0.0, "replayed": False}) for step in again.steps] == [
        step.model_copy(update={"elapsed": 0.0}) for step in run.steps
    ]
    assert again.usage == run.usage


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", METHODS)
async def test_what_thoughts_need_is_learnt_with_the_first(name, form):
    without, first, second = Run(), Run(), Run()
    await make(name, plain(), form=PHRASE).solve(QUESTION, without)
    method = make(name, Thinking(form), form=PHRASE)
    await method.solve(QUESTION, first)
    assert first.usage.calls <= without.usage.calls + 1
    await method.solve(QUESTION, second)
    assert second.usage.calls == without.usage.calls, "the model has been learnt in the question before"


@pytest.mark.parametrize("name", METHODS)
async def test_the_second_calls_keep_to_the_budget(name):
    whole = Run()
    await make(name, Thinking("tags"), form=PHRASE).solve(QUESTION, whole)
    for budget in (
        *(Budget(calls=calls) for calls in range(0, whole.usage.calls + 1, 3)),
        *(Budget(tokens=tokens) for tokens in (400, 1500, 5000, 20_000)),
        Budget(completion=600),
    ):
        run = Run(budget=budget)
        solved = await solve(make(name, Thinking("tags"), form=PHRASE), QUESTION, run, id="q", name=name)
        assert run.usage.calls <= (budget.calls if budget.calls is not None else 10**6)
        assert run.usage.completion <= (budget.completion or 10**6)
        assert run.usage.tokens <= (budget.tokens or 10**6)
        assert solved.error is None or solved.trajectory.answer is None

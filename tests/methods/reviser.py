"""A scripted model that drafts, criticises and revises by rules, whatever the words of a method's prompts are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reground.core.answers import TEXT, AnswerForm
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling
from reground.core.run import Run
from reground.methods.rar import RaR
from reground.methods.rat import RAT
from reground.methods.self_refine import SelfRefine
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever

WRITING, JUDGING, ASKING = 1000, 200, 50
"""The token limits of the methods built here; by them the model knows what a call is for."""
BESIDE_THE_POINT = [Passage(id="tide", title="Tide", text="The tide comes in twice a day.")]

Lines = list[str]
Revise = Callable[[Lines], str | Reply]
"""What the model writes for the lines under revision."""


def reviser(draft: str, revise: Revise, judge: Callable[[Lines], str] | str, query: str = "tide") -> ScriptedModel:
    """A model that begins with the draft. judge: its criticism of the lines at hand. query: all its queries."""
    own: set[str] = set()

    def reply(messages: Sequence[Message], sampling: Sampling) -> str | Reply:
        if sampling.max_tokens == ASKING:
            return query
        lines = at_hand(messages, own)
        if sampling.max_tokens == JUDGING:
            return judge if isinstance(judge, str) else judge(lines)
        written = revise(lines) if own else draft
        own.update(lines_of(written if isinstance(written, str) else written.text))
        return written

    return ScriptedModel(reply)


def at_hand(messages: Sequence[Message], own: set[str]) -> Lines:
    """The lines that a call is about: the last run of the model's own lines in the last message that has any."""
    for message in reversed(messages):
        lines = lines_of(message.content)
        ends = [i for i, line in enumerate(lines, start=1) if line in own]
        if ends:
            start = end = ends[-1]
            while start > 0 and lines[start - 1] in own:
                start -= 1
            return lines[start:end]
    return []


def rat(model: ScriptedModel, form: AnswerForm = TEXT, **settings: object) -> RAT:
    limits = {"max_tokens": WRITING, "query_tokens": ASKING}
    return RAT(model=model, retriever=ScriptedRetriever(BESIDE_THE_POINT), form=form, **limits, **settings)


def rar(model: ScriptedModel, form: AnswerForm = TEXT, **settings: object) -> RaR:
    limits = {"max_tokens": WRITING, "reflection_tokens": JUDGING, "query_tokens": ASKING}
    return RaR(model=model, retriever=ScriptedRetriever(BESIDE_THE_POINT), form=form, **limits, **settings)


def self_refine(model: ScriptedModel, form: AnswerForm = TEXT, **settings: object) -> SelfRefine:
    return SelfRefine(model=model, form=form, max_tokens=WRITING, feedback_tokens=JUDGING, **settings)


async def answered(method: RAT | RaR | SelfRefine, question: str) -> str:
    """The text of a method's answer."""
    return (await method.solve(question, Run())).text


def lines_of(text: str) -> Lines:
    """The lines that are not blank: methods set blank lines between steps as they see fit."""
    return [line.strip() for line in text.splitlines() if line.strip()]

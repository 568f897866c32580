"""The five reasoning steps and their prompts: code as the system message, exemplars as turns, the present state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from reground.core.language import Grammar, Message, estimate_tokens
from reground.core.untrusted import neutralise
from reground.methods.search_agent import exemplars
from reground.methods.search_agent.actions import (
    Action,
    CheckAnswer,
    GivenAnswer,
    LinkSelection,
    ReviseAnswer,
    Search,
    Terminate,
    reply,
)
from reground.methods.search_agent.exemplars import Exemplar
from reground.methods.search_agent.grammars import grammar
from reground.methods.search_agent.view import Cut, View, cuts, show


@dataclass(frozen=True)
class Step:
    """A kind of reasoning step: its name, actions, exemplars, and usual tokens per reply."""

    name: str
    kinds: tuple[type[Action], ...]
    exemplars: tuple[Exemplar, ...]
    usual: int

    def grammar(self, links: tuple[int, ...]) -> Grammar:
        """The form of the step's reply, with comments where its exemplars have them. links: those it shows."""
        return grammar(self.kinds, comments=any(each.comments for each in self.exemplars), links=links)


DECIDE = Step("decide", (Search, Terminate), exemplars.DECIDE, 50)
SUMMARISE = Step("summarise", (LinkSelection,), exemplars.SUMMARISE, 90)
ANSWER = Step("answer", (GivenAnswer,), exemplars.ANSWER, 90)
RELEVANCE = Step("relevance", (CheckAnswer, ReviseAnswer), exemplars.RELEVANCE, 60)
GROUNDING = Step("grounding", (CheckAnswer, ReviseAnswer), exemplars.GROUNDING, 60)
STEPS = (DECIDE, SUMMARISE, ANSWER, RELEVANCE, GROUNDING)

_WHOLE = 10_000


@dataclass(frozen=True)
class Fitted:
    """A prompt, its cut, and its estimated length in tokens."""

    messages: tuple[Message, ...]
    cut: Cut
    size: int

    @property
    def context(self) -> str:
        """The turn with the present state."""
        return self.messages[-1].content


def fit(
    step: Step, system: str, view: View, *, shots: int | None, snippet: int, limit: int | None, first: int = 0
) -> Fitted:
    """The fullest prompt of at most `limit` tokens, or the shortest prompt if none fits.

    first: the exemplar with which the prompt begins; the others follow in a circle.
    """
    most = len(step.exemplars) if shots is None else min(shots, len(step.exemplars))
    for cut in cuts(view, shots=most, snippet=snippet):
        messages = _messages(step, system, view, cut, first)
        size = estimate_tokens(messages)
        if limit is None or size <= limit:
            break
    return Fitted(messages, cut, size)


def _messages(step: Step, system: str, view: View, cut: Cut, first: int) -> tuple[Message, ...]:
    state = show(view, snippet=cut.snippet, short=cut.short, left_out=cut.left_out)
    count = len(step.exemplars)
    turns = [turn for i in range(first, first + cut.shots) for turn in _turns(step.exemplars[i % count])]
    return (
        Message(role="system", content=system),
        *turns,
        Message(role="user", content=neutralise(state)),
    )


@cache
def _turns(exemplar: Exemplar) -> tuple[Message, Message]:
    return (
        Message(role="user", content=show(exemplar.view, snippet=_WHOLE)),
        Message(role="assistant", content=reply(exemplar.action, exemplar.comments)),
    )

"""The five reasoning steps and their prompts: code as the system message, exemplars as turns, the present state.

A `View` is what a prompt shows of the state; `cuts` make it fit the context. The exemplars are in
reground/methods/examples/search_agent.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from reground.core.language import Grammar, Message, estimate_tokens
from reground.core.untrusted import neutralise
from reground.methods.search_agent.actions import (
    Action,
    CheckAnswer,
    GivenAnswer,
    LinkSelection,
    Past,
    ResultItem,
    ReviseAnswer,
    Search,
    SelectLink,
    Terminate,
    grammar,
    literal,
    past_code,
    reply,
    results_code,
)

SHORT = 12
"""Tokens of a shortened snippet."""


@dataclass(frozen=True)
class View:
    """The state for one step. Fields that the step does not use are None."""

    question: str
    past: tuple[Past, ...] = ()
    remaining: int | None = None
    results: tuple[ResultItem, ...] | None = None
    answer: str | None = None


@dataclass(frozen=True)
class Cut:
    """How much a prompt shows.

    shots: number of exemplars. snippet: tokens per snippet. short: number of the oldest selections whose snippets are
    cut to `SHORT` tokens. left_out: number of the oldest actions that are left out. weakened: whether anything was cut.
    """

    shots: int
    snippet: int
    short: int = 0
    left_out: int = 0
    weakened: bool = False


def cuts(view: View, *, shots: int, snippet: int) -> Iterator[Cut]:
    """Cuts, each stronger than the one before: shorten older snippets, oldest first; show fewer exemplars, down to one;
    leave out older actions; shorten the latest snippets; show no exemplar. The question and the latest search stay."""
    yield Cut(shots, snippet)
    cut = Cut(shots, snippet, weakened=True)
    selections = sum(isinstance(past, SelectLink) for past in view.past)
    older = selections if view.results is not None else max(0, selections - 1)
    for short in range(1, older + 1):
        yield (cut := replace(cut, short=short))
    for fewer in range(shots - 1, 0, -1):
        yield (cut := replace(cut, shots=fewer))
    searches = [i for i, past in enumerate(view.past) if isinstance(past, Search)]
    for left_out in searches[1:]:
        yield (cut := replace(cut, left_out=left_out))
    while cut.snippet > SHORT:
        yield (cut := replace(cut, snippet=max(SHORT, cut.snippet // 2)))
    if shots:
        yield replace(cut, shots=0)


def show(view: View, *, snippet: int, short: int = 0, left_out: int = 0) -> str:
    """The state as in the listings: past actions between the question and its repetition."""
    question = f"ORIGINAL_QUESTION: str = {literal(view.question)}"
    lines = [question, "PAST_ACTIONS: List[Action] = ["]
    if left_out:
        lines.append(f"# {left_out} older actions are left out")
    seen = 0
    for i, past in enumerate(view.past):
        seen += isinstance(past, SelectLink)
        if i >= left_out:
            shortened = isinstance(past, SelectLink) and seen <= short
            lines.append(past_code(past, snippet_tokens=min(SHORT, snippet) if shortened else snippet))
    lines.append("]")
    if view.remaining is not None:
        lines.append(f"REMAINING_SEARCHES: int = {view.remaining}")
    if view.results is not None:
        shown = results_code(view.results, snippet_tokens=snippet)
        lines.append(f"CURRENT_SEARCH_RESULTS = SearchResult(links=[\n{shown}\n])")
    lines.append(question)
    if view.answer is not None:
        lines.append(f"ANSWER: str = {literal(view.answer)}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Exemplar:
    """A state, and a good reply to it: its comments and its action."""

    view: View
    action: Action
    comments: tuple[str, ...] = ()


def read_exemplars() -> dict[str, tuple[Exemplar, ...]]:
    """The worked examples by step. Each is cut out of one of the file's stories."""
    text = files("reground.methods").joinpath("examples", "search_agent.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    stories = tables.pop("stories")
    makers: dict[str, Callable[..., Exemplar]] = {
        "decide": _decide, "summarise": _summarise, "answer": _answer, "relevance": _check, "grounding": _check
    }  # fmt: skip
    return {
        step: tuple(
            makers[step](stories[each["story"]], each, tuple(each.get("comments", ()))) for each in tables[step]
        )
        for step in makers
    }


_Table = Mapping[str, Any]


def _past(story: _Table) -> tuple[Past, ...]:
    """The story's actions: a search has a query, a selection has links, and the end has thoughts alone."""
    past: list[Past] = []
    for each in story["past"]:
        if "query" in each:
            past.append(Search(**each))
        elif "links" in each:
            past.append(SelectLink(_items(each["links"]), each["summary"], each["thoughts"]))
        else:
            past.append(Terminate(**each))
    return tuple(past)


def _items(links: list[_Table]) -> tuple[ResultItem, ...]:
    return tuple(ResultItem(link["id"], link["title"], link["text"]) for link in links)


def _decide(story: _Table, example: _Table, comments: tuple[str, ...]) -> Exemplar:
    """The decision that the story takes after `done` actions."""
    past, done = _past(story), example["done"]
    action = past[done]
    assert isinstance(action, Search | Terminate)
    return Exemplar(View(story["question"], past[:done], remaining=example["remaining"]), action, comments)


def _summarise(story: _Table, example: _Table, comments: tuple[str, ...]) -> Exemplar:
    """The selection that the story makes after `done` actions, from its links and `others`."""
    past, done = _past(story), example["done"]
    selected = past[done]
    assert isinstance(selected, SelectLink)
    links = (*selected.selected_links, *_items(example["others"]))
    results = tuple(sorted(links, key=lambda link: link.link_id))
    ids = tuple(link.link_id for link in selected.selected_links)
    action = LinkSelection(selected.grounded_summarization, ids, selected.thoughts)
    return Exemplar(View(story["question"], past[:done], results=results), action, comments)


def _answer(story: _Table, example: _Table, comments: tuple[str, ...]) -> Exemplar:
    return Exemplar(View(story["question"], _past(story)), GivenAnswer(story["answer"], story["thoughts"]), comments)


def _check(story: _Table, example: _Table, comments: tuple[str, ...]) -> Exemplar:
    """The story's own answer passes; a `wrong` one is revised to the story's own. Listings 5 and 6."""
    wrong = example.get("wrong")
    answer = wrong or story["answer"]
    past = (*_past(story), GivenAnswer(answer, story["thoughts"]))
    action = ReviseAnswer(story["answer"]) if wrong else CheckAnswer(True)
    return Exemplar(View(story["question"], past, answer=answer), action, comments)


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


_EXEMPLARS = read_exemplars()
DECIDE = Step("decide", (Search, Terminate), _EXEMPLARS["decide"], 50)
SUMMARISE = Step("summarise", (LinkSelection,), _EXEMPLARS["summarise"], 90)
ANSWER = Step("answer", (GivenAnswer,), _EXEMPLARS["answer"], 90)
RELEVANCE = Step("relevance", (CheckAnswer, ReviseAnswer), _EXEMPLARS["relevance"], 60)
GROUNDING = Step("grounding", (CheckAnswer, ReviseAnswer), _EXEMPLARS["grounding"], 60)
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

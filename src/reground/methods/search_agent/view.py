"""What a step's prompt shows of the state, and how it is cut to fit the context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reground.methods.search_agent.actions import (
    Past,
    ResultItem,
    Search,
    SelectLink,
    literal,
    past_code,
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

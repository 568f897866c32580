"""What a step's prompt shows of the state, and how it is cut where the context is full."""

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
"""Tokens of a snippet that was shortened to make room."""


@dataclass(frozen=True)
class View:
    """The state as one step sees it: fields that the step does not use are None."""

    question: str
    past: tuple[Past, ...] = ()
    remaining: int | None = None
    results: tuple[ResultItem, ...] | None = None
    answer: str | None = None


@dataclass(frozen=True)
class Cut:
    """How much a prompt shows.

    shots: exemplars. snippet: tokens a snippet. short: how many of the oldest selections show `SHORT` tokens of each
    snippet instead. left_out: how many of the oldest past actions are not shown at all. weakened: whether anything is
    left out.
    """

    shots: int
    snippet: int
    short: int = 0
    left_out: int = 0
    weakened: bool = False


def cuts(view: View, *, shots: int, snippet: int) -> Iterator[Cut]:
    """Cuts of growing strength: older snippets shortened, oldest first; fewer exemplars, down to one; older actions
    left out; the latest snippets shortened; no exemplar. The question and the latest search always stay."""
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
    """The state as the listings write it: the question first and last, and between them what has been done."""
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

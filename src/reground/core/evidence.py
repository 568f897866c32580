"""Retrieved evidence, the port that finds it, and the markers by which a text cites it: [3], or [1, 4].

Other brackets stay unchanged: in code, an index after a name (a[1], row_2[7]), next to an operator or a link's address,
a list after "is" or "range", and numbers that no passage has ([0], [2019]).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Annotated, Protocol, runtime_checkable

from reground.core.language import LATER, Number, Text, Value


class Passage(Value):
    """A piece of a document. `id` is unique in its corpus; `score` is the retriever's, higher is better.

    fetched: when it was fetched from the web, as ISO 8601 in UTC.
    """

    id: Text
    text: Text
    title: Text = ""
    url: Text | None = None
    score: Number = 0.0
    fetched: Annotated[Text | None, LATER] = None

    @property
    def page_id(self) -> str:
        """The id of the page or document of which it is a piece, ID#NUMBER; its own, where it is the whole."""
        page, _, number = self.id.rpartition("#")
        return page if page and number.isdecimal() else self.id


class Skipped(Value):
    """What a search found and could not read, and why."""

    skipped: Text
    why: Text


class SearchResults(tuple[Passage, ...]):
    """The passages of a search that also tells what it skipped."""

    skipped: tuple[Skipped, ...]

    def __new__(cls, passages: Iterable[Passage] = (), skipped: Iterable[Skipped] = ()) -> SearchResults:
        """Passages, best first."""
        results = super().__new__(cls, passages)
        results.skipped = tuple(skipped)
        return results

    @classmethod
    def like(cls, results: Sequence[Passage], passages: Iterable[Passage]) -> SearchResults:
        """Other passages, with what the first search skipped."""
        return cls(passages, results.skipped if isinstance(results, cls) else ())


@runtime_checkable
class Retriever(Protocol):
    """Anything that ranks passages for a query. Raises `RetrievalError`."""

    @property
    def name(self) -> str:
        """Names the index and the kind of search. Part of a run's identity."""

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """Return at most `k` passages, best first."""


@runtime_checkable
class Pages(Retriever, Protocol):
    """A retriever that can also open the page of a passage. Not every retriever can: ask `isinstance`."""

    async def page(self, passage_id: str, /) -> Passage | None:
        """The whole document under its own id, or the part around the passage if it is very long; None if there is
        none.

        Raises `RetrievalError`.
        """


_BRACKET = r"\[\d+(?:[ \t]*[,;][ \t]*\d+)*\]"
_RUN = re.compile(rf"{_BRACKET}(?:(?:[ \t]*[,;&]|[ \t]+and)?[ \t]*{_BRACKET})*")
"""Markers side by side: [1][2], [1], [2] and [3]."""
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
_INDEXED = re.compile(
    r"(?<!\d[ \t])(?<!\w)(?=\w++$)(?!(?:\d*[A-Z]){2}[A-Z\d]*$)(?:[A-Za-z]$|[A-Za-z]\w*[_\d]|_\w|[a-z]+[A-Z])"
)
"""A name of code before a bracket. Capitals with digits, at least two capitals, are a word: CO2, COVID19."""
_BESIDE = re.compile(r"(?:[=<>+/^\\][ \t]*|\\\w+)$")
_AFTER = re.compile(r"\A(?:\{|\((?!\[)|[ \t]*+[=<>+/^])")
_CLOSING = re.compile(r"(?<![ \t])[ \t]*+\)")
_LISTS = re.compile(
    r"\b(?:is|are|be|was|were|of|from|between|returns?|equals?|gives"
    r"|interval|range|list|array|set|vector|tuple)[ \t]+$",
    re.IGNORECASE,
)
_USUAL = 99  # a larger number in brackets is no marker (it may be a year), unless there are more passages
_NEAR = 80  # characters to look at on either side of a marker
_PASSES = 8  # maximum passes over a text. A text that still changes after that is only nested brackets.


def cited_markers(text: str, *, most: int) -> list[int]:
    """The passage numbers that a text cites, each once, in order. most: the highest existing number."""
    markers = (number for _, _, numbers in marker_runs(text, most=most) for number in numbers)
    return list(dict.fromkeys(number for number in markers if number <= most))


def marker_runs(text: str, *, most: int) -> Iterator[tuple[int, int, list[int]]]:
    """Where markers stand side by side, such as [1][2]: the begin, the end, and the numbers."""
    at = 0
    for place, part in enumerate(_CODE.split(text)):
        for match in _RUN.finditer(part) if place % 2 == 0 else ():
            start, end = match.span()
            numbers = _numbers(match[0])
            before, after = part[max(0, start - _NEAR) : start].rpartition("\n")[2], part[end : end + _NEAR]
            is_code = _INDEXED.search(before) or _BESIDE.search(before) or _AFTER.match(after)
            is_list = match[0].count("[") == 1 and len(numbers) > 1 and _LISTS.search(before)
            if all(0 < number <= max(_USUAL, most) for number in numbers) and not is_code and not is_list:
                yield at + start, at + end, numbers
        at += len(part)


def only_markers(text: str, *, most: int) -> bool:
    """Whether a text has markers of passages, and beside them no letter or digit. most: the highest existing number."""
    end, between = 0, ""
    for start, stop, numbers in marker_runs(text, most=most):
        if max(numbers) > most:
            return False
        between, end = between + text[end:start], stop
    return end > 0 and not any(sign.isalnum() for sign in between + text[end:])


def without_unknown(text: str, markers: Collection[int]) -> tuple[str, list[int]]:
    """The text without markers that name no passage of `markers`, and the removed numbers."""
    unknown: list[int] = []

    def keep(run: str) -> str:
        strange = [number for number in _numbers(run) if number not in markers]
        if not strange:
            return run
        unknown.extend(strange)
        groups = [[number for number in _numbers(group) if number in markers] for group in re.findall(_BRACKET, run)]
        join = next(iter(re.split(_BRACKET, run)[1:-1]), "")  # as the first two are joined
        return join.join(f"[{', '.join(map(str, group))}]" for group in groups if group)

    most = max(markers, default=0)
    for _ in range(_PASSES):  # a removal may create another marker
        before, text = text, _each_run(text, keep, most)
        if text == before:
            break
    else:
        text = text.replace("[", "").replace("]", "")
    return text, list(dict.fromkeys(unknown))


def unbracketed(text: str) -> str:
    """The text of a document with its own references in round brackets, so that a copy of them cites nothing."""
    return _each_run(text, lambda run: run.replace("[", "(").replace("]", ")"), _USUAL)


def _each_run(text: str, change: Callable[[str], str], most: int) -> str:
    parts, end = [], 0
    for start, stop, _ in marker_runs(text, most=most):
        before, new, end = text[end:start], change(text[start:stop]), stop
        if not new:
            before, end = _closed(before, text, end)
        parts += [before, new]
    return "".join([*parts, text[end:]])


def _closed(before: str, text: str, end: int) -> tuple[str, int]:
    """The text kept before a removed run, and the position where the text continues.

    Parentheses that contained nothing else are removed too, and one space.
    """
    opened = before.rstrip(" \t")
    if opened.endswith("(") and (closing := _CLOSING.match(text, end)):
        opened, end = opened[:-1].rstrip(" \t"), closing.end()
    if not opened or opened.endswith("\n"):
        while text[end : end + 1] in {" ", "\t", ":"}:
            end += 1
        return opened, end
    return (before if text[end : end + 1].isalnum() else opened), end


def _numbers(run: str) -> list[int]:
    return [int(number[:9]) for number in re.findall(r"\d+", run)]  # nine digits: int() refuses thousands of them

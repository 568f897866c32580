"""Citations as annotations, each over the claim in the answer that it supports."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from reground.core.citations import marker_runs
from reground.text.sentences import sentences

if TYPE_CHECKING:
    from reground.app.result import Result
    from reground.core.answers import Citation


@dataclass(frozen=True)
class Cited:
    """An answer and its `url_citation` annotations: start_index and end_index in characters of the text, url, title."""

    text: str
    annotations: list[dict[str, Any]]


def cited(result: Result) -> Cited:
    """The answer with its markers numbered as its sources are: [2] is the second source that the annotations name.

    Clients that show a marker as a source count them so. A source that supports no claim is numbered behind the others.
    Where the sentences were checked, a sentence has the sources that support it; otherwise those whose markers it has.
    """
    known = {citation.marker: citation for citation in result.citations}
    runs = list(marker_runs(result.text, most=max(known, default=0)))
    claims = list(_claims(result, runs, known))
    named = [*(source for _, _, sources in claims for source in sources), *known.values()]
    places = list(dict.fromkeys(map(_address, named)))
    written = {marker: places.index(_address(source)) + 1 for marker, source in known.items()}
    changes = [(start, end, _rewritten(result.text[start:end], run, written)) for start, end, run in runs]
    # a place of the text moves by what the changes before it add or take away
    ends = [end for _, end, _ in changes]
    shifts = [0, *accumulate(len(new) - (end - start) for start, end, new in changes)]
    annotations = []
    for *span, sources in claims:
        start, end = (place + shifts[bisect_right(ends, place)] for place in span)
        claim = {"start_index": start, "end_index": end}
        titles = dict.fromkeys((_address(source), source.title) for source in sources)
        annotations += [{**claim, "url": url, "title": title or url} for url, title in titles]
    return Cited(_changed(result.text, changes), annotations)


_Runs = Sequence[tuple[int, int, list[int]]]
_Changes = Sequence[tuple[int, int, str]]


def _claims(result: Result, runs: _Runs, known: Mapping[int, Citation]) -> Iterator[tuple[int, int, list[Citation]]]:
    """The begin and the end of each sentence without the white space around it, and its sources."""
    checked = result.sentences if "".join(each.text for each in result.sentences) == result.text else ()
    texts = [each.text for each in checked] or sentences(result.text)
    begins = [begin for begin, _, _ in runs]
    at = 0
    for number, text in enumerate(texts):
        start, at = at, at + len(text)
        if checked:
            sources = list(checked[number].supports)
        else:
            within = runs[bisect_left(begins, start) : bisect_left(begins, at)]
            sources = [known[each] for _, _, run in within for each in run if each in known]
        lead = len(text) - len(text.lstrip())
        yield start + lead, start + max(lead, len(text.rstrip())), sources


def _rewritten(run: str, numbers: Sequence[int], written: Mapping[int, int]) -> str:
    """Markers with other numbers. Those of passages of one source become one."""
    changed = [written.get(number, number) for number in numbers]
    if len(set(changed)) < len(changed):
        return "".join(f"[{number}]" for number in dict.fromkeys(changed))
    new = iter(changed)
    return re.sub(r"\d+", lambda _: str(next(new)), run)


def _changed(text: str, changes: _Changes) -> str:
    parts, done = [], 0
    for start, end, new in changes:
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def _address(citation: Citation) -> str:
    """A page of the web, or a document's path within its corpus. No other scheme gets through."""
    address = citation.url or citation.passage_id
    try:
        if urlsplit(address).scheme in ("http", "https"):
            return address
    except ValueError:
        pass
    return quote(address, safe="/#")

"""Citations as `url_citation` annotations, each over the claim in the answer that it supports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from reground.core.markers import cited_markers
from reground.text.sentences import sentences

if TYPE_CHECKING:
    from reground.app.asking import Result
    from reground.core.answers import Citation


def url_citations(result: Result) -> list[dict[str, Any]]:
    """Where each citation belongs, in characters (code points) of the text.

    Where the sentences were checked, a sentence has the sources that support it; otherwise those whose markers it has.
    """
    found, start = [], 0
    for text, sources in _claims(result):
        end = start + len(text)
        lead = len(text) - len(text.lstrip())
        claim = {"start_index": start + lead, "end_index": start + max(lead, len(text.rstrip()))}
        places = {(_address(source), source.title): None for source in sources}
        found += [{"type": "url_citation", **claim, "url": url, "title": title or url} for url, title in places]
        start = end
    return found


def _claims(result: Result) -> Iterator[tuple[str, Iterable[Citation]]]:
    if result.sentences and "".join(each.text for each in result.sentences) == result.text:
        for sentence in result.sentences:
            yield sentence.text, sentence.supports
        return
    cited = {citation.marker: citation for citation in result.citations}
    for text in sentences(result.text):
        markers = cited_markers(text, most=max(cited, default=0))
        yield text, [cited[marker] for marker in markers if marker in cited]


def _address(citation: Citation) -> str:
    """A page of the web, or a document's path within its corpus. No other scheme gets through."""
    address = citation.url or citation.passage_id
    try:
        if urlsplit(address).scheme in ("http", "https"):
            return address
    except ValueError:
        pass
    return quote(address, safe="/#")

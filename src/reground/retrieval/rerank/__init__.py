"""Reranking: the first passages of a search, put into a better order by something that looks closer.

`links` and `links:FOLDER` weigh what BM25 and the titles say (`links.py`); the others read question and passage
together: `critic:FOLDER`, `cross-encoder:NAME`, `llama-server:URL`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.evidence import Pages, Retriever
from reground.retrieval.rerank.reranked import Reranked, RerankedPages, Reranker

LINKS_DEPTH, JUDGED_DEPTH = 30, 20
"""First passages that are looked at: links cost nothing, but a model reads each of the others."""
By = Literal["fused", "score"]


def rerank(
    retriever: Retriever,
    spec: str,
    *,
    depth: int | None = None,
    tokens: int | None = None,
    by: By = "fused",
    closes: bool = True,
) -> Retriever:
    """A retriever that reranks the first `depth` passages of another one; it opens pages where that one does.

    tokens: how much of a query and a passage a cross-encoder reads. by: the order by the scores alone, or fused with
    the first ranking. closes: whether closing it closes the other one.
    Raises ConfigurationError for an unknown kind of reranker, or one that is not there.
    """
    kind, place = known(spec)
    if kind == "links":
        from reground.retrieval.rerank.links import linked

        return linked(retriever, place, depth=LINKS_DEPTH if depth is None else depth, closes=closes)
    made = RerankedPages if isinstance(retriever, Pages) else Reranked
    judge = _JUDGES[kind](place, tokens)
    return made(retriever, judge, depth=JUDGED_DEPTH if depth is None else depth, by=by, closes=closes)


def known(spec: str) -> tuple[str, str]:
    """The kind of a reranker, and what to rerank with. Raises ConfigurationError for an unknown kind."""
    kind, _, place = spec.partition(":")
    if kind not in (*_JUDGES, "links"):
        write = "Write links, critic:FOLDER, cross-encoder:NAME or llama-server:URL"
        near = did_you_mean(kind, [*_JUDGES, "links"], write)
        raise ConfigurationError(f"no reranker is called {kind!r}; {near}")
    if kind in _EXAMPLES and not place:
        raise ConfigurationError(f"the reranker {kind} needs what to rerank with: {_EXAMPLES[kind]}")
    return kind, place


_EXAMPLES = {
    "critic": "critic:FOLDER, as reground train critics writes it",
    "cross-encoder": "cross-encoder:cross-encoder/ms-marco-MiniLM-L6-v2, or a folder",
    "llama-server": "llama-server:http://localhost:8080",
}


def _critic(place: str, tokens: int | None) -> Reranker:
    from reground.retrieval.rerank.judges import critic

    return critic(place)


def _cross_encoder(place: str, tokens: int | None) -> Reranker:
    from reground.retrieval.rerank.judges import WINDOW, cross_encoder

    return cross_encoder(place, WINDOW if tokens is None else tokens)


def _server(place: str, tokens: int | None) -> Reranker:
    from reground.retrieval.rerank.judges import server

    return server(place)


_JUDGES: dict[str, Callable[[str, int | None], Reranker]] = {
    "critic": _critic,
    "cross-encoder": _cross_encoder,
    "llama-server": _server,
}

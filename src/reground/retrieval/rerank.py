"""Reranking: the first passages of a search, put into a better order by something that looks closer.

`critic:FOLDER`, `cross-encoder:NAME` and `llama-server:URL` read question and passage together (`judges.py`).

`links` goes by titles: a question of several steps names one document, and that one names the next.
The two best documents of the first search are searched with in turn, which finds documents that share no word with the
question. All that was found is then ordered by a weighted sum of a few features: the score and the rank of the first
search, whether the passage's title stands in the question, and whether it stands in one of the two best documents. A
title counts as the name of one thing: in the letters in which another document writes it, not where it is a number or
all in small letters, as are the names of files, and the less, the more pieces of its document are found. One in the
question counts half where its passage adds no word of the question to those of the best passage. A document comes
behind the one whose link brings it. No model is needed, and a query costs two more searches.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self

from reground.core.concurrency import close, gather
from reground.core.errors import AuthenticationError, ConfigurationError, ModelError, RetrievalError, did_you_mean
from reground.core.evidence import Pages, Passage, Retriever, SearchResults
from reground.core.journal import fingerprint
from reground.core.language import Number, Value, finite
from reground.retrieval.chunking import distinct, normal, normal_title, passage_text, reciprocal_rank_fusion
from reground.retrieval.filters import FilterError
from reground.text.excerpts import FUNCTION_WORDS

if TYPE_CHECKING:
    from reground.retrieval.judges import Judge

LINKS_DEPTH, JUDGED_DEPTH = 30, 20
"""First passages that are looked at: links cost nothing, but a model reads each of the others."""
By = Literal["fused", "score"]


def rerank(
    retriever: Retriever, spec: str, *, depth: int | None = None, tokens: int | None = None, by: By = "fused"
) -> Retriever:
    """A retriever that reranks the first `depth` passages of another one; it opens pages where that one does.

    tokens: how much of a query and a passage a cross-encoder reads. by: the order by the scores alone, or fused with
    the first ranking. Raises ConfigurationError for an unknown kind of reranker, or one that is not there.
    """
    kind, place = parse_spec(spec)
    if kind == "links":
        return Linked(retriever, Weights(), depth=LINKS_DEPTH if depth is None else depth)
    from reground.retrieval import judges

    if kind == "critic":
        judge = judges.critic(place)
    elif kind == "cross-encoder":
        judge = judges.cross_encoder(place, judges.WINDOW if tokens is None else tokens)
    else:
        judge = judges.server(place)
    return Reranked(retriever, judge, depth=JUDGED_DEPTH if depth is None else depth, by=by)


def parse_spec(spec: str) -> tuple[str, str]:
    """The kind of a reranker, and what to rerank with. Raises ConfigurationError for an unknown kind."""
    kind, _, place = spec.partition(":")
    if spec != "links" and kind not in _EXAMPLES:
        write = "Write links, critic:FOLDER, cross-encoder:NAME or llama-server:URL"
        near = did_you_mean(kind, [*_EXAMPLES, "links"], write)
        raise ConfigurationError(f"no reranker is called {spec!r}; {near}")
    if kind in _EXAMPLES and not place:
        raise ConfigurationError(f"the reranker {kind} needs what to rerank with: {_EXAMPLES[kind]}")
    return kind, place


_EXAMPLES = {
    "critic": "critic:FOLDER, as reground train critics writes it",
    "cross-encoder": "cross-encoder:cross-encoder/ms-marco-MiniLM-L6-v2, or a folder",
    "llama-server": "llama-server:http://localhost:8080",
}


async def only(retriever: Retriever, where: str | None) -> Retriever:
    """The retriever over the documents that a filter chooses (`filters.where`); without one over all.

    Raises FilterError for one that cannot be read or chooses none, and where none is possible.
    """
    if where is not None and not hasattr(retriever, "only"):
        raise FilterError("a filter is for documents that are indexed here, not for another retriever")
    index: Any = retriever
    filtered: Retriever = retriever if where is None else await index.only(where)
    return filtered


class _Above:
    """A retriever that puts the first `depth` passages of another one into an order of its own.

    It has `page` where that one has, and closing it closes that one.
    """

    def __init__(self, retriever: Retriever, name: str, depth: int) -> None:
        if depth < 1:
            raise ConfigurationError(f"a reranker needs at least one passage, not {depth}")
        self.name = f"{retriever.name} > {name}"
        self.language: str | None = getattr(retriever, "language", None)
        if isinstance(retriever, Pages):
            self.page = retriever.page
        self._first = retriever
        self._depth = depth

    async def only(self, where: str, /) -> Self:
        """The same over the documents that a filter chooses. Raises FilterError."""
        filtered = copy(self)
        filtered._first = first = await only(self._first, where)  # noqa: SLF001
        filtered.name = f"{first.name}{self.name.removeprefix(self._first.name)}"
        if isinstance(first, Pages):
            filtered.page = first.page
        return filtered

    async def aclose(self) -> None:
        await close(self._first)


class Reranked(_Above):
    """The first `depth` passages of a retriever in a better order; what follows them stays behind.

    by: `score` orders by the reranker alone, `fused` by reciprocal rank over both orders, which forgives a reranker
    that errs where the first search does not.
    """

    def __init__(self, retriever: Retriever, judge: Judge, *, depth: int, by: By = "fused") -> None:
        super().__init__(retriever, f"{judge.name} {by} {depth}", depth)
        self._judge = judge
        self._by = by

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """The `k` best passages; their scores are those that order them. Raises RetrievalError."""
        first = await self._first.retrieve(query, k=max(k, self._depth))
        ranking = list(first)
        if k < 1 or not query.strip():
            return ranking[: max(k, 0)]
        head, rest = ranking[: self._depth], ranking[self._depth :]
        return SearchResults.like(first, (await self._ordered(query, head) + rest)[:k])

    async def _ordered(self, query: str, head: list[Passage]) -> list[Passage]:
        if not head:
            return []
        try:
            scores = [finite(float(score)) for score in await self._judge.scores(query, head)]
        except AuthenticationError:
            raise  # a method may go on without passages after a failed retrieval, but here it would for every question
        except ModelError as error:
            raise RetrievalError(f"the passages could not be reranked: {error}") from error
        places = sorted(range(len(head)), key=lambda place: (-scores[place], place))
        ranked = [(place, scores[place]) for place in places]
        if self._by == "fused":
            ranked = reciprocal_rank_fusion([places, range(len(head))])
        return [head[place].model_copy(update={"score": score}) for place, score in ranked]


_LEADS = 2  # documents that are searched with
_LEAD = 2000  # characters of each that are the query: what follows says less of the document, and servers limit queries
_FOLLOWED = 20  # passages that each of them adds
_RANK = 10  # softens the rank: the feature is 1 at first place and 0.5 at the eleventh
_BEGINNING = 5  # letters of a word
_ADDING_NOTHING = 0.5
_BEHIND = 0.001  # how far behind the document that names it a link may bring another, of the way there


class Weights(Value):
    """The weights of the features. The defaults were fitted to training questions of HotpotQA and PopQA."""

    score: Number = 2.49
    rank: Number = 2.14
    named: Number = 1.77
    linked: Number = 3.19


class Linked(_Above):
    """A retriever that follows the titles in the passages of another one."""

    def __init__(self, retriever: Retriever, weights: Weights, *, depth: int) -> None:
        name = f"links@{fingerprint('links', weights.model_dump_json(), str(depth))[:12]}"
        super().__init__(retriever, name, depth)
        self._weights = weights

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """The `k` best of what the first search and those that follow it find. Raises RetrievalError."""
        ranking = list(await self._first.retrieve(query, k=max(k, self._depth)))
        if k < 1 or not query.strip():
            return ranking[: max(k, 0)]
        documents: dict[str, Passage] = {}  # the best passage of each
        for passage in ranking:
            documents.setdefault(passage.page_id, passage)
        leads = list(documents.values())[:_LEADS]
        followed = await gather(*(self._first.retrieve(lead.text[:_LEAD], k=_FOLLOWED) for lead in leads))
        pool: dict[str, Passage] = {}
        for passage in chain(ranking[: self._depth], *followed):
            pool.setdefault(passage.id, passage)
        best = await asyncio.to_thread(_weighed, self._weights, query, ranking, leads, list(pool.values()))
        best.sort(key=lambda passage: -passage.score)  # a stable sort: ties stay in the order of the search
        return distinct(best + [passage for passage in ranking if passage.id not in pool])[:k]


def _weighed(
    weights: Weights, query: str, ranking: Sequence[Passage], leads: Sequence[Passage], pool: Sequence[Passage]
) -> list[Passage]:
    """The passages of the pool with the weighted sums of their features as scores."""
    best = ranking[0].score if ranking and ranking[0].score > 0 else 1.0
    place = {passage.id: rank for rank, passage in enumerate(ranking)}
    score = {passage.id: max(0.0, passage.score / best) for passage in ranking}
    texts = {passage.id: normal(passage.text, cased=True) for passage in pool}
    titles = {each.id: normal_title(each, cased=True) if _is_name(each.title) else "" for each in pool}
    question = normal(query)
    pieces = Counter(passage.page_id for passage in pool)
    unanswered = _beginnings(query) - _beginnings(" ".join(map(passage_text, ranking[:1])))
    total = {}  # of each passage, without its links
    for passage in pool:
        total[passage.id] = weights.score * score.get(passage.id, 0.0)
        total[passage.id] += weights.rank * (_RANK / (_RANK + place[passage.id]) if passage.id in place else 0.0)
        if titles[passage.id] and titles[passage.id].lower() in question:
            adds = passage.id == ranking[0].id or not unanswered.isdisjoint(_beginnings(passage_text(passage)))
            total[passage.id] += weights.named / pieces[passage.page_id] * (1.0 if adds else _ADDING_NOTHING)
    holding: dict[str, set[str]] = {}  # the documents that a title stands in
    weighed = []
    for passage in pool:
        title = titles[passage.id]
        if title and title not in holding:
            holding[title] = {each.page_id for each in pool if title in texts[each.id]}
        apart = [lead for lead in leads if title and lead.page_id != passage.page_id]  # a document names itself often
        linking = [lead.id for lead in apart if title in texts[lead.id]]
        others = len(holding.get(title, set()) - {passage.page_id})
        # A title that many documents hold, such as that of a country, says little.
        link = weights.linked * max((score[id_] for id_ in linking), default=0.0) / (1 + math.log(max(1, others)))
        link /= pieces[passage.page_id]
        room = max((total[id_] for id_ in linking), default=0.0) - total[passage.id]
        if 0 < room < link:
            link = room * (1 - _BEHIND / (1 + link))
        weighed.append(passage.model_copy(update={"score": total[passage.id] + link}))
    return weighed


def _beginnings(text: str) -> set[str]:
    """The beginnings of a text's content words, which are the same in most of their forms."""
    return {word[:_BEGINNING] for word in normal(text).split() if word not in FUNCTION_WORDS}


def _is_name(title: str) -> bool:
    """Whether a title has letters, and not small ones alone where its script has others."""
    return any(map(str.isalpha, title)) and (title != title.lower() or title == title.upper())

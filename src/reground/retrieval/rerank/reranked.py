"""A retriever whose first passages are put into the order of a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from reground.core.critic import comparable
from reground.core.errors import AuthenticationError, ConfigurationError, ModelError, RetrievalError
from reground.core.evidence import Found, Pages, Passage, Retriever
from reground.retrieval.fusion import reciprocal_rank_fusion


class Reranker(Protocol):
    """Judges how well passages answer a query. Raises ModelError, and what else ends a run."""

    @property
    def name(self) -> str:
        """What judges, with a fingerprint of its weights where they are known."""
        ...

    async def scores(self, query: str, passages: Sequence[Passage], /) -> Sequence[float]:
        """One score a passage, higher is better."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class Reranked:
    """The first `depth` passages of a retriever in a better order; what follows them stays behind.

    by: `score` orders by the reranker alone, `fused` by reciprocal rank over both orders, which forgives a reranker
    that errs where the first search does not.
    """

    def __init__(
        self,
        retriever: Retriever,
        reranker: Reranker,
        *,
        depth: int,
        by: Literal["fused", "score"] = "fused",
        closes: bool = True,
    ) -> None:
        if depth < 1:
            raise ConfigurationError(f"a reranker needs at least one passage, not {depth}")
        self.name = f"{retriever.name} > {reranker.name} {by} {depth}"
        self.language: str | None = getattr(retriever, "language", None)
        self._first = retriever
        self._reranker = reranker
        self._depth = depth
        self._by = by
        self._closes = closes

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """The `k` best passages; their scores are those that order them. Raises RetrievalError."""
        first = await self._first.retrieve(query, k=max(k, self._depth))
        found = list(first)
        if k < 1 or not query.strip():
            return found[: max(k, 0)]
        head, rest = found[: self._depth], found[self._depth :]
        return Found.like(first, (await self._ordered(query, head) + rest)[:k])

    async def aclose(self) -> None:
        """Close connections."""
        await self._reranker.aclose()
        aclose = getattr(self._first, "aclose", None)
        if self._closes and aclose is not None:
            await aclose()

    async def _ordered(self, query: str, head: list[Passage]) -> list[Passage]:
        if not head:
            return []
        try:
            scores = [comparable(score) for score in await self._reranker.scores(query, head)]
        except AuthenticationError:
            raise  # a method may go on without passages after a failed retrieval, but here it would for every question
        except ModelError as error:
            raise RetrievalError(f"the passages could not be reranked: {error}") from error
        places = sorted(range(len(head)), key=lambda place: (-scores[place], place))
        ranked = [(place, scores[place]) for place in places]
        if self._by == "fused":
            ranked = reciprocal_rank_fusion([places, range(len(head))])
        return [head[place].model_copy(update={"score": score}) for place, score in ranked]


class RerankedPages(Reranked):
    """One that also opens pages."""

    async def page(self, passage_id: str, /) -> Passage | None:
        """The page of the retriever below. Raises RetrievalError."""
        assert isinstance(self._first, Pages)
        return await self._first.page(passage_id)

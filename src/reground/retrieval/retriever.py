"""An open index as a retriever: by words, by vectors, or by both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from reground.core.evidence import Passage
from reground.retrieval.bm25 import Bm25Index
from reground.retrieval.dense import DenseIndex
from reground.retrieval.documents import Document
from reground.retrieval.folder import Hold, Manifest
from reground.retrieval.fusion import reciprocal_rank_fusion
from reground.retrieval.pages import document_ids, whole

_FUSED = 100  # passages of each ranking that are joined


def retriever_name(manifest: Manifest) -> str:
    """The index's kind and fingerprint, so that a changed index has another name."""
    return f"{manifest.settings['kind']}@{manifest.fingerprint}"


class IndexRetriever:
    """An open index. `name` holds its kind and fingerprint, `manifest` everything else.

    With both words and vectors, the rankings are joined by reciprocal rank fusion, which then gives the scores.
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        bm25: Bm25Index | None = None,
        dense: DenseIndex | None = None,
        hold: Hold,
        check: Callable[[], object] | None = None,
    ) -> None:
        self.name = retriever_name(manifest)
        self.manifest = manifest
        self._bm25 = bm25
        self._dense = dense
        self._check = check
        self._hold = hold  # keeps the files from being cleaned away

    @property
    def language(self) -> str:
        """The language that the documents were indexed in."""
        return str(self.manifest.settings["language"])

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """The `k` best passages. Raises RetrievalError.

        An empty result may mean damage. So the contents of an index that was too large to check when it was opened are
        checked then. Raises IndexRefused if it is damaged.
        """
        found = await self._search(query, k)
        if not found and k > 0 and self._check is not None:
            check, self._check = self._check, None
            await asyncio.to_thread(check)
        return found

    async def _search(self, query: str, k: int) -> Sequence[Passage]:
        if self._bm25 is not None and self._dense is not None:
            depth = max(k, _FUSED)
            by_words, by_vectors = await asyncio.gather(
                asyncio.to_thread(self._bm25.search, query, depth), self._dense.search(query, depth)
            )
            return _fuse([by_words, by_vectors])[: max(k, 0)]
        if self._dense is not None:
            return await self._dense.search(query, k)
        if self._bm25 is not None:
            return await asyncio.to_thread(self._bm25.search, query, k)
        raise AssertionError

    async def page(self, passage_id: str, /) -> Passage | None:
        """The document of a passage, put together from its pieces. Raises RetrievalError."""
        part = self._bm25 if self._bm25 is not None else self._dense
        assert part is not None
        for document in document_ids(passage_id):
            pieces = await asyncio.to_thread(part.pieces, Document(document, "", "").key)
            if pieces:
                overlapping = bool(self.manifest.settings.get("overlap"))
                return whole(pieces, document, around=passage_id, overlapping=overlapping)
        return None

    async def aclose(self) -> None:
        """Close the embedder's connections; the retriever can still be used and opens new ones."""
        if self._dense is not None:
            await self._dense.aclose()


def _fuse(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    passages = {passage.id: passage for ranking in rankings for passage in ranking}
    fused = reciprocal_rank_fusion([passage.id for passage in ranking] for ranking in rankings)
    return [passages[id_].model_copy(update={"score": score}) for id_, score in fused]

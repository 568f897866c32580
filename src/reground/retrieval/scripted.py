"""`scripted`: a retriever that ranks given passages by shared words. For tests and demonstrations."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reground.core.evidence import Passage
from reground.retrieval.chunking import document_ids, whole


class ScriptedRetriever:
    """Ranks a handful of passages by the number of words shared with the query; keeps every query it got."""

    def __init__(self, passages: Sequence[Passage], *, name: str = "scripted") -> None:
        self.name = name
        self.queries: list[str] = []
        self._passages = list(passages)

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """The `k` passages with most words in common; ties stay in the given order."""
        self.queries.append(query)
        words = _words(query)
        scored = [
            passage.model_copy(update={"score": float(len(words & _words(f"{passage.title} {passage.text}")))})
            for passage in self._passages
        ]
        return sorted(scored, key=lambda passage: -passage.score)[:k]

    async def page(self, passage_id: str, /) -> Passage | None:
        """All passages of the same document, `d#1`, `d#2` and so on, as one."""
        *_, document = document_ids(passage_id)
        pieces = [passage for passage in self._passages if document_ids(passage.id)[-1] == document]
        return whole(pieces, document, around=passage_id, overlapping=False) if pieces else None


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))

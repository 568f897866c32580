"""The options of searching documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

_RERANK = {"panel": "Retrieval"}


@dataclass(frozen=True, kw_only=True)
class Language:
    """The language of the documents."""

    language: str | None = None
    """The language of the documents, as a code or an English name: de, ja, German, ...; English by default."""


@dataclass(frozen=True, kw_only=True)
class Reranking:
    """How documents are searched, and the order of what is found."""

    retrieval: Literal["bm25", "hybrid", "best"] | None = field(default=None, metadata=_RERANK)
    """How documents are searched: bm25 (words), hybrid (words and the vectors of a small model) or best (hybrid,
    reranked by links); hybrid and best need the extra hybrid. By default words, reranked by links for an answer, and
    not reranked in evaluations."""

    rerank: str | None = field(default=None, metadata=_RERANK)
    """Put what a search finds into a better order: links (titles that the question or the best documents name),
    links:FOLDER, critic:FOLDER, cross-encoder:NAME or llama-server:URL."""

    rerank_depth: int | None = field(default=None, metadata={"file": True, "min": 1, **_RERANK})
    """The number of first passages that are reranked; 30 by default for links, 20 for the others."""

    rerank_tokens: int | None = field(default=None, metadata={"file": True, "min": 16, **_RERANK})
    """The most tokens of a query and a passage that a cross-encoder reads; 128 by default. Fewer take less time."""

    rerank_by: Literal["fused", "score"] = field(default="fused", metadata={"file": True, **_RERANK})
    """Order by the reranker's score alone, or fused with the first order by reciprocal rank; links are always by
    score."""


@dataclass(frozen=True, kw_only=True)
class Searching(Language, Reranking):
    """How documents are read and searched."""


@dataclass(frozen=True, kw_only=True)
class Documents(Searching):
    """The documents of a benchmark, given by path."""

    corpus: Path | None = field(default=None, metadata={"short": "-c"})
    """Documents or an index; the task's own corpus by default."""

"""A quick measure of an embedder while settings are chosen: held-out questions among each other's passages.

The whole corpus would take minutes to embed. The passages of held-out rows include those that BM25 mistakes for the
right ones, so what ranks these well ranks a corpus well; `reground train retriever eval` searches all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reground.core.language import Value
from reground.evaluation.metrics.ranking import recall, reciprocal_rank
from reground.training.retriever.data import Contrast

MOST_ROWS = 200
"""Held-out rows that are looked at."""
_CUTOFF = 3
_BATCH = 32


class Validation(Value):
    """How an embedder ranks the passages of held-out questions: means over the questions."""

    questions: int
    passages: int
    recall_at_3: float
    mrr: float


def validate(model: Any, rows: Sequence[Contrast]) -> Validation | None:
    """Rank all passages of the first rows for each of their questions; None without rows."""
    rows = rows[:MOST_ROWS]
    if not rows:
        return None
    gold: dict[str, dict[str, int]] = {}
    for row in rows:
        gold.setdefault(row.anchor, {})[row.positive] = 1
    passages = list(dict.fromkeys(text for row in rows for text in (row.positive, *row.negatives)))
    asked, read = (
        model.encode(texts, batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False)
        for texts in (list(gold), passages)
    )
    best = (asked @ read.T).argsort(axis=1, kind="stable")[:, ::-1]
    rankings = [[passages[place] for place in order] for order in best]
    pairs = list(zip(rankings, gold.values(), strict=True))
    return Validation(
        questions=len(gold),
        passages=len(passages),
        recall_at_3=sum(recall(ranking, right, _CUTOFF) for ranking, right in pairs) / len(pairs),
        mrr=sum(reciprocal_rank(ranking, right) for ranking, right in pairs) / len(pairs),
    )

"""The rows of a training folder as critics read them."""

from __future__ import annotations

from collections.abc import Sequence

from reground.core.pairs import Pair
from reground.critics._scorers import Item, Scorer
from reground.training.rows import Preference


def item(row: Preference, candidate: str) -> Item:
    """One of the two texts of a row, with its kind and context."""
    return row.kind, Pair(context=row.prompt, candidate=candidate)  # type: ignore[return-value]


def gaps(rows: Sequence[Preference], scorer: Scorer) -> list[float]:
    """By how much the better text of each pair scores higher."""
    better = scorer.scores([item(row, row.chosen) for row in rows])
    worse = scorer.scores([item(row, row.rejected) for row in rows])
    return [one - other for one, other in zip(better, worse, strict=True)]

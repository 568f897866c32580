"""Joining rankings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


def reciprocal_rank_fusion(rankings: Iterable[Sequence[Item]], *, k: int = 60) -> list[tuple[Item, float]]:
    """Join rankings by the sum of 1 / (k + rank) over them, ranks counted from 1 (Cormack, Clarke, Büttcher 2009).

    Best first. Ties are ordered by the items' repr, so the order of the rankings makes no difference. An item counts
    once in a ranking, at its best place. Scores lie above 0 and are at most the
    number of rankings divided by k + 1.
    """
    terms: dict[Item, list[float]] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), start=1):
            terms.setdefault(item, []).append(1 / (k + rank))
    # Summed in one order, because floating-point sums depend on it.
    scores = {item: sum(sorted(parts)) for item, parts in terms.items()}
    return sorted(scores.items(), key=lambda pair: (-pair[1], repr(pair[0])))

"""Pearson's and Spearman's correlation between a judge's ratings and people's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite, sqrt


def pearson(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's r, between -1 and 1; None if it is undefined: for fewer than two pairs, or a constant side."""
    x, y = _centred(first), _centred(second)
    if len(x) != len(y):
        raise ValueError("correlation needs as many ratings on one side as on the other")
    norm_x, norm_y = sqrt(fsum(v * v for v in x)), sqrt(fsum(v * v for v in y))
    if norm_x == 0 or norm_y == 0:
        return None
    r = fsum((v / norm_x) * (w / norm_y) for v, w in zip(x, y, strict=True))
    return max(-1.0, min(1.0, r)) if isfinite(r) else None


def _centred(values: Sequence[float]) -> list[float]:
    if len(set(values)) < 2:
        return [0.0] * len(values)
    mean = fsum(values) / len(values)
    return [value - mean for value in values]


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rho: Pearson's r of the ranks; equal values share the mean of their ranks."""
    return pearson(mean_ranks(first), mean_ranks(second))


def mean_ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, ascending; equal values share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in order[start:end]:
            ranks[place] = (start + 1 + end) / 2
        start = end
    return ranks


@dataclass(frozen=True)
class Agreement:
    """The agreement of two raters on the items that both rated.

    n: the number of these. only_first, only_second: the numbers of items that only one of them rated.
    """

    n: int
    pearson: float | None
    spearman: float | None
    only_first: int = 0
    only_second: int = 0


def agreement(first: Mapping[str, float], second: Mapping[str, float]) -> Agreement:
    """Compare two raters' ratings by item id."""
    both = [item for item in first if item in second]
    x, y = [first[item] for item in both], [second[item] for item in both]
    return Agreement(len(both), pearson(x, y), spearman(x, y), len(first) - len(both), len(second) - len(both))

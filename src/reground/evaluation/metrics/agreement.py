"""How far raters agree, such as a judge and people: Pearson's and Spearman's correlation, and Krippendorff's alpha."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import fsum
from operator import mul
from statistics import correlation, fmean
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)

RESAMPLES = 2_000
_EXACT = 7  # items of which every pairing is tried
_SLACK = 1e-12  # for sums of the same numbers in another order


def pearson(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's r, between -1 and 1; None if it is undefined: for fewer than two pairs, or a constant side."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return max(-1.0, min(1.0, correlation(first, second)))


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rho: Pearson's r of the ranks; equal values share the mean of their ranks."""
    return pearson(mean_ranks(first), mean_ranks(second))


def mean_ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, ascending; equal values share their mean rank."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + 1 + bisect_right(ordered, value)) / 2 for value in values]


@dataclass(frozen=True)
class Agreement:
    """The agreement of two raters on the items that both rated.

    n: the number of these. pearson_p, spearman_p: two-sided, from a permutation test; None where the correlation is
    undefined.
    """

    n: int
    pearson: float | None
    spearman: float | None
    pearson_p: float | None = None
    spearman_p: float | None = None


def agreement(first: Mapping[Item, float], second: Mapping[Item, float]) -> Agreement:
    """Compare two raters' ratings by item id."""
    both = [item for item in first if item in second]
    x, y = [first[item] for item in both], [second[item] for item in both]
    return Agreement(
        len(both),
        pearson(x, y),
        spearman(x, y),
        correlation_p(x, y),
        correlation_p(mean_ranks(x), mean_ranks(y)),
    )


def correlation_p(
    first: Sequence[float], second: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0
) -> float | None:
    """Two-sided p of Pearson's r under random pairings; None where r is undefined. Of ranks it is Spearman's.

    All pairings of up to seven items are tried, and `resamples` random ones of more, the observed one among them
    (Fisher 1935; Phipson and Smyth 2010 on counting it).
    """
    if pearson(first, second) is None:
        return None
    x, y = ([value - fmean(values) for value in values] for values in (first, second))
    observed = abs(fsum(a * b for a, b in zip(x, y, strict=True))) * (1 - _SLACK)
    if len(x) <= _EXACT:
        sums = [abs(fsum(map(mul, x, order))) for order in permutations(y)]
        return sum(each >= observed for each in sums) / len(sums)
    draw, order, beyond = random.Random(seed), list(y), 1
    for _ in range(resamples - 1):
        draw.shuffle(order)
        beyond += abs(fsum(map(mul, x, order))) >= observed
    return beyond / resamples


def krippendorff_alpha(units: Iterable[Sequence[str]]) -> float | None:
    """Krippendorff's alpha for nominal values (Content Analysis, 2004, chapter 11): 1 is full agreement, 0 is chance.

    Any number of judges may have given a unit its two or more values. None where no two values differ.
    """
    totals: Counter[str] = Counter()
    differing = 0.0
    for values in units:
        counts = Counter(values)
        totals += counts
        differing += (len(values) ** 2 - sum(n * n for n in counts.values())) / (len(values) - 1)
    n = totals.total()
    expected = n * n - sum(count * count for count in totals.values())
    return 1 - (n - 1) * differing / expected if expected else None

"""Means with intervals, and tests between methods on the same questions.

The unit is the question: repeats are averaged first, and questions are resampled, because repeats of one question are
not independent. Draws come from Python's generator with a fixed seed, so the same scores give the same numbers.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import floor, fsum, sqrt

from reground.core.language import Value

RESAMPLES = 10_000
_EXACT = 13  # maximum number of differing questions for trying every sign pattern
_Z = 1.959963984540054  # the normal distribution's 97.5 % point
_SLACK = 1e-12  # for sums of the same numbers in another order


class Interval(Value):
    """A mean and its interval; all None without values."""

    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Comparison:
    """A method against a baseline on the questions with a score for both.

    difference: the mean of method minus baseline, with its 95 % paired bootstrap interval.
    p: two-sided, from the sign-flip permutation test; 1 when nothing differs.
    """

    difference: Interval
    p: float
    questions: int


def bootstrap_interval(
    values: Sequence[float], *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """The mean of `values`, one per question, with its percentile bootstrap interval.

    Efron & Tibshirani, An Introduction to the Bootstrap (1993), section 13.3. If the percentiles of a very skewed
    sample exclude the mean, the interval is widened to include it.
    """
    if not values:
        return Interval(mean=None, low=None, high=None)
    mean = fsum(values) / len(values)
    if min(values) == max(values):
        return Interval(mean=values[0], low=values[0], high=values[0])
    means = sorted(_resampled_means(values, resamples, seed))
    low, high = (_quantile(means, q) for q in ((1 - confidence) / 2, (1 + confidence) / 2))
    return Interval(mean=mean, low=min(low, mean), high=max(high, mean))


def share_interval(right: int, of: int) -> Interval:
    """The share of `right` among `of`, with its 95 % score interval (Wilson 1927).

    For few questions and for shares of 0 or 1, where resampling gives an interval of no width (Brown, Cai & DasGupta
    2001 recommend it up to 40).
    """
    if of == 0:
        return Interval(mean=None, low=None, high=None)
    share, spread = right / of, _Z * _Z / of
    middle, half = share + spread / 2, _Z * sqrt(share * (1 - share) / of + spread / (4 * of))
    low, high = ((middle + sign * half) / (1 + spread) for sign in (-1, 1))
    return Interval(mean=share, low=max(0.0, min(low, share)), high=min(1.0, max(high, share)))


def compare(
    method: Mapping[str, float], baseline: Mapping[str, float], *, resamples: int = RESAMPLES, seed: int = 0
) -> Comparison:
    """Compare per-question means by question id, on the questions that both sides have."""
    shared = sorted(method.keys() & baseline.keys())
    differences = [method[q] - baseline[q] for q in shared]
    return Comparison(
        bootstrap_interval(differences, resamples=resamples, seed=seed),
        permutation_p(differences, resamples=resamples, seed=seed),
        len(shared),
    )


def permutation_p(differences: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Two-sided p of the mean paired difference under random signs (Fisher's sign-flip permutation test).

    Exact for few differing questions, otherwise over random sign patterns and the observed one.
    """
    sizes = [abs(d) for d in differences if d != 0]
    observed = abs(fsum(differences)) - _SLACK * max(sizes, default=0.0) * len(sizes)
    if not sizes:
        return 1.0
    if len(sizes) <= _EXACT:
        sums = [
            abs(fsum(s * d for s, d in zip(signs, sizes, strict=True))) for signs in product((1, -1), repeat=len(sizes))
        ]
        return sum(total >= observed for total in sums) / len(sums)
    totals = _signed_sums(sizes, resamples, seed)
    return (1 + sum(abs(total) >= observed for total in totals)) / (1 + resamples)


def holm(ps: Sequence[float]) -> list[float]:
    """The p-values adjusted for multiple tests (Holm, 1979), in their given order."""
    adjusted = [0.0] * len(ps)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = highest
    return adjusted


def question_means(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The mean over each question's scored repeats, for questions that have any."""
    return {question: fsum(scored) / len(scored) for question, scored in values.items() if scored}


def _resampled_means(values: Sequence[float], resamples: int, seed: int) -> list[float]:
    """Means of `resamples` samples drawn from `values` with replacement."""
    choices, n = random.Random(seed).choices, len(values)
    return [sum(choices(values, k=n)) / n for _ in range(resamples)]


def _signed_sums(sizes: Sequence[float], resamples: int, seed: int) -> list[float]:
    """Sums of `sizes` under random signs."""
    draw = random.Random(seed).random
    return [sum([size if draw() < 0.5 else -size for size in sizes]) for _ in range(resamples)]


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Linear between the order statistics; negated values give the negated quantile."""
    place = q * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

"""Means with intervals, and tests between methods on the same questions.

The unit is the question: repeats are averaged first, and questions are resampled, because repeats of one question are
not independent. Draws come from Python's generator with a fixed seed; numpy, if installed, makes the same draws faster.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import floor, fsum, sqrt
from typing import Any

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
    means = sorted(resampled_means(values, resamples, seed))
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


def resampled_means(values: Sequence[float], resamples: int, seed: int) -> list[float]:
    """Means of `resamples` samples drawn from `values` with replacement."""
    try:
        return _means_by_numpy(values, resamples, seed)
    except ImportError:
        return _means_by_python(values, resamples, seed)


def _means_by_python(values: Sequence[float], resamples: int, seed: int) -> list[float]:
    draw, n = random.Random(seed).random, len(values)
    return [sum([values[floor(draw() * n)] for _ in range(n)]) / n for _ in range(resamples)]


def _means_by_numpy(values: Sequence[float], resamples: int, seed: int) -> list[float]:
    import numpy as np

    generator, sample, n = _numpy_generator(seed), np.asarray(values, dtype=float), len(values)
    means: list[float] = []
    for rows in _chunks(resamples, n):
        drawn = (generator.random_sample((rows, n)) * n).astype(np.int64)
        means += sample[drawn].mean(axis=1).tolist()
    return means


def _signed_sums(sizes: Sequence[float], resamples: int, seed: int) -> list[float]:
    try:
        return _sums_by_numpy(sizes, resamples, seed)
    except ImportError:
        return _sums_by_python(sizes, resamples, seed)


def _sums_by_python(sizes: Sequence[float], resamples: int, seed: int) -> list[float]:
    draw = random.Random(seed).random
    return [sum([size if draw() < 0.5 else -size for size in sizes]) for _ in range(resamples)]


def _sums_by_numpy(sizes: Sequence[float], resamples: int, seed: int) -> list[float]:
    import numpy as np

    generator, array, n = _numpy_generator(seed), np.asarray(sizes, dtype=float), len(sizes)
    sums: list[float] = []
    for rows in _chunks(resamples, n):
        sums += np.where(generator.random_sample((rows, n)) < 0.5, array, -array).sum(axis=1).tolist()
    return sums


def _numpy_generator(seed: int) -> Any:
    """numpy's Mersenne Twister in the state of Python's for this seed, so that both draw the same numbers."""
    import numpy as np

    _, state, _ = random.Random(seed).getstate()
    generator = np.random.RandomState()
    generator.set_state(("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0))
    return generator


def _chunks(resamples: int, n: int) -> list[int]:
    """The rows of each chunk; no array has more than a million draws."""
    rows = max(1, 1_000_000 // n)
    return [min(rows, resamples - start) for start in range(0, resamples, rows)]


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Linear between the order statistics; negated values give the negated quantile."""
    place = q * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

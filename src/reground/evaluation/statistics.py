"""Means with intervals, tests between methods on the same questions, and the verdict on which is best.

The unit is the question: repeats are averaged first, and questions are resampled, because repeats of one question are
not independent. Draws come from Python's generator with a fixed seed, so the same scores give the same numbers.

The verdict compares runs (a method at a budget with a model) on the questions that all have a score for. The best has
the highest mean, and is tested against each other one by the sign-flip permutation test of the paired differences, with
Holm's correction for the number of tests (1979). The choice is the cheapest of the best and those that even a single
test, without the correction, cannot tell apart from it: the correction keeps a lucky candidate from being called best,
and must not make a worse one look as good.

The best is chosen from the data that it is tested with. To call it best stays safe: a test of the two highest means at
level alpha calls a candidate the best that is not with probability of at most alpha (Gutmann & Maymin, Is the selected
population the best?, 1987). The exclusion of the others is bolder than alpha says: in simulations of equal methods, one
of four was excluded in 7 % of comparisons, one of twelve in 13 %.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import fsum
from operator import mul
from statistics import quantiles
from typing import Literal

from reground.core.language import Value

RESAMPLES = 10_000
_EXACT = 13  # maximum number of differing questions for trying every sign pattern
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


def bootstrap_interval(values: Sequence[float], *, resamples: int = RESAMPLES) -> Interval:
    """The mean of `values`, one per question, with its 95 % percentile bootstrap interval.

    Efron & Tibshirani, An Introduction to the Bootstrap (1993), section 13.3. If the percentiles of a very skewed
    sample exclude the mean, the interval is widened to include it.
    """
    if not values:
        return Interval(mean=None, low=None, high=None)
    mean = fsum(values) / len(values)
    if min(values) == max(values):
        return Interval(mean=values[0], low=values[0], high=values[0])
    draw = random.Random(0).choices
    means = [sum(draw(values, k=len(values))) / len(values) for _ in range(resamples)]
    low, *_, high = quantiles(means, n=40, method="inclusive")
    return Interval(mean=mean, low=min(low, mean), high=max(high, mean))


def compare(method: Mapping[str, float], baseline: Mapping[str, float], *, resamples: int = RESAMPLES) -> Comparison:
    """Compare per-question means by question id, on the questions that both sides have."""
    shared = sorted(method.keys() & baseline.keys())
    differences = [method[q] - baseline[q] for q in shared]
    return Comparison(
        bootstrap_interval(differences, resamples=resamples),
        permutation_p(differences, resamples=resamples),
        len(shared),
    )


def permutation_p(differences: Sequence[float], *, resamples: int = RESAMPLES) -> float:
    """Two-sided p of the mean paired difference under random signs (Fisher's sign-flip permutation test).

    Exact for few differing questions, otherwise over random sign patterns and the observed one.
    """
    sizes = [abs(d) for d in differences if d != 0]
    observed = abs(fsum(differences)) - _SLACK * max(sizes, default=0.0) * len(sizes)
    if not sizes:
        return 1.0
    if len(sizes) <= _EXACT:
        sums = [abs(fsum(map(mul, signs, sizes))) for signs in product((1, -1), repeat=len(sizes))]
        return sum(total >= observed for total in sums) / len(sums)
    draw = random.Random(0).random
    totals = (sum([size if draw() < 0.5 else -size for size in sizes]) for _ in range(resamples))
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


ALPHA = 0.05
"""The adjusted p at which a candidate is told apart from the best."""


class Cost(Value):
    """What a question costs on average, failed ones included. usd: None where no price is known."""

    tokens: float
    seconds: float
    usd: float | None = None

    def words(self) -> str:
        """As in "3,120 tokens, 4.1 s and 0.00120 USD a question"."""
        parts = [f"{self.tokens:,.0f} tokens", f"{self.seconds:.1f} s"]
        parts += [] if self.usd is None else [f"{self.usd:.5f} USD"]
        return f"{', '.join(parts[:-1])} and {parts[-1]} a question"


@dataclass(frozen=True)
class Candidate:
    """A run. scores: each question's mean over its repeats, by the question's id."""

    label: str
    scores: Mapping[str, float]
    cost: Cost


class Standing(Value):
    """A candidate beside the best.

    mean: over the questions of the verdict. cost: a question's mean. behind: the best's score minus its own. p,
    adjusted: before and after Holm's correction. These are None for the best itself. told_apart: whether it is worse
    beyond chance.
    """

    label: str
    mean: float
    cost: Cost
    behind: Interval | None = None
    p: float | None = None
    adjusted: float | None = None
    told_apart: bool = False

    @property
    def equal(self) -> bool:
        """Whether even a single test cannot tell it apart from the best, or it is the best."""
        return self.p is None or self.p > ALPHA


class Verdict(Value):
    """The comparison's result. text: one or two sentences.

    best: the candidate with the highest mean. choice: the cheapest that is as good, as far as the scores tell. sure:
    whether the best is told apart from all others. by: what the cost of the choice was counted in. standings: by mean,
    the best first.
    """

    text: str
    metric: str
    questions: int
    best: str
    choice: str
    sure: bool
    by: Literal["tokens", "usd"]
    alpha: float = ALPHA
    standings: tuple[Standing, ...]


def verdict(candidates: Sequence[Candidate], metric: str, *, resamples: int = RESAMPLES) -> Verdict | None:
    """The verdict on several runs; None where there are fewer than two, or no question that all have a score for.

    Ties of the mean go to the cheaper one. The labels must differ.
    """
    shared = sorted(set.intersection(*(set(each.scores) for each in candidates))) if candidates else []
    if len(candidates) < 2 or not shared:
        return None
    by: Literal["tokens", "usd"] = "usd" if all(each.cost.usd for each in candidates) else "tokens"

    def price(standing: Standing) -> tuple[float, float]:
        cost = standing.cost
        return (cost.usd or 0.0 if by == "usd" else cost.tokens, cost.seconds)

    scores = {each.label: {question: each.scores[question] for question in shared} for each in candidates}
    alone = [
        Standing(label=each.label, mean=fsum(scores[each.label].values()) / len(shared), cost=each.cost)
        for each in candidates
    ]
    best, *others = sorted(alone, key=lambda each: (-each.mean, *price(each), each.label))
    comparisons = [compare(scores[best.label], scores[each.label], resamples=resamples) for each in others]
    standings = [best]
    for each, comparison, adjusted in zip(others, comparisons, holm([one.p for one in comparisons]), strict=True):
        behind = {"behind": comparison.difference, "p": comparison.p, "adjusted": adjusted}
        standings.append(each.model_copy(update={**behind, "told_apart": adjusted <= ALPHA}))
    choice = min((each for each in standings if each.equal), key=price)
    return Verdict(
        text=_text(standings, choice, metric, len(shared)),
        metric=metric,
        questions=len(shared),
        best=best.label,
        choice=choice.label,
        sure=all(each.told_apart for each in standings[1:]),
        by=by,
        standings=tuple(standings),
    )


_MOST_LOSS = 0.1
"""What may be lost at most, by the 95 % interval, where a method is recommended that is not told apart. Of n
questions that all agree, one in n / 3 may still differ."""


def _text(standings: Sequence[Standing], choice: Standing, metric: str, questions: int) -> str:
    """The verdict in words. standings: the best first."""
    best, *others = standings
    on = f"{questions:,} question{'' if questions == 1 else 's'}"
    scored = {each.label: f"{metric} {each.mean:.3f} for {each.cost.words()}" for each in (best, choice)}
    doubtful = [each for each in others if not each.told_apart]
    rival = others[0] if not doubtful else doubtful[0] if choice is best else choice
    behind = rival.behind
    assert behind is not None and behind.mean is not None and behind.low is not None and behind.high is not None
    interval = f"95 % interval {behind.low + 0.0:+.3f} to {behind.high + 0.0:+.3f}"
    distance = f"is {behind.mean:.3f} behind ({interval})"
    if not doubtful:
        most = max(0.001, *(each.adjusted or 0.0 for each in others))
        rest = f"all {len(others)} others have p (Holm) of at most" if len(others) > 1 else "p (Holm) is at most"
        next_best = f"The next, {rival.label}, {distance}; {rest} {most:.3f}, on {on}."
        return f"{best.label} is best: {scored[best.label]}. {next_best}"
    doubt = f"Which is best cannot be told from {on} ({rival.label} {distance}; p (Holm) = {rival.adjusted:.3f})."
    losses = [0.0 if each.behind is None else -(each.behind.low or 0.0) for each in doubtful]
    if max(max(losses) if choice is best else behind.high, 3 / questions) > _MOST_LOSS:
        return f"{doubt} {best.label} scored highest ({scored[best.label]}); only more questions would tell."
    equal = sum(each.equal for each in standings)
    cheapest = f"is the cheapest of {equal} that cannot be told apart"
    if choice is best:
        reason = f"it scored highest ({scored[best.label]}){f' and {cheapest}' if equal > 1 else ''}"
    else:
        reason = f"{scored[choice.label]}, {cheapest}; {best.label} scored highest ({scored[best.label]})"
    return f"Take {choice.label}: {reason}. {doubt}"

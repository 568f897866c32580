"""How many questions it takes to tell two methods apart.

Both methods answer the same questions, so the unit is a question's paired difference d. With the standard deviation s
of d and a true mean difference D, a two-sided test at level alpha finds the difference with probability `power` from

    n = ((z(1 - alpha / 2) + z(power)) * s / D) ** 2

questions, z being the quantiles of the standard normal distribution (Lachin, Introduction to sample size determination
and power analysis for clinical trials, 1981, equation 1, for one sample of differences). This is an approximation: s is
estimated, and with few questions scores are far from normal. Take the result as an order of magnitude.

An observed difference that chance has made large asks for too few questions, and one near 0 for absurdly many (Hoenig
& Heisey, The abuse of power, 2001). So differences smaller than `WORTH` are not looked for: `WORTH` takes their place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, stdev
from typing import Literal

from reground.core.language import Value

ALPHA = 0.05
POWER = 0.8
WORTH = 0.05
"""The smallest difference worth knowing, for scores between 0 and 1."""
MOST = 10_000
"""Questions; a larger number says no more than that it is out of reach."""


class Needed(Value):
    """The questions that a comparison needs.

    difference: the true difference to find. basis: whether it was observed, or is the smallest worth knowing.
    questions: all that are needed, None for more than MOST. more: those that are still missing, None likewise; 0 says
    that there were enough to find this difference.
    """

    difference: float
    basis: Literal["observed", "worth knowing"]
    questions: int | None
    more: int | None


def required_questions(
    deviation: float, difference: float, *, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """The questions that find a mean paired difference; None for more than MOST.

    deviation: the standard deviation of the paired differences. Never less than the sign-flip test needs to reach
    alpha at all: n questions that all differ the same way have p = 2 / 2 ** n.
    """
    normal = NormalDist()
    wanted = (normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)) * deviation
    least = math.ceil(math.log2(2 / alpha))
    if wanted > abs(difference) * math.sqrt(MOST):  # asked before the division, which may be by 0
        return None
    needed = max(least, math.ceil((wanted / abs(difference)) ** 2)) if difference else least
    return needed if needed <= MOST else None


def needed_questions(
    differences: Sequence[float], *, alpha: float = ALPHA, power: float = POWER, worth: float = WORTH
) -> Needed:
    """The questions that comparing two methods needs, by their paired differences so far.

    The difference to find is the observed mean, or `worth` where that is larger. Raises ValueError without differences.
    """
    if not differences:
        raise ValueError("without a question that both methods have a score for there is nothing to estimate from")
    observed = abs(math.fsum(differences) / len(differences))
    sought = max(observed, worth)
    found = required_questions(_deviation(differences), sought, alpha=alpha, power=power)
    more = None if found is None else max(0, found - len(differences))
    return Needed(
        difference=sought, basis="observed" if observed >= worth else "worth knowing", questions=found, more=more
    )


def _deviation(differences: Sequence[float]) -> float:
    """The sample standard deviation; where all are alike, the largest that they do not rule out.

    n questions without an event leave at most 3 / n for its probability, with 95 % confidence (Hanley & Lippman-Hand,
    If nothing goes wrong, is everything all right?, 1983). A question that differs counts 1, the most it can.
    """
    n = len(differences)
    spread = stdev(differences) if n > 1 else 0.0
    return spread if spread > 0 else math.sqrt(min(1.0, 3 / n))

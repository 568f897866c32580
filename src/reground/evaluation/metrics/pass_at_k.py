"""Unbiased pass@k (Chen et al. 2021, "Evaluating Large Language Models Trained on Code", Eq. 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence


def pass_at_k(n: int, c: int, k: int) -> float:
    """The probability that at least one of `k` programs is right, drawn from `n` of which `c` are right.

    Computed with exact integers. Raises ValueError unless 1 <= k <= n and 0 <= c <= n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} needs at least {k} samples and there are {n}")
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} samples cannot be right")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def mean_pass_at_k(problems: Sequence[Sequence[bool]], k: int) -> float:
    """The mean over problems. problems: whether each sample passed. Raises ValueError without problems."""
    if not problems:
        raise ValueError("pass@k of no problems is undefined")
    return math.fsum(pass_at_k(len(samples), sum(samples), k) for samples in problems) / len(problems)

"""Exact match and option F1: chosen option letters against the right ones."""

from __future__ import annotations

from collections.abc import Collection


def option_exact_match(chosen: Collection[str], right: Collection[str]) -> float:
    """1 if exactly the right options were chosen, else 0. With one right option this is accuracy."""
    return float(bool(chosen) and set(chosen) == set(right))


def option_f1(chosen: Collection[str], right: Collection[str]) -> float:
    """The harmonic mean of precision and recall over the set of options; 0 if none was chosen."""
    common = len(set(chosen) & set(right))
    if common == 0:
        return 0.0
    return 2 * common / (len(set(chosen)) + len(set(right)))

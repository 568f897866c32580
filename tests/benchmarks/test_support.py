"""The figures of the benchmark of support checks."""

from __future__ import annotations

from contextlib import AsyncExitStack

from benchmarks.support import auroc, best_threshold, in_units
from reground.app.support import open_check


def test_auroc_counts_pairs_and_halves_ties() -> None:
    assert auroc([0.9, 0.5], [0.5, 0.1]) == (1 + 1 + 0.5 + 1) / 4


def test_the_best_threshold_keeps_the_true_and_turns_down_the_false() -> None:
    assert best_threshold([0.9, 0.8, 0.3], [0.1, 0.2, 0.7]) == 0.8
    assert best_threshold([0.9, 0.8], [0.1]) == 0.8


def test_a_threshold_is_told_in_the_units_of_the_option() -> None:
    check = open_check("embedding:openai/any", 0.4, None, AsyncExitStack())
    assert round(in_units(check, 0.5), 9) == 0.4
    assert in_units(None, 0.3) == 0.3

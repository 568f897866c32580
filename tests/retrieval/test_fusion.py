from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.retrieval.passages import reciprocal_rank_fusion

RANKINGS = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=10), min_size=1, max_size=5)


@given(RANKINGS, st.randoms())
def test_the_order_of_the_rankings_makes_no_difference(rankings: list[list[int]], random: object) -> None:
    shuffled = list(rankings)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert reciprocal_rank_fusion(shuffled) == reciprocal_rank_fusion(rankings)


def test_the_formula() -> None:
    fused = dict(reciprocal_rank_fusion([["a", "b"], ["b", "c"]], k=60))
    assert fused["b"] == pytest.approx(1 / 62 + 1 / 61)
    assert fused["a"] == pytest.approx(1 / 61)
    assert fused["c"] == pytest.approx(1 / 62)
    assert list(fused) == ["b", "a", "c"]


def test_a_repeated_item_counts_once_and_nothing_gives_nothing() -> None:
    assert reciprocal_rank_fusion([["a", "a", "b"]]) == reciprocal_rank_fusion([["a", "b"]])
    assert reciprocal_rank_fusion([[], []]) == []
    assert reciprocal_rank_fusion([]) == []

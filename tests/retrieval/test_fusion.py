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


@given(RANKINGS, st.integers(1, 100))
def test_scores_are_bounded_and_descend(rankings: list[list[int]], k: int) -> None:
    fused = reciprocal_rank_fusion(rankings, k=k)
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= len(rankings) / (k + 1) + 1e-12 for score in scores)
    assert {item for item, _ in fused} == {item for ranking in rankings for item in ranking}


@given(RANKINGS)
def test_what_is_first_everywhere_is_first(rankings: list[list[int]]) -> None:
    with_winner = [[99, *ranking] for ranking in rankings]
    assert reciprocal_rank_fusion(with_winner)[0][0] == 99


@given(RANKINGS, st.data())
def test_a_better_rank_never_lowers_a_score(rankings: list[list[int]], data: st.DataObject) -> None:
    which = data.draw(st.sampled_from(range(len(rankings))))
    if len(rankings[which]) < 2:
        return
    place = data.draw(st.integers(1, len(rankings[which]) - 1))
    raised = [list(ranking) for ranking in rankings]
    row = raised[which]
    row[place - 1], row[place] = row[place], row[place - 1]
    risen = rankings[which][place]
    assert dict(reciprocal_rank_fusion(raised))[risen] > dict(reciprocal_rank_fusion(rankings))[risen]


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

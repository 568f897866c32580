from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.evaluation.pareto import dominates, undominated

number = st.integers(0, 5).map(float)
points = st.integers(1, 3).flatmap(lambda size: st.lists(st.tuples(*[number] * size), max_size=12))


@given(points)
def test_the_front_is_what_nothing_dominates_and_it_dominates_the_rest(some: list[tuple[float, ...]]) -> None:
    front = [point for point, marked in zip(some, undominated(some), strict=True) if marked]
    rest = [point for point, marked in zip(some, undominated(some), strict=True) if not marked]
    assert bool(front) == bool(some)
    assert not any(dominates(one, other) for one in front for other in front)
    assert all(any(dominates(one, other) for one in front) for other in rest)


@given(points, st.randoms())
def test_order_and_scale_change_nothing_and_equal_points_share_their_fate(
    some: list[tuple[float, ...]], shuffle: object
) -> None:
    marks = dict(zip(some, undominated(some), strict=True))
    again = list(some)
    shuffle.shuffle(again)
    assert undominated(again) == [marks[point] for point in again]
    stretched = [tuple(2 * value**3 - 7 for value in point) for point in some]
    assert undominated(stretched) == undominated(some)


@given(points)
def test_a_single_measure_leaves_the_least(some: list[tuple[float, ...]]) -> None:
    ones = [point[:1] for point in some]
    assert undominated(ones) == [point == min(ones) for point in ones]


def test_by_hand() -> None:
    costs_and_losses = [(1.0, -0.2), (2.0, -0.5), (2.0, -0.4), (3.0, -0.5), (4.0, -0.9)]
    assert undominated(costs_and_losses) == [True, True, False, False, True]


def test_points_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        undominated([(1.0, 2.0), (1.0,)])

"""pass@k against its definition and against the product form of the paper's reference code."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.evaluation.results import pass_at_k


@st.composite
def counts(draw: st.DrawFn, most: int) -> tuple[int, int, int]:
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(counts(8))
def test_it_is_the_share_of_draws_that_hold_a_right_program(case: tuple[int, int, int]) -> None:
    n, c, k = case
    draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@given(counts(300))
def test_it_is_the_product_form(case: tuple[int, int, int]) -> None:
    numpy = pytest.importorskip("numpy")
    n, c, k = case
    product = 1.0 if n - c < k else 1.0 - numpy.prod(1.0 - k / numpy.arange(n - c + 1, n + 1))
    assert math.isclose(pass_at_k(n, c, k), product, abs_tol=1e-9)


@given(counts(60))
def test_more_right_programs_never_lower_it(case: tuple[int, int, int]) -> None:
    n, c, k = case
    assert 0.0 <= pass_at_k(n, c, k) <= 1.0
    if c < n:
        assert pass_at_k(n, c, k) <= pass_at_k(n, c + 1, k)
    assert pass_at_k(n, c, 1) == pytest.approx(c / n)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 1, 4), (3, 1, 0), (3, 4, 1), (3, -1, 1)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=r"cannot be right|needs at least"):
        pass_at_k(n, c, k)

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.evaluation.power import MOST, WORTH, needed_questions, required_questions
from reground.evaluation.statistics import permutation_p

deviation = st.floats(0, 1)
difference = st.floats(-1, 1)


def test_a_textbook_case_by_hand() -> None:
    assert required_questions(0.5, 0.1) == math.ceil(((1.959964 + 0.841621) * 5) ** 2) == 197


@pytest.mark.parametrize(("spread", "size"), [(0.4, 0.1), (0.5, 0.05), (0.3, 0.12)])
def test_the_number_has_the_promised_power_by_the_noncentral_t(spread: float, size: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    n = required_questions(spread, size)
    assert n is not None

    def power(count: int) -> float:
        limit, shift = stats.t.ppf(0.975, count - 1), size / spread * math.sqrt(count)
        return float(stats.nct.sf(limit, count - 1, shift) + stats.nct.cdf(-limit, count - 1, shift))

    assert power(n) == pytest.approx(0.8, abs=0.01)
    assert power(n // 2) < 0.6


def test_the_sign_flip_test_finds_the_difference_as_often_as_promised() -> None:
    draw = random.Random(5)
    n = required_questions(0.6, 0.2)
    assert n is not None
    found = sum(
        permutation_p([draw.gauss(0.2, 0.6) for _ in range(n)], resamples=199, seed=i) <= 0.05 for i in range(200)
    )
    assert 0.7 <= found / 200 <= 0.9


@given(deviation, difference, st.floats(0.001, 0.2), st.floats(0.5, 0.99))
def test_the_number_is_bounded_and_never_below_what_the_test_can_show(
    spread: float, size: float, alpha: float, power: float
) -> None:
    n = required_questions(spread, size, alpha=alpha, power=power)
    assert n is None or (2 / 2**n <= alpha and n <= MOST)


@given(deviation, st.floats(0.001, 1), st.floats(1, 3))
def test_more_noise_smaller_differences_and_stricter_levels_take_no_fewer(
    spread: float, size: float, times: float
) -> None:
    def count(*args: float, **kwargs: float) -> float:
        return required_questions(*args, **kwargs) or math.inf

    n = count(spread, size)
    assert count(spread * times, size) >= n
    assert count(spread, size / times) >= n
    assert count(spread, size, alpha=0.05 / times) >= n
    assert count(spread, -size) == n


def test_no_difference_is_out_of_reach_and_nothing_is_divided_by_0() -> None:
    assert required_questions(0.3, 0.0) is None
    assert required_questions(0.3, 1e-300) is None
    assert required_questions(0.0, 0.0) == 6


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=60))
def test_what_is_sought_is_worth_knowing_and_what_is_missing_adds_up(differences: list[float]) -> None:
    found = needed_questions(differences)
    observed = abs(sum(differences) / len(differences))
    assert found.difference == pytest.approx(max(observed, WORTH))
    assert (found.basis == "observed") == (observed >= WORTH)
    assert (found.questions is None) == (found.more is None)
    if found.questions is not None and found.more is not None:
        assert found.more == max(0, found.questions - len(differences))


def test_methods_that_never_differed_are_not_called_equal_after_ten_questions() -> None:
    few, many = needed_questions([0.0] * 10), needed_questions([0.0] * 2000)
    assert few.basis == "worth knowing"
    assert few.more is not None
    assert few.more > 500
    assert many.more == 0


def test_three_clear_wins_ask_for_a_few_more_and_not_for_none() -> None:
    found = needed_questions([1.0, 1.0, 1.0])
    assert (found.difference, found.basis) == (1.0, "observed")
    assert found.more == required_questions(1.0, 1.0) - 3 == 5


def test_without_a_question_there_is_nothing_to_estimate_from() -> None:
    with pytest.raises(ValueError, match="nothing to estimate"):
        needed_questions([])

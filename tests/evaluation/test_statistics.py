from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.trajectory import Failure
from reground.evaluation.results import Record, RunConfig, pass_at, question_scores, summarise
from reground.evaluation.statistics import (
    Candidate,
    Cost,
    bootstrap_interval,
    compare,
    permutation_p,
    question_means,
    verdict,
)
from reground.evaluation.task import Score

score = st.floats(0, 1, allow_nan=False).map(lambda x: round(x, 3))
scores = st.lists(score, min_size=1, max_size=30)
pairs = st.lists(st.tuples(score, score), min_size=1, max_size=25)
FEW = 400


@given(scores)
@settings(max_examples=60)
def test_the_interval_holds_the_mean_and_stays_within_the_values(values: list[float]) -> None:
    found = bootstrap_interval(values, resamples=FEW)
    assert found.mean == pytest.approx(sum(values) / len(values))
    assert min(values) - 1e-9 <= found.low <= found.mean <= found.high <= max(values) + 1e-9


def test_the_bootstrap_of_a_proportion_agrees_with_the_binomial() -> None:
    stats = pytest.importorskip("scipy.stats")
    found = bootstrap_interval([1.0] * 30 + [0.0] * 70)
    for got, q in ((found.low, 0.025), (found.high, 0.975)):
        assert got == pytest.approx(stats.binom.ppf(q, 100, 0.3) / 100, abs=0.0101)


def test_no_values_have_no_mean_and_equal_values_no_width() -> None:
    nothing = bootstrap_interval([])
    assert (nothing.mean, nothing.low, nothing.high) == (None, None, None)
    same = bootstrap_interval([0.7] * 5)
    assert (same.mean, same.low, same.high) == (0.7, 0.7, 0.7)


@given(pairs)
@settings(max_examples=60)
def test_swapping_sides_mirrors_the_difference_and_keeps_p(both: list[tuple[float, float]]) -> None:
    one, other = ({str(i): pair[side] for i, pair in enumerate(both)} for side in (0, 1))
    forth, back = compare(one, other, resamples=FEW), compare(other, one, resamples=FEW)
    assert forth.p == back.p
    assert 0 < forth.p <= 1
    assert forth.difference.mean == pytest.approx(-back.difference.mean, abs=1e-12)
    assert forth.difference.low == pytest.approx(-back.difference.high, abs=1e-9)


def test_only_shared_questions_are_compared() -> None:
    found = compare({"a": 1.0, "b": 0.0, "x": 1.0}, {"a": 0.0, "b": 0.0, "y": 1.0})
    assert (found.questions, found.difference.mean) == (2, 0.5)


def test_the_exact_test_counts_sign_patterns() -> None:
    assert permutation_p([1.0] * 5) == 2 / 2**5
    assert permutation_p([1.0, 0.0, 0.0]) == 1.0
    assert permutation_p([0.3, 0.1, 0.2]) == 2 / 2**3


def test_the_sampled_test_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    uneven = [0.5, 0.25, -0.125, 0.3, 0.7, -0.2, 0.1, 0.4, 0.9, -0.6, 0.2, 0.35, 0.15, -0.05, 0.45]
    expected = stats.permutation_test(
        (uneven,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=math.inf, vectorized=True
    ).pvalue
    assert permutation_p(uneven) == pytest.approx(expected, abs=0.01)


def test_a_clear_difference_is_found_and_its_p_is_never_0() -> None:
    assert permutation_p([1.0] * 60) == pytest.approx(1 / 10_001)


def records(values: dict[str, list[float | None]], metric: str = "pass@1") -> list[Record]:
    return [
        Record(
            id=f"{q}~{i}", example=q, repeat=i, scores={metric: Score(value=v)}, metadata={"hop": len(q)}, answer=str(v)
        )
        for q, each in values.items()
        for i, v in enumerate(each)
    ]


def test_repeats_are_averaged_before_questions() -> None:
    assert question_means({"a": [1, 1, 0, 0], "b": [1], "c": []}) == {"a": 0.5, "b": 1.0}
    uneven = records({"a": [1.0, 1.0, 0.0, 0.0], "b": [1.0, None]}, "em")
    assert question_scores("em", uneven) == {"a": 0.5, "b": 1.0}
    config = RunConfig(task="t", data="d", primary="em", form="phrase", method="m", model="x", repeats=4)
    summary = summarise(config, uneven, expected=8)
    metric = summary.metrics["em"]
    assert (metric.mean, metric.scored, metric.unscored, metric.failed) == (0.75, 5, 1, 0)
    assert not summary.finished


def test_pass_at_k_is_unbiased_and_leaves_questions_with_too_few_repeats_unscored() -> None:
    found = pass_at("pass@1", records({"a": [1.0, 0.0, 0.0], "b": [0.0, 0.0, 0.0], "c": [1.0, None, None]}))
    assert set(found) == {"pass@2", "pass@3"}
    assert found["pass@2"].mean == pytest.approx((1 - math.comb(2, 2) / math.comb(3, 2)) / 2)
    assert found["pass@3"].mean == pytest.approx(0.5)
    assert (found["pass@2"].scored, found["pass@2"].unscored) == (2, 1)
    assert pass_at("pass@1", records({"a": [0.5, 1.0]})) == {}


def test_the_bound_counts_failures_as_zero_and_leaves_out_what_is_unscored() -> None:
    """It is averaged over questions as the mean is, so without a failure it is the mean."""
    config = RunConfig(task="t", data="d", primary="pass@1", form="program", method="m", model="x", repeats=3)
    uneven = records({"a": [1.0, 1.0, 1.0], "b": [0.0, None, None], "c": [None, None, None]})
    metrics = summarise(config, uneven, expected=9).metrics
    assert {name: (each.mean, each.bound) for name, each in metrics.items()} == {
        "pass@1": (0.5, 0.5),
        "pass@2": (1.0, 1.0),
        "pass@3": (1.0, 1.0),
    }
    failed = [
        record.model_copy(update={"failure": Failure(type="ModelError", message="no"), "scores": {}})
        for record in records({"d": [None, None, None]})
    ]
    metrics = summarise(config, [*uneven, *failed], expected=12).metrics
    assert (metrics["pass@1"].bound, metrics["pass@3"].mean, metrics["pass@3"].bound) == (1 / 3, 1.0, 0.5)


FEW_DRAWS = 200


def candidate(label: str, values: list[float], tokens: float = 100.0, usd: float | None = None) -> Candidate:
    return Candidate(
        label, {f"q{i:03}": value for i, value in enumerate(values)}, Cost(tokens=tokens, seconds=1.5, usd=usd)
    )


def test_a_clear_winner_is_named_with_its_cost_and_how_sure_it_is() -> None:
    found = verdict(
        [candidate("rag@4k", [0.0, 1.0] * 20, 900), candidate("rar@4k", [1.0] * 40, 3120, 0.0012)], "token F1"
    )
    assert found is not None
    assert (found.best, found.choice, found.sure, found.by, found.questions) == ("rar@4k", "rar@4k", True, "tokens", 40)
    assert found.text.startswith("rar@4k is best: token F1 1.000 for 3,120 tokens, 1.5 s and 0.00120 USD a question.")
    assert "rag@4k, is 0.500 behind (95 % interval +0.350 to +0.650)" in found.text


def test_of_methods_that_cannot_be_told_apart_the_cheapest_is_taken() -> None:
    noisy = [1.0] * 20 + [0.0] * 10 + [1.0] * 20
    close = [1.0] * 20 + [1.0] * 4 + [0.0] * 6 + [0.0] * 5 + [1.0] * 15
    far = [0.0] * 50
    some = [candidate("dear", noisy, 4000), candidate("cheap", close, 500), candidate("bad", far, 10)]
    found = verdict(some, "em")
    assert found is not None
    assert (found.choice, found.sure) == ("cheap", False)
    by_label = {each.label: each for each in found.standings}
    assert (by_label["bad"].told_apart, by_label["cheap"].told_apart) == (True, False)
    assert found.text.startswith("Which is best cannot be told from 50 questions") and "Take" not in found.text
    many = [candidate(each.label, [*each.scores.values()] * 20, each.cost.tokens) for each in some]
    assert "Take" not in verdict([many[0], candidate("rare", [1.0, 0.0, 1.0], 10)], "em").text
    like = [
        candidate(name, [1.0] * 400 + [0.0] * 100 + last, cost)
        for name, last, cost in (("dear", [1.0, 0.0], 900), ("cheap", [0.0, 0.0], 500))
    ]
    assert verdict(like, "em").text.startswith("Take cheap: em ")


def test_usd_decides_what_is_cheap_only_where_all_prices_are_known() -> None:
    values = [1.0, 0.0, 1.0]
    priced = [candidate("many", values, 900, 0.001), candidate("few", values, 100, 0.02)]
    assert verdict(priced, "em").choice == "many"
    assert verdict([priced[0], candidate("few", values, 100)], "em").choice == "few"
    free = [candidate("many", values, 900, 0.0), candidate("few", values, 100, 0.0)]
    assert verdict(free, "em").choice == "few"


def test_one_method_or_no_shared_question_has_no_verdict() -> None:
    one = candidate("a", [1.0, 0.0])
    assert verdict([], "em") is None
    assert verdict([one], "em") is None
    assert verdict([one, Candidate("b", {"other": 1.0}, Cost(tokens=1, seconds=1))], "em") is None


SCORES = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=8, max_size=8), min_size=2, max_size=5)


@given(SCORES, st.lists(st.integers(1, 3), min_size=5, max_size=5), st.randoms())
@settings(max_examples=60, deadline=None)
def test_the_choice_is_never_beaten_in_both_and_never_depends_on_the_order(
    values: list[list[float]], costs: list[int], shuffle: random.Random
) -> None:
    some = [candidate(f"m{i}", own, costs[i]) for i, own in enumerate(values)]
    found = verdict(some, "em", resamples=FEW_DRAWS)
    assert found is not None
    by_label = {each.label: each for each in found.standings}
    best, choice = by_label[found.best], by_label[found.choice]
    assert best.mean == max(each.mean for each in found.standings)
    equal = [each for each in found.standings if each is best or each.p > 0.05]
    assert choice in equal
    assert choice.cost.tokens == min(each.cost.tokens for each in equal)
    assert found.sure == all(each.told_apart for each in found.standings if each is not best)
    assert found.text.count(". ") == 1, "two sentences"
    again = list(some)
    shuffle.shuffle(again)
    assert verdict(again, "em", resamples=FEW_DRAWS) == found


def test_holm_and_the_tests_are_those_of_an_independent_implementation() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(11)
    base = [draw.random() for _ in range(12)]
    some = [candidate(f"m{i}", [min(1.0, b * draw.uniform(0.4, 1)) for b in base]) for i in range(3)]
    found = verdict([*some, candidate("base", base)], "em")
    assert found is not None
    assert found.best == "base"
    ps = {}
    for one in some:
        differences = [b - value for b, value in zip(base, one.scores.values(), strict=True)]
        test = stats.permutation_test((differences,), sum, permutation_type="samples", n_resamples=10**5)
        ps[one.label] = float(test.pvalue)
    highest = 0.0
    for rank, (label, p) in enumerate(sorted(ps.items(), key=lambda pair: pair[1])):
        highest = max(highest, min(1.0, p * (len(ps) - rank)))
        standing = next(each for each in found.standings if each.label == label)
        assert standing.p == pytest.approx(p, abs=1e-9)
        assert standing.adjusted == pytest.approx(highest, abs=1e-9)


def test_a_correction_for_many_methods_does_not_make_a_worse_and_cheaper_one_the_choice() -> None:
    best = [1.0] * 20 + [0.0] * 10
    worse = [0.0] * 8 + [1.0] * 13 + [0.0] * 9
    others = [candidate(f"dear{i}", best, 1000 + i) for i in range(9)]
    found = verdict([candidate("best", best, 900), candidate("worse", worse, 10), *others], "em")
    assert found is not None
    standing = next(each for each in found.standings if each.label == "worse")
    assert standing.p < 0.05 < standing.adjusted
    assert (found.choice, found.sure) == ("best", False)

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.evaluation.statistics import Candidate, Cost, verdict

FEW = 200


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
    assert found.text == (
        "rar@4k is best: token F1 1.000 for 3,120 tokens, 1.5 s and 0.00120 USD a question. The next, rag@4k, is "
        "0.500 behind (95 % interval +0.350 to +0.650); p (Holm) is at most 0.001, on 40 questions."
    )


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
    assert found.text.startswith("Take cheap, em ")
    assert (
        "is the cheapest of 2 that cannot be told apart. Which is best cannot be told from 50 questions" in found.text
    )


def test_the_highest_and_cheapest_is_taken_even_where_it_is_not_sure() -> None:
    found = verdict([candidate("a", [1.0, 0.0, 1.0, 1.0], 10), candidate("b", [0.0, 0.0, 1.0, 1.0], 20)], "em")
    assert found is not None
    assert (found.best, found.choice, found.sure) == ("a", "a", False)
    assert found.text == (
        "Take a: it scored highest (em 0.750 for 10 tokens and 1.5 s a question) and is the cheapest of 2 that cannot "
        "be told apart. Which is best cannot be told from 4 questions (b is 0.250 behind (95 % interval +0.000 to "
        "+0.750); p (Holm) = 1.000)."
    )


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


scores = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=8, max_size=8), min_size=2, max_size=5)


@given(scores, st.lists(st.integers(1, 3), min_size=5, max_size=5), st.randoms())
@settings(max_examples=60, deadline=None)
def test_the_choice_is_never_beaten_in_both_and_never_depends_on_the_order(
    values: list[list[float]], costs: list[int], shuffle: random.Random
) -> None:
    some = [candidate(f"m{i}", own, costs[i]) for i, own in enumerate(values)]
    found = verdict(some, "em", resamples=FEW)
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
    assert verdict(again, "em", resamples=FEW) == found


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


def test_of_equal_methods_one_is_called_best_in_no_more_than_a_twentieth() -> None:
    draw = random.Random(7)
    wrong = 0
    for _ in range(150):
        hardness = [draw.gauss(0, 1) for _ in range(60)]
        some = [candidate(f"m{i}", [float(draw.gauss(h, 1) > 0) for h in hardness]) for i in range(3)]
        found = verdict(some, "em", resamples=FEW)
        wrong += found is not None and found.sure
    assert wrong / 150 <= 0.05


def test_a_correction_for_many_methods_does_not_make_a_worse_and_cheaper_one_the_choice() -> None:
    best = [1.0] * 20 + [0.0] * 10
    worse = [0.0] * 8 + [1.0] * 13 + [0.0] * 9
    others = [candidate(f"dear{i}", best, 1000 + i) for i in range(9)]
    found = verdict([candidate("best", best, 900), candidate("worse", worse, 10), *others], "em")
    assert found is not None
    standing = next(each for each in found.standings if each.label == "worse")
    assert standing.p < 0.05 < standing.adjusted
    assert (found.choice, found.sure) == ("best", False)
    alone = verdict([candidate("best", best, 900), *(candidate(f"w{i}", worse, 10 + i) for i in range(2))], "em")
    assert alone is not None
    assert (alone.choice, alone.sure) == ("best", False)
    assert alone.text.startswith("Take best: it scored highest (em 0.667 for 900 tokens and 1.5 s a question). Which ")

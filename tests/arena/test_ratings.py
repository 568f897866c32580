"""Ratings and agreement against cases worked out by hand."""

from __future__ import annotations

from math import erf, exp, pi, sqrt

import pytest

from reground.arena.agreement import agreements, alpha
from reground.arena.pairs import Contest, Pair
from reground.arena.ratings import Tally, duels, ratings
from reground.arena.results import as_csv, as_data, notes, results, tables
from reground.arena.votes import Kind, Verdict, Vote

METHODS = ("a", "b", "c")
PAIRS = {
    f"{one}{other}{n}": Pair(f"{one}{other}{n}", f"q{n}", f"Q{n}", one, other, ((one, other),))
    for one, other in (("a", "b"), ("a", "c"), ("b", "c"))
    for n in range(3)
}


def vote(pair: str, verdict: Verdict, judge: str = "anna", kind: Kind = "person", round: int = 1) -> Vote:
    return Vote(pair, PAIRS[pair].question, judge, kind, round, verdict)


def pdf(x: float) -> float:
    return exp(-x * x / 2) / sqrt(2 * pi)


def cdf(x: float) -> float:
    return (1 + erf(x / sqrt(2))) / 2


def by_hand(drawn: bool) -> tuple[tuple[float, float], tuple[float, float]]:
    """Herbrich et al. (2006), equations for two players who begin alike; the first wins, or both draw."""
    mu, sigma, beta, tau = 25.0, 25 / 3, 25 / 6, 25 / 300
    variance = sigma**2 + tau**2
    c = sqrt(2 * beta**2 + 2 * variance)
    margin = 0.125661346855074 * sqrt(2) * beta / c  # the normal quantile of 0.55, for draws in a tenth of the games
    if drawn:
        v, w = 0.0, 2 * margin * pdf(margin) / (cdf(margin) - cdf(-margin))
    else:
        v = pdf(-margin) / cdf(-margin)
        w = v * (v - margin)
    after = sqrt(variance * (1 - variance / c**2 * w))
    return (mu + variance / c * v, after), (mu - variance / c * v, after)


@pytest.mark.parametrize(("verdict", "drawn"), [("first", False), ("second", False), ("tie", True), ("bad", True)])
def test_one_vote_is_rated_as_by_hand(verdict: Verdict, drawn: bool) -> None:
    found = {each.method: (each.mu, each.sigma) for each in ratings(METHODS, PAIRS, [vote("ab0", verdict)])}
    better, worse = by_hand(drawn)
    first, second = (worse, better) if verdict == "second" else (better, worse)
    assert found["a"] == pytest.approx(first, abs=1e-5)
    assert found["b"] == pytest.approx(second, abs=1e-5)
    assert found["c"] == pytest.approx((25, 25 / 3))


def test_the_best_comes_first_and_every_vote_is_counted_for_both() -> None:
    votes = [vote("ab0", "second"), vote("ab1", "second"), vote("ac0", "first"), vote("bc0", "bad"), vote("bc1", "tie")]
    found = ratings(METHODS, PAIRS, votes)
    assert found[0].method == "b"
    assert [each.mu for each in found] == sorted((each.mu for each in found), reverse=True)
    counts = {e.method: (e.tally.wins, e.tally.losses, e.tally.ties, e.tally.bad) for e in found}
    assert counts == {"a": (1, 2, 0, 0), "b": (2, 0, 1, 1), "c": (0, 1, 1, 1)}
    assert {e.method: e.tally.win_rate for e in found} == pytest.approx({"a": 1 / 3, "b": 3 / 4, "c": 1 / 3})
    against = [(d.method, d.other, d.tally.wins, d.tally.losses) for d in duels(METHODS, PAIRS, votes)]
    assert against == [("a", "b", 0, 2), ("a", "c", 1, 0), ("b", "c", 0, 0)]


def test_a_vote_on_an_answer_of_two_methods_rates_both() -> None:
    pair = Pair("p", "q", "Q", "x", "y", (("a", "c"), ("b", "c")))
    found = {each.method: each for each in ratings(METHODS, {"p": pair}, [Vote("p", "q", "j", "person", 1, "first")])}
    assert (found["a"].tally.wins, found["b"].tally.wins, found["c"].tally.losses) == (1, 1, 2)
    turned = Pair("p", "q", "Q", "x", "y", (("b", "a"),))
    (duel,) = duels(METHODS, {"p": turned}, [Vote("p", "q", "j", "person", 1, "first")])
    assert (duel.method, duel.other, duel.tally.wins, duel.tally.losses) == ("a", "b", 0, 1)


def test_a_tally_without_votes_has_no_rate() -> None:
    assert Tally().win_rate is None
    assert Tally().interval().mean is None


def units(*rows: str) -> list[list[str]]:
    """Each row is a judge's verdicts; a dot is none."""
    return [[value for value in column if value != "."] for column in zip(*rows, strict=True)]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (("0100000010", "1110010000"), 0.095),  # Krippendorff (2011), B
        (("12332141 2...".replace(" ", ""), "1233224125.3", ".3332342251.", "12332441251."), 0.743),  # the same, C
        (("0101", "0101"), 1.0),
        (("0011", "1100"), -0.75),
    ],
)
def test_alpha_is_that_of_the_literature(rows: tuple[str, ...], found: float) -> None:
    assert alpha(units(*rows)) == pytest.approx(found, abs=5e-4)


def test_alpha_of_verdicts_that_are_all_equal_is_unknown() -> None:
    assert alpha(units("000", "000")) is None
    assert alpha(units("01.", "..1")) is None


def test_agreement_is_told_apart_by_who_judged() -> None:
    votes = [vote("ab0", "first"), vote("ab1", "tie"), vote("ab2", "first")]
    votes += [vote("ab0", "first", "ben"), vote("ab1", "bad", "ben"), vote("ab2", "second", "ben")]
    votes += [vote("ab0", "first", "m/x", "model"), vote("ab1", "first", "m/x", "model")]
    people, model = agreements(votes)
    assert (people.who, people.compared, people.same) == ("people", 3, pytest.approx(2 / 3))
    # values: first 3, tie 2, second 1; one unit differs: 1 - 5 * 2 / (36 - 14)
    assert people.alpha == pytest.approx(1 - 5 * 2 / 22)
    assert (model.who, model.compared, model.same) == ("m/x and people", 4, 0.5)


def test_the_last_verdict_counts_between_judges_and_rounds_are_compared_with_themselves() -> None:
    votes = [vote("ab0", "first"), vote("ab0", "second", "ben"), vote("ab0", "second", round=2)]
    people, again = agreements(votes)
    assert (people.who, people.same) == ("people", 1.0)
    assert (again.who, again.compared, again.same) == ("judges with themselves", 1, 0.0)


def test_people_and_models_have_rows_of_their_own() -> None:
    contest = Contest(METHODS, PAIRS, missing=1, same=2)
    votes = [vote("ab0", "first"), vote("ab0", "bad", "ben"), vote("ab1", "second", "m/x", "model")]
    votes += [Vote("elsewhere", "q9", "anna", "person", 1, "first")]
    found = results(contest, votes)
    assert [(g.who, g.votes, g.judges, g.questions) for g in found.groups] == [
        ("people", 2, ("anna", "ben"), 1),
        ("models", 1, ("m/x",), 1),
    ]
    ranked, against, agreed = tables(found)
    assert ranked.rows[0][:2] == ["people", "a"]
    assert [row[4:9] for row in ranked.rows if row[:2] == ["people", "a"]] == [["2", "1", "0", "0", "1"]]
    assert [row[:3] for row in against.rows] == [["people", "a", "b"], ["models", "a", "b"]]
    assert agreed.rows[0][:3] == ["people", "1", "0.000"]
    said = "\n".join(notes(found))
    for line in (
        "people: 2 votes of 2 judges on 1 of 3 questions.",
        "models: 1 vote of 1 judge on 1 of 3 questions.",
        "2 pairs of equal answers",
        "1 answer missing",
        "1 vote in the file on other answers",
    ):
        assert line in said
    assert [group.who for group in results(contest, votes, "models").groups] == ["models"]
    assert results(contest, votes, "people").agreements[0].who == "people"


def test_the_data_and_the_csv_say_the_same() -> None:
    contest = Contest(("=evil", "b"), {"p": Pair("p", "q", "Q", "x", "y", (("=evil", "b"),))})
    found = results(contest, [Vote("p", "q", "anna", "person", 1, "first")])
    (group,) = as_data(found)["groups"]
    assert (group["votes"], group["names"]) == (1, ["anna"])
    header, first, _ = as_csv(found).splitlines()
    assert header.startswith("judges,method,mu,sigma,votes,wins")
    assert first.startswith("people,'=evil,29.39")
    assert group["ratings"][0]["method"] == "=evil"


def test_no_votes_are_said() -> None:
    found = results(Contest(METHODS, PAIRS), [])
    assert tables(found) == []
    assert notes(found)[0] == "No votes yet on these answers."

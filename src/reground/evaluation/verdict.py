"""Which method is best, at which cost, how sure: or that it cannot be told, and how many more questions it would take.

The candidates are runs: a method at a budget with a model. All are compared on the questions that every one of them has
a score for, so their order is the same whichever two are looked at.

1. The best is the candidate with the highest mean.
2. It is tested against each other candidate by the sign-flip permutation test of the paired differences, with Holm's
   correction for the number of tests (Holm, A simple sequentially rejective multiple test procedure, 1979). A candidate
   with an adjusted p of at most `ALPHA` is told apart: it is worse.
3. The verdict is sure if every other candidate is told apart.
4. The choice is the cheapest of the best and those that cannot be told apart from it even by a single test: whose p
   before the correction is above `ALPHA`. The correction keeps a lucky candidate from being called best. It must not
   make a worse one look as good, the more so the more candidates there are. Cheap is counted in USD where all prices
   are known, else in tokens.
5. For each candidate that is not told apart, `needed` says how many questions would find the difference (see `power`).
   Holm's procedure compares the r-th largest p with alpha / r, so this is the level used.

The best is chosen from the data that it is tested with. To call it best stays safe: a test of the two highest means at
level alpha calls a candidate the best that is not with probability of at most alpha, however many candidates there are
(Gutmann & Maymin, Is the selected population the best?, 1987), and Holm's correction asks for more. The exclusion of
the others is bolder than alpha says: in simulations of equal methods, one of four was excluded in 7 % of comparisons,
one of twelve in 13 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from reground.core.language import Value
from reground.evaluation.costs import Cost, Measure
from reground.evaluation.power import ALPHA, MOST, POWER, Needed, needed_questions
from reground.evaluation.statistics import RESAMPLES, Comparison, Interval, compare, holm


@dataclass(frozen=True)
class Candidate:
    """A run. scores: each question's mean over its repeats, by the question's id."""

    label: str
    scores: Mapping[str, float]
    cost: Cost


class Standing(Value):
    """A candidate beside the best.

    mean: over the questions of the verdict. tokens, seconds, usd: a question's mean. behind: the best's score minus its
    own. p, adjusted: before and after Holm's correction. These are None for the best itself. told_apart: whether it is
    worse beyond chance. needed: None where it is told apart.
    """

    label: str
    mean: float
    tokens: float
    seconds: float
    usd: float | None = None
    behind: Interval | None = None
    p: float | None = None
    adjusted: float | None = None
    told_apart: bool = False
    needed: Needed | None = None

    @property
    def equal(self) -> bool:
        """Whether even a single test cannot tell it apart from the best, or it is the best."""
        return self.p is None or self.p > ALPHA


class Verdict(Value):
    """The comparison's result. text: two sentences.

    best: the candidate with the highest mean. choice: the one to take. sure: whether the best is told apart from all
    others. by: what the cost of the choice was counted in. standings: by mean, the best first.
    """

    text: str
    metric: str
    questions: int
    best: str
    choice: str
    sure: bool
    by: Measure
    alpha: float = ALPHA
    power: float = POWER
    standings: tuple[Standing, ...]


def verdict(candidates: Sequence[Candidate], metric: str, *, resamples: int = RESAMPLES) -> Verdict | None:
    """The verdict on several runs; None where there are fewer than two, or no question that all have a score for.

    Ties of the mean go to the cheaper one. The labels must differ.
    """
    shared = set.intersection(*(set(each.scores) for each in candidates)) if candidates else set()
    if len(candidates) < 2 or not shared:
        return None
    by: Measure = "usd" if all(each.cost.usd for each in candidates) else "tokens"
    scores = {each.label: {q: each.scores[q] for q in sorted(shared)} for each in candidates}
    means = {label: fsum(own.values()) / len(shared) for label, own in scores.items()}
    ranked = sorted(candidates, key=lambda each: (-means[each.label], *_dearness(each.cost, by), each.label))
    best, others = ranked[0], ranked[1:]
    found = [compare(scores[best.label], scores[each.label], resamples=resamples) for each in others]
    standings = [_alone(best, means)]
    levels = _levels([each.p for each in found])
    for each, one, adjusted, level in zip(others, found, holm([one.p for one in found]), levels, strict=True):
        differences = [scores[best.label][q] - scores[each.label][q] for q in scores[best.label]]
        standings.append(_beside(_alone(each, means), one, adjusted, differences, level))
    equal = [each for each, own in zip(ranked, standings, strict=True) if own.equal]
    choice = min(equal, key=lambda each: _dearness(each.cost, by)).label
    return Verdict(
        text=wording({each.label: each.cost for each in ranked}, standings, choice, metric, len(shared)),
        metric=metric,
        questions=len(shared),
        best=best.label,
        choice=choice,
        sure=all(own.told_apart for own in standings[1:]),
        by=by,
        standings=tuple(standings),
    )


def _dearness(cost: Cost, by: Measure) -> tuple[float, float]:
    return (cost.by(by) or 0.0, cost.seconds)


def _levels(ps: Sequence[float]) -> list[float]:
    """The level that Holm's procedure compares each p with once all smaller ones are rejected."""
    order = sorted(range(len(ps)), key=lambda i: -ps[i])
    return [ALPHA / (order.index(i) + 1) for i in range(len(ps))]


def _alone(one: Candidate, means: Mapping[str, float]) -> Standing:
    cost = one.cost
    return Standing(label=one.label, mean=means[one.label], tokens=cost.tokens, seconds=cost.seconds, usd=cost.usd)


def _beside(
    alone: Standing, found: Comparison, adjusted: float, differences: Sequence[float], level: float
) -> Standing:
    apart = adjusted <= ALPHA
    needed = None if apart else needed_questions(differences, alpha=level)
    update = {"behind": found.difference, "p": found.p, "adjusted": adjusted, "told_apart": apart, "needed": needed}
    return alone.model_copy(update=update)


def wording(costs: Mapping[str, Cost], standings: Sequence[Standing], choice: str, metric: str, questions: int) -> str:
    """The verdict in two sentences. standings: the best first."""
    best, *others = standings
    doubtful, equal = [each for each in others if not each.told_apart], [each for each in standings if each.equal]
    told = f"{metric} {best.mean:.3f} for {costs[best.label].words()}"
    if not doubtful:
        rest = f"all {len(others)} others have p (Holm) of at most " if len(others) > 1 else "p (Holm) is at most "
        rest += f"{max(0.001, *(each.adjusted or 0.0 for each in others)):.3f}"
        return (
            f"{best.label} is best: {told}. The next, {others[0].label}, is {_behind(others[0])}; {rest}, on "
            f"{_counted(questions)}."
        )
    if choice == best.label:
        cheapest = f" and is the cheapest of {len(equal)} that cannot be told apart" if len(equal) > 1 else ""
        return f"Take {choice}: it scored highest ({told}){cheapest}. {_missing(doubtful[0], questions)}"
    rival = next(each for each in equal if each.label == choice)
    taken = (
        f"Take {choice}, {metric} {rival.mean:.3f} for {costs[choice].words()}: {best.label} scored highest "
        f"({best.mean:.3f} for {costs[best.label].words()}), but {choice} is the cheapest of {len(equal)} that cannot "
        "be told apart."
    )
    return f"{taken} {_missing(rival, questions)}"


def _missing(rival: Standing, questions: int) -> str:
    """The sentence on how many more questions would tell a candidate apart from the best."""
    needed = rival.needed
    assert needed is not None  # whoever is not told apart has it
    size = (
        f"{needed.difference:.3f}"
        if needed.basis == "observed"
        else f"{needed.difference:.2f}, the smallest worth knowing,"
    )
    measured = f"{rival.label} is {_behind(rival)}; p (Holm) = {rival.adjusted:.3f}"
    power = f"with {POWER * 100:.0f} % power"
    if needed.more == 0:
        return (
            f"{_counted(questions).capitalize()} are enough to find a difference of {size} {power}, so the true one is "
            f"probably smaller ({measured})."
        )
    more = (
        f"more than {MOST:,} more questions"
        if needed.more is None
        else f"about {_counted(_rounded(needed.more), 'more ')}"
    )
    return (
        f"Which is best cannot be told from {_counted(questions)} ({measured}): {more} would find a difference of "
        f"{size} {power}."
    )


def _behind(standing: Standing) -> str:
    found = standing.behind
    assert found is not None and found.mean is not None and found.low is not None and found.high is not None
    return f"{found.mean:.3f} behind (95 % interval {found.low + 0.0:+.3f} to {found.high + 0.0:+.3f})"


def _counted(number: int, kind: str = "") -> str:
    return f"{number:,} {kind}question{'' if number == 1 else 's'}"


def _rounded(count: int) -> int:
    """To two digits, which is as much as the estimate can bear."""
    unit = int("1".ljust(len(str(count)) - 1, "0"))
    return round(count / unit) * unit

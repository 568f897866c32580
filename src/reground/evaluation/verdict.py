"""Which method is best, at which cost, how sure: or that it cannot be told.

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
from typing import Literal

from reground.core.language import Value
from reground.evaluation.records import Cost
from reground.evaluation.statistics import RESAMPLES, Interval, compare, holm

ALPHA = 0.05


@dataclass(frozen=True)
class Candidate:
    """A run. scores: each question's mean over its repeats, by the question's id."""

    label: str
    scores: Mapping[str, float]
    cost: Cost


class Standing(Value):
    """A candidate beside the best.

    mean: over the questions of the verdict. cost: a question's mean. behind: the best's score minus its own. p,
    adjusted: before and after Holm's correction. These are None for the best itself. told_apart: whether it is worse
    beyond chance.
    """

    label: str
    mean: float
    cost: Cost
    behind: Interval | None = None
    p: float | None = None
    adjusted: float | None = None
    told_apart: bool = False

    @property
    def equal(self) -> bool:
        """Whether even a single test cannot tell it apart from the best, or it is the best."""
        return self.p is None or self.p > ALPHA

    @property
    def distance(self) -> str:
        """How far it is behind the best, in words."""
        behind = self.behind
        assert behind is not None and behind.mean is not None and behind.low is not None and behind.high is not None
        return f"{behind.mean:.3f} behind (95 % interval {behind.low + 0.0:+.3f} to {behind.high + 0.0:+.3f})"


class Verdict(Value):
    """The comparison's result. text: one or two sentences.

    best: the candidate with the highest mean. choice: the one to take. sure: whether the best is told apart from all
    others. by: what the cost of the choice was counted in. standings: by mean, the best first.
    """

    text: str
    metric: str
    questions: int
    best: str
    choice: str
    sure: bool
    by: Literal["tokens", "usd"]
    alpha: float = ALPHA
    standings: tuple[Standing, ...]


def verdict(candidates: Sequence[Candidate], metric: str, *, resamples: int = RESAMPLES) -> Verdict | None:
    """The verdict on several runs; None where there are fewer than two, or no question that all have a score for.

    Ties of the mean go to the cheaper one. The labels must differ.
    """
    shared = sorted(set.intersection(*(set(each.scores) for each in candidates))) if candidates else []
    if len(candidates) < 2 or not shared:
        return None
    by: Literal["tokens", "usd"] = "usd" if all(each.cost.usd for each in candidates) else "tokens"
    scores = {each.label: {question: each.scores[question] for question in shared} for each in candidates}
    alone = [
        Standing(label=each.label, mean=fsum(scores[each.label].values()) / len(shared), cost=each.cost)
        for each in candidates
    ]
    best, *others = sorted(alone, key=lambda each: (-each.mean, *_price(each, by), each.label))
    comparisons = [compare(scores[best.label], scores[each.label], resamples=resamples) for each in others]
    standings = [best]
    for each, comparison, adjusted in zip(others, comparisons, holm([one.p for one in comparisons]), strict=True):
        behind = {"behind": comparison.difference, "p": comparison.p, "adjusted": adjusted}
        standings.append(each.model_copy(update={**behind, "told_apart": adjusted <= ALPHA}))
    choice = min((each for each in standings if each.equal), key=lambda each: _price(each, by))
    return Verdict(
        text=_text(standings, choice, metric, len(shared)),
        metric=metric,
        questions=len(shared),
        best=best.label,
        choice=choice.label,
        sure=all(each.told_apart for each in standings[1:]),
        by=by,
        standings=tuple(standings),
    )


def _price(standing: Standing, by: Literal["tokens", "usd"]) -> tuple[float, float]:
    cost = standing.cost
    return (cost.usd or 0.0 if by == "usd" else cost.tokens, cost.seconds)


def _text(standings: Sequence[Standing], choice: Standing, metric: str, questions: int) -> str:
    """The verdict in words. standings: the best first."""
    best, *others = standings
    on = f"{questions:,} question{'' if questions == 1 else 's'}"
    score = f"{metric} {best.mean:.3f} for {best.cost.words()}"
    doubtful = [each for each in others if not each.told_apart]
    if not doubtful:
        rest = f"all {len(others)} others have p (Holm) of at most" if len(others) > 1 else "p (Holm) is at most"
        most = max(0.001, *(each.adjusted or 0.0 for each in others))
        measured = f"{others[0].label}, is {others[0].distance}; {rest} {most:.3f}, on {on}"
        return f"{best.label} is best: {score}. The next, {measured}."
    equal = sum(each.equal for each in standings)
    cheapest = f"is the cheapest of {equal} that cannot be told apart"
    rival = doubtful[0] if choice is best else choice
    if choice is best:
        taken = f"Take {best.label}: it scored highest ({score}){f' and {cheapest}' if equal > 1 else ''}."
    else:
        taken = (
            f"Take {choice.label}, {metric} {choice.mean:.3f} for {choice.cost.words()}: {best.label} scored highest "
            f"({best.mean:.3f} for {best.cost.words()}), but {choice.label} {cheapest}."
        )
    measured = f"{rival.label} is {rival.distance}; p (Holm) = {rival.adjusted:.3f}"
    return f"{taken} Which is best cannot be told from {on} ({measured})."

"""How far judges agree: the share of equal verdicts, and Krippendorff's alpha.

Alpha (Krippendorff, Content Analysis, 2004, chapter 11; nominal) takes any number of judges who each saw some of the
pairs; Cohen's kappa is for two judges, Fleiss' kappa for the same number on every pair. 1 is full agreement, 0 what
chance gives. Two bad answers count as a tie here, as in the ratings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from reground.arena.votes import Kind, Vote

Units = Sequence[Sequence[str]]
"""The verdicts on each pair."""


@dataclass(frozen=True)
class Agreement:
    """Between judges. compared: pairs of answers with verdicts of two or more. same: the share of equal verdicts.

    alpha: Krippendorff's; None where all verdicts are equal, for then there is nothing to disagree about.
    """

    who: str
    compared: int
    same: float
    alpha: float | None


def alpha(units: Units) -> float | None:
    """Krippendorff's alpha for nominal values; units with one value are left out. None where no two values differ."""
    totals: Counter[str] = Counter()
    differing = 0.0
    for values in units:
        if len(values) > 1:
            counts = Counter(values)
            totals += counts
            differing += (len(values) ** 2 - sum(n * n for n in counts.values())) / (len(values) - 1)
    n = totals.total()
    expected = n * n - sum(count * count for count in totals.values())
    return 1 - (n - 1) * differing / expected if expected else None


def agreements(votes: Iterable[Vote]) -> list[Agreement]:
    """Among people, among models, between each model and people, and of judges with themselves in another round.

    Of a judge's verdicts on one pair the last counts. Only what at least one pair was compared for is in the list.
    """
    votes = list(votes)
    last = {(vote.kind, vote.judge, vote.pair): _outcome(vote) for vote in votes}
    found = [_among("people", last, "person"), _among("models", last, "model")]
    models = dict.fromkeys(judge for kind, judge, _ in last if kind == "model")
    found += [_of(f"{model} and people", _between(model, last)) for model in models]
    again: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for vote in votes:
        again[vote.kind, vote.judge, vote.pair].append(_outcome(vote))
    found.append(_of("judges with themselves", list(again.values())))
    return [each for each in found if each is not None]


_Last = dict[tuple[Kind, str, str], str]


def _outcome(vote: Vote) -> str:
    return "tie" if vote.verdict == "bad" else vote.verdict


def _among(who: str, last: _Last, kind: Kind) -> Agreement | None:
    units: dict[str, list[str]] = defaultdict(list)
    for (each, _, pair), verdict in last.items():
        if each == kind:
            units[pair].append(verdict)
    return _of(who, list(units.values()))


def _between(model: str, last: _Last) -> Units:
    """A model's verdict beside each person's."""
    own = {pair: verdict for (kind, judge, pair), verdict in last.items() if (kind, judge) == ("model", model)}
    people = [(pair, verdict) for (kind, _, pair), verdict in last.items() if kind == "person"]
    return [[own[pair], verdict] for pair, verdict in people if pair in own]


def _of(who: str, units: Units) -> Agreement | None:
    compared = [values for values in units if len(values) > 1]
    twos = [one == other for values in compared for one, other in combinations(values, 2)]
    return Agreement(who, len(compared), sum(twos) / len(twos), alpha(compared)) if twos else None

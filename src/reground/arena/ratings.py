"""TrueSkill ratings and win rates of methods, from votes (Herbrich et al. 2006; RAT, appendix C)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from reground.arena.pairs import Pair
from reground.arena.votes import Verdict, Vote
from reground.core.errors import MissingExtra
from reground.evaluation.statistics import Interval, bootstrap_interval


@dataclass
class Tally:
    """How often something won, lost, tied, and was bad together with the other. points: by question, 1, 0.5 or 0."""

    wins: int = 0
    losses: int = 0
    ties: int = 0
    bad: int = 0
    points: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def votes(self) -> int:
        """All of them."""
        return self.wins + self.losses + self.ties + self.bad

    @property
    def win_rate(self) -> float | None:
        """The share of votes won, a tie or two bad answers counted as half; None without votes."""
        return (self.wins + (self.ties + self.bad) / 2) / self.votes if self.votes else None

    def interval(self) -> Interval:
        """The mean over questions of the win rate at each, with its 95 % bootstrap interval."""
        return bootstrap_interval([sum(each) / len(each) for each in self.points.values()])

    def add(self, outcome: Verdict, question: str) -> None:
        """Count one vote; "first" is a win."""
        self.wins += outcome == "first"
        self.losses += outcome == "second"
        self.ties += outcome == "tie"
        self.bad += outcome == "bad"
        self.points[question].append(1.0 if outcome == "first" else 0.0 if outcome == "second" else 0.5)


@dataclass(frozen=True)
class Rating:
    """A method's TrueSkill (mu, and sigma for how uncertain it is) and its tally against all others."""

    method: str
    mu: float
    sigma: float
    tally: Tally


@dataclass(frozen=True)
class Duel:
    """Two methods' tally against each other; a win is the first one's."""

    method: str
    other: str
    tally: Tally


_TURNED: dict[Verdict, Verdict] = {"first": "second", "second": "first", "tie": "tie", "bad": "bad"}


def games(pairs: Mapping[str, Pair], votes: Iterable[Vote]) -> Iterator[tuple[str, str, Verdict, str]]:
    """What each vote says of methods: the two, the outcome for the first of them, and the question."""
    for vote in votes:
        for one, other in pairs[vote.pair].matches:
            yield one, other, vote.verdict, vote.question


def ratings(methods: Sequence[str], pairs: Mapping[str, Pair], votes: Sequence[Vote]) -> list[Rating]:
    """Every method's rating, the best first.

    As in the papers: the package's own settings (all begin with mu 25 and sigma 8.333), one game a vote in the order of
    voting, and two bad answers are a draw. Raises MissingExtra without trueskill.
    """
    skills, tallies = _Skills(methods), {method: Tally() for method in methods}
    for one, other, verdict, question in games(pairs, votes):
        tallies[one].add(verdict, question)
        tallies[other].add(_TURNED[verdict], question)
        skills.play(one, other, verdict)
    found = [Rating(name, *skills.of(name), tallies[name]) for name in methods]
    return sorted(found, key=lambda rating: -rating.mu)


class _Skills:
    """The package's ratings by method."""

    def __init__(self, methods: Sequence[str]) -> None:
        try:
            import trueskill
        except ImportError:
            raise MissingExtra("the arena", "arena") from None
        self._rules: Any = trueskill.TrueSkill()
        self._skills: dict[str, Any] = {method: self._rules.create_rating() for method in methods}

    def play(self, one: str, other: str, verdict: Verdict) -> None:
        """Update both after a game."""
        winner, loser = (other, one) if verdict == "second" else (one, other)
        drawn = verdict in ("tie", "bad")
        after = self._rules.rate([(self._skills[winner],), (self._skills[loser],)], ranks=[0, 0 if drawn else 1])
        (self._skills[winner],), (self._skills[loser],) = after

    def of(self, method: str) -> tuple[float, float]:
        """mu and sigma."""
        skill = self._skills[method]
        return float(skill.mu), float(skill.sigma)


def duels(methods: Sequence[str], pairs: Mapping[str, Pair], votes: Iterable[Vote]) -> list[Duel]:
    """Every two methods that were compared, in the methods' order."""
    tallies = {two: Tally() for two in combinations(methods, 2)}
    for one, other, verdict, question in games(pairs, votes):
        if (one, other) in tallies:
            tallies[one, other].add(verdict, question)
        else:
            tallies[other, one].add(_TURNED[verdict], question)
    return [Duel(*two, tally) for two, tally in tallies.items() if tally.votes]

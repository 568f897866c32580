"""What one judge sees and says. Nothing in it tells which method wrote an answer."""

from __future__ import annotations

from typing import Any, Literal

from reground.arena.pairing import is_turned, next_pair
from reground.arena.pairs import Contest
from reground.arena.votes import Verdict, Vote, Votes

Said = Literal["a", "b", "tie", "bad"]
"""A verdict in the order in which the judge saw the answers."""


class Stale(Exception):
    """The pair is not one that this judge could be looking at: the page is older than the file or the runs."""


class Booth:
    """Shows the pairs of a contest to people by name, and keeps what they say."""

    def __init__(self, contest: Contest, votes: Votes) -> None:
        self._pairs = contest.pairs
        self._votes = votes

    def show(self, judge: str) -> dict[str, Any]:
        """The judge's next pair (None when all are judged), the round, and how many of the pairs are judged in it."""
        current = self._votes.round_of(judge)
        voted = self._votes.voted(judge, "person", current) & self._pairs.keys()
        skipped = self._votes.skipped(judge, current)
        chosen = next_pair(
            self._pairs,
            voted=voted,
            skipped=skipped,
            counts=self._votes.counts("person"),
            secret=self._votes.secret,
            judge=judge,
            round=current,
        )
        return {
            "judge": judge,
            "round": current,
            "done": len(voted),
            "total": len(self._pairs),
            "again": chosen in skipped,
            "pair": None if chosen is None else self._shown(judge, chosen, current),
        }

    def _shown(self, judge: str, id: str, round: int) -> dict[str, str]:
        pair = self._pairs[id]
        sides = (pair.second, pair.first) if self._turned(judge, id, round) else (pair.first, pair.second)
        return {"id": id, "question": pair.text, "a": sides[0], "b": sides[1]}

    def _turned(self, judge: str, id: str, round: int) -> bool:
        return is_turned(self._votes.secret, judge, id, round)

    def vote(self, judge: str, id: str, round: int, said: Said) -> dict[str, Any]:
        """Keep a verdict, then show the next pair. The same vote twice is kept once. Raises Stale."""
        self._check(judge, id, round)
        better: dict[Said, Verdict] = {"a": "first", "b": "second", "tie": "tie", "bad": "bad"}
        if self._turned(judge, id, round):
            better |= {"a": "second", "b": "first"}
        self._votes.add(Vote(id, self._pairs[id].question, judge, "person", round, better[said]))
        return self.show(judge)

    def skip(self, judge: str, id: str, round: int) -> dict[str, Any]:
        """Put a pair behind all others of the round, then show the next one. Raises Stale."""
        self._check(judge, id, round)
        self._votes.skip(id, judge, round)
        return self.show(judge)

    def new_round(self, judge: str, round: int) -> dict[str, Any]:
        """Leave `round` and begin the next with all pairs. The same request twice begins one round."""
        if round == self._votes.round_of(judge):
            self._votes.begin_round(judge, round + 1)
        return self.show(judge)

    def _check(self, judge: str, id: str, round: int) -> None:
        if id not in self._pairs or round != self._votes.round_of(judge):
            raise Stale

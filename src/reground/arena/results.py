"""What the votes say, as tables, as data and as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from reground.arena.agreement import Agreement, agreements
from reground.arena.pairs import Contest
from reground.arena.ratings import Duel, Rating, Tally, duels, ratings
from reground.arena.votes import Kind, Vote
from reground.evaluation.exports import csv_text
from reground.evaluation.tables import NOTHING, Table, interval, number

Judges = Literal["people", "models", "all"]
FORMAT = 1
_GROUPS: dict[str, Kind] = {"people": "person", "models": "model"}


@dataclass(frozen=True)
class Group:
    """The results by people, or by models. votes counts verdicts; a vote on an answer of two methods rates both."""

    who: str
    votes: int
    judges: tuple[str, ...]
    questions: int
    ratings: list[Rating]
    duels: list[Duel]


@dataclass(frozen=True)
class Results:
    """Everything that is said about a contest. other: votes in the file on answers that are not in these runs."""

    contest: Contest
    groups: list[Group]
    agreements: list[Agreement]
    other: int


def results(contest: Contest, votes: Sequence[Vote], judges: Judges = "all") -> Results:
    """The results of the votes on the contest's pairs, for people and models apart."""
    wanted = {who: kind for who, kind in _GROUPS.items() if judges in (who, "all")}
    counted = [vote for vote in votes if vote.pair in contest.pairs]
    groups = [_group(contest, who, [vote for vote in counted if vote.kind == kind]) for who, kind in wanted.items()]
    shown = [vote for vote in counted if vote.kind in wanted.values()]
    return Results(contest, [group for group in groups if group.votes], agreements(shown), len(votes) - len(counted))


def _group(contest: Contest, who: str, votes: Sequence[Vote]) -> Group:
    return Group(
        who,
        len(votes),
        tuple(dict.fromkeys(vote.judge for vote in votes)),
        len({vote.question for vote in votes}),
        ratings(contest.methods, contest.pairs, votes),
        duels(contest.methods, contest.pairs, votes),
    )


def tables(found: Results) -> list[Table]:
    """The ratings, the methods against each other, and the agreement of judges."""
    headers = ["judges", "method", "TrueSkill", "sigma", "votes", "won", "lost", "ties", "both bad", "win rate", "95 %"]
    rows = [
        [group.who, each.method, f"{each.mu:.2f}", f"{each.sigma:.2f}", *_cells(each.tally)]
        for group in found.groups
        for each in group.ratings
    ]
    duel_headers = ["judges", "method", "against", *headers[4:]]
    against = [[g.who, each.method, each.other, *_cells(each.tally)] for g in found.groups for each in g.duels]
    agreed = [[each.who, str(each.compared), number(each.same), number(each.alpha)] for each in found.agreements]
    every = [
        Table("Ratings", headers, rows, words=2),
        Table("Each against each", duel_headers, against, words=3),
        Table("Agreement", ["between", "pairs", "equal verdicts", "Krippendorff's alpha"], agreed, words=1),
    ]
    return [table for table in every if table.rows]


def _cells(tally: Tally) -> list[str]:
    found = tally.interval()
    counts = (tally.votes, tally.wins, tally.losses, tally.ties, tally.bad)
    return [*map(str, counts), number(tally.win_rate) if tally.votes else NOTHING, interval(found.low, found.high)]


def notes(found: Results) -> list[str]:
    """How much was judged, and what the columns mean."""
    of, group_lines = found.contest, []
    for group in found.groups:
        judges = _count(len(group.judges), "judge")
        group_lines.append(
            f"{group.who}: {_count(group.votes, 'vote')} of {judges} on {group.questions} of "
            f"{_count(of.questions, 'question')}."
        )
    lines = group_lines or ["No votes yet on these answers."]
    if group_lines:
        lines.append("A tie and two bad answers are a draw; the win rate counts it as half a win.")
        lines.append("The interval is a bootstrap over questions of the mean win rate at each.")
    if of.same:
        lines.append(f"{_count(of.same, 'pair')} of equal answers not shown.")
    if of.missing:
        lines.append(f"{_count(of.missing, 'answer')} missing: there is nothing to compare.")
    if found.other:
        lines.append(f"{_count(found.other, 'vote')} in the file on other answers, not counted.")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def as_data(found: Results) -> dict[str, JsonValue]:
    """The results as one object for JSON, with every number unrounded."""
    return {
        "format": FORMAT,
        "methods": list(found.contest.methods),
        "questions": found.contest.questions,
        "pairs": len(found.contest.pairs),
        "equal_pairs": found.contest.same,
        "missing_answers": found.contest.missing,
        "other_votes": found.other,
        "groups": [_group_data(group) for group in found.groups],
        "agreement": [
            {"between": each.who, "pairs": each.compared, "equal": each.same, "alpha": each.alpha}
            for each in found.agreements
        ],
    }


def _group_data(group: Group) -> dict[str, JsonValue]:
    return {
        "judges": group.who,
        "names": list(group.judges),
        "votes": group.votes,
        "questions": group.questions,
        "ratings": [
            {"method": each.method, "mu": each.mu, "sigma": each.sigma, **_tally_data(each.tally)}
            for each in group.ratings
        ],
        "duels": [{"method": each.method, "against": each.other, **_tally_data(each.tally)} for each in group.duels],
    }


def _tally_data(tally: Tally) -> dict[str, JsonValue]:
    counts = {"votes": tally.votes, "wins": tally.wins, "losses": tally.losses, "ties": tally.ties}
    found = tally.interval()
    return {**counts, "both_bad": tally.bad, "win_rate": tally.win_rate, "low": found.low, "high": found.high}


def as_csv(found: Results) -> str:
    """A line for each method and group of judges, with unrounded numbers."""
    return csv_text(
        {
            "judges": group.who,
            "method": each.method,
            "mu": each.mu,
            "sigma": each.sigma,
            **_tally_data(each.tally),
            "group_votes": group.votes,
            "group_judges": len(group.judges),
            "group_questions": group.questions,
        }
        for group in found.groups
        for each in group.ratings
    )

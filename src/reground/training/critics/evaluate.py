"""Measures critics on held-out pairs: how often they order them right, how sure they should have been, and baselines.

A question's pairs are not independent of each other: intervals resample questions (`evaluation.statistics`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import Field

from reground.core.errors import ConfigurationError
from reground.core.language import Value
from reground.critics import Kind
from reground.critics.scorers import FolderScorer, Scorer, mix_of, read_manifest
from reground.evaluation.report import Table, interval, number
from reground.evaluation.results import write_text
from reground.evaluation.statistics import Interval, bootstrap_interval, compare, question_means
from reground.training.critics.fit import mixed_gaps, pairs_of
from reground.training.critics.pairs import about, data_fingerprint, gaps
from reground.training.rows import Preference

BINS = 5
"""Bins of the calibration, between a probability of one half and one."""
RANDOM, FIRST, LIKELY, CONSTANT = "random", "first", "log-probability", "constant"
UNMIXED, UNREAD = "text alone", "features alone"

Wins: TypeAlias = Sequence[float]
"""For each pair 1 where it is ordered right, 0 where wrong, 0.5 where it is a tie."""


class Bin(Value):
    """Pairs on whose order a critic was about as sure. said: the mean probability; won: the share ordered right."""

    pairs: int
    said: float
    won: float


class Rate(Value):
    """How often pairs are ordered right. by_question: the mean of the questions' rates, with its 95 % interval.

    behind, p: of another way to order the same pairs, by how much the critic is better, and the two-sided p.
    """

    pairs: float
    by_question: Interval
    behind: Interval | None = None
    p: float | None = None


class KindReport(Value):
    """What was measured of the critic of one kind.

    error: the expected calibration error, the mean distance between what was said and what was won. mix: what the
    text's score and other features count.
    """

    pairs: int
    questions: int
    critic: Rate
    error: float
    bins: tuple[Bin, ...]
    baselines: dict[str, Rate]
    mix: dict[str, float] = Field(default_factory=dict)


class CriticReport(Value):
    """eval.json. constant: the best constant sub-goal of each state in the training pairs, as a critic's name."""

    engine: str
    base: str
    weights: dict[str, str]
    kinds: dict[Kind, KindReport] = Field(default_factory=dict)
    constant: str | None = None


def evaluate(out: Path, *, on_kind: Callable[[Kind, int], None] = lambda kind, pairs: None) -> CriticReport:
    """Measure the critics of a training folder, and write eval.json.

    on_kind: called before each kind is measured, with the number of its held-out pairs. Kinds without such pairs are
    left out. Raises ConfigurationError where there is no critic, or one that was fitted to other pairs.
    """
    folder, manifest = read_manifest(out)
    if manifest.data and manifest.data != data_fingerprint(out):
        raise ConfigurationError(
            f"the critic in {folder} was fitted to other pairs than those in {out / 'data'}, and may know the "
            "questions that are held out now: fit it again with --fresh"
        )
    scorer = FolderScorer(folder, manifest)
    table = constant_goals(pairs_of(out, "subgoal"))
    kinds: dict[Kind, KindReport] = {}
    for kind in manifest.kinds:
        if rows := pairs_of(out, kind, held_out=True):
            on_kind(kind, len(rows))
            kinds[kind] = measure(rows, scorer, table, mix_of(manifest, kind))
    constant = "fixed:" + ",".join(f"{stage}={goal}" for stage, goal in sorted(table.items())) if table else None
    report = CriticReport(
        engine=manifest.engine, base=manifest.base, weights=manifest.weights, kinds=kinds, constant=constant
    )
    write_text(out / "eval.json", report.model_dump_json(indent=2) + "\n")
    return report


def held_out_texts(out: Path) -> dict[Kind, int]:
    """The number of texts that evaluating scores, by kind."""
    _, manifest = read_manifest(out)
    return {kind: 2 * len(pairs_of(out, kind, held_out=True)) for kind in manifest.kinds}


def measure(
    rows: Sequence[Preference], scorer: Scorer, table: Mapping[str, str], mix: Mapping[str, float] | None = None
) -> KindReport:
    """A critic and the baselines on the pairs of one kind.

    table: a sub-goal for each stage. mix: the critic's weights of features; each question is measured by such weights
    that were fitted to the others.
    """
    text = gaps(rows, scorer)
    gap = mixed_gaps(rows, text) if mix else text
    wins = [_won(each, 0.0) for each in gap]
    # the probability that the critic gave to its own order
    bins = calibration([(1 / (1 + math.exp(-min(abs(each), 700))), won) for each, won in zip(gap, wins, strict=True)])
    others = baselines(rows, table)
    if mix:
        others[UNMIXED] = [_won(each, 0.0) for each in text]
        others[UNREAD] = [_won(each, 0.0) for each in mixed_gaps(rows, [0.0] * len(rows))]
    return KindReport(
        pairs=len(rows),
        questions=len({row.question for row in rows}),
        critic=_rate(rows, wins),
        error=sum(each.pairs * abs(each.said - each.won) for each in bins) / len(rows),
        bins=bins,
        baselines={name: _rate(rows, other, wins) for name, other in others.items()},
        mix=dict(mix or {}),
    )


def baselines(rows: Sequence[Preference], table: Mapping[str, str]) -> dict[str, Wins]:
    """How others order the pairs.

    random: by lot. first: in the order of the planner, for documents that of the retriever. log-probability: what the
    generator was surer of, where it told. constant: the sub-goal of the table.
    """
    pairs = [(about(row, "chosen"), about(row, "rejected")) for row in rows]
    wins: dict[str, Wins] = {
        RANDOM: [0.5] * len(rows),
        FIRST: [_won(-one.get("place", 0), -other.get("place", 0)) for one, other in pairs],
    }
    sure = [(one.get("logprob"), other.get("logprob")) for one, other in pairs]
    if any(None not in both for both in sure):
        wins[LIKELY] = [0.5 if one is None or other is None else _won(one, other) for one, other in sure]
    if table and rows[0].kind == "subgoal":
        goals = [table.get(str(row.extra.get("stage"))) for row in rows]
        wins[CONSTANT] = [
            _won(one.get("goal") == goal, other.get("goal") == goal)
            for goal, (one, other) in zip(goals, pairs, strict=True)
        ]
    return wins


def constant_goals(rows: Iterable[Preference]) -> dict[str, str]:
    """The sub-goal that wins most pairs, less those that it loses, in states of each stage."""
    net: dict[str, Counter[str]] = {}
    for row in rows:
        counts = net.setdefault(str(row.extra.get("stage")), Counter())
        counts[str(about(row, "chosen").get("goal"))] += 1
        counts[str(about(row, "rejected").get("goal"))] -= 1
    return {stage: max(sorted(counts), key=counts.__getitem__) for stage, counts in sorted(net.items())}


def calibration(sure: Sequence[tuple[float, float]]) -> tuple[Bin, ...]:
    """Pairs binned by the probability that the critic gave to its own order; empty bins are left out."""
    groups: dict[int, list[tuple[float, float]]] = {}
    for chance, won in sure:
        groups.setdefault(min(BINS - 1, int((chance - 0.5) * 2 * BINS)), []).append((chance, won))
    return tuple(
        Bin(pairs=len(group), said=sum(s for s, _ in group) / len(group), won=sum(w for _, w in group) / len(group))
        for _, group in sorted(groups.items())
    )


def _won(one: float, other: float) -> float:
    return 1.0 if one > other else 0.0 if one < other else 0.5


def _rate(rows: Sequence[Preference], wins: Wins, critic: Wins | None = None) -> Rate:
    """How often an order is right; with the critic's, by how much that is better."""

    def by_question(values: Wins) -> dict[str, float]:
        each: dict[str, list[float]] = {}
        for row, won in zip(rows, values, strict=True):
            each.setdefault(row.question, []).append(won)
        return question_means(each)

    means = by_question(wins)
    rate = Rate(pairs=sum(wins) / len(wins), by_question=bootstrap_interval([*means.values()]))
    if critic is None:
        return rate
    against = compare(by_question(critic), means)
    return rate.model_copy(update={"behind": against.difference, "p": against.p})


def pairs_table(data: Mapping[str, Any]) -> Table:
    """What became of the pairs of siblings. data: the content of data/report.json."""
    reasons = list(next(iter(data["kinds"].values()))["dropped"])
    rows = [
        [kind, *(str(counts["kept"][part]) for part in ("training", "held out"))]
        + [str(counts["dropped"][why]) for why in reasons]
        for kind, counts in data["kinds"].items()
    ]
    title = f"Pairs of {data['trees']} trees: kept, then dropped by the reason"
    return Table(title, ["Kind", "training", "held out", *reasons], rows, words=1)


def report_tables(report: CriticReport) -> list[Table]:
    """How often held-out pairs are ordered right, against the baselines; what each feature counts, where any is
    weighed; and the calibration of the scores.

    right: the mean of the questions' shares, with its interval. of pairs: the share of all pairs. error: the expected
    calibration error.
    """
    rates, trust, bins = [], [], []
    for kind, measured in report.kinds.items():
        for name, rate in {"critic": measured.critic, **measured.baselines}.items():
            means, behind, p = rate.by_question, rate.behind, rate.p
            line = [kind, name, number(means.mean), interval(means.low, means.high), number(rate.pairs), "", "", ""]
            if behind is not None and p is not None:
                line[5:] = [number(behind.mean, sign=True), interval(behind.low, behind.high), f"{p:.3f}"]
            rates.append(line)
        trust.append([kind, str(measured.pairs), str(measured.questions), number(measured.error)])
        bins += [[kind, f"{each.said:.2f}", f"{each.won:.2f}", str(each.pairs)] for each in measured.bins]
    mixes = {kind: measured.mix for kind, measured in report.kinds.items() if measured.mix}
    features = list(dict.fromkeys(name for mix in mixes.values() for name in mix))
    counting = [
        [kind, *("" if name not in mix else number(mix[name], sign=True) for name in features)]
        for kind, mix in mixes.items()
    ]
    headers = ["Kind", "Order by", "right", "95 %", "of pairs", "critic better", "95 %", "p"]
    return [
        Table("Held-out pairs that are ordered right", headers, rates, words=2),
        *([Table("What each feature counts", ["Kind", *features], counting, words=1)] if mixes else []),
        Table("Critics", ["Kind", "pairs", "questions", "error"], trust, words=1),
        Table("Calibration", ["Kind", "said", "won", "pairs"], bins, words=1),
    ]

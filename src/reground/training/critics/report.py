"""The tables of a training folder: what became of the pairs, and how the critics order those held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reground.evaluation.statistics import Interval
from reground.evaluation.tables import Table, interval, number
from reground.training.critics.evaluate import Baseline, CriticReport, KindReport
from reground.training.critics.fit import Estimate


def pairs_table(data: Mapping[str, Any]) -> Table:
    """What became of the pairs of siblings. data: the content of data/report.json."""
    reasons = list(next(iter(data["kinds"].values()))["dropped"])
    rows = [
        [kind, *(str(counts["kept"][part]) for part in ("training", "held out"))]
        + [str(counts["dropped"][why]) for why in reasons]
        for kind, counts in data["kinds"].items()
    ]
    title = f"Pairs of {data['trees']} trees"
    return Table(title, ["Kind", "training", "held out", *(f"dropped: {why}" for why in reasons)], rows, words=1)


def rates_table(report: CriticReport) -> Table:
    """How often held-out pairs are ordered right.

    right: the mean of the questions' shares, with its interval. of pairs: the share of all pairs. swapped: the share of
    pairs whose order is the same when the two are given the other way round.
    """
    rows = []
    for kind, found in report.kinds.items():
        rows.append([kind, "critic", *_rate(found.critic.by_question, found.critic.pairs), *_size(found), "", ""])
        for name, other in found.baselines.items():
            rows.append([kind, name, *_rate(other.by_question, other.pairs), "", "", "", *_difference(other)])
    headers = [
        "Kind",
        "Order by",
        "right",
        "95 %",
        "of pairs",
        "pairs",
        "questions",
        "swapped",
        "critic better by",
        "p",
    ]
    return Table("Held-out pairs that are ordered right", headers, rows, words=2)


def calibration_table(report: CriticReport) -> Table:
    """How sure the critics were of their order, and how often they were right."""
    rows = [
        [kind, f"{each.said:.2f}", f"{each.won:.2f}", str(each.pairs), f"{found.error:.3f}"]
        for kind, found in report.kinds.items()
        for each in found.bins
    ]
    return Table("Calibration", ["Kind", "said", "won", "pairs", "error of the kind"], rows, words=1)


def cost_table(found: Sequence[Estimate]) -> Table:
    """What a fit costs: seconds by two measured steps, and the megabytes of weights and optimizer."""
    rows = [
        [each.name, str(each.pairs), str(each.steps), f"{each.seconds:.0f}", f"{each.bytes / 1e6:.0f}"]
        for each in found
    ]
    headers = ["Model", "pairs", "steps", "seconds", "MB"]
    return Table("What a fit costs, about", headers, rows, words=1)


def _rate(found: Interval, pairs: float) -> list[str]:
    return [number(found.mean), interval(found.low, found.high), number(pairs)]


def _size(found: KindReport) -> list[str]:
    return [str(found.pairs), str(found.questions), number(found.swapped)]


def _difference(other: Baseline) -> list[str]:
    span = interval(other.behind.low, other.behind.high)
    return [f"{number(other.behind.mean, sign=True)} {span}", f"{other.p:.3f}"]

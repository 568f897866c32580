"""The tables of a training folder: what became of the pairs, and how the critics order those held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reground.evaluation.tables import Table, interval, number
from reground.training.critics.evaluate import CriticReport, Rate
from reground.training.critics.fit import Estimate


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


def rates_table(report: CriticReport) -> Table:
    """How often held-out pairs are ordered right, and by how much the critics are better than the baselines.

    right: the mean of the questions' shares, with its interval. of pairs: the share of all pairs.
    """
    rows = []
    for kind, found in report.kinds.items():
        rows.append([kind, "critic", *_rate(found.critic), "", "", ""])
        for name, other in found.baselines.items():
            behind = [number(other.behind.mean, sign=True), interval(other.behind.low, other.behind.high)]
            rows.append([kind, name, *_rate(other), *behind, f"{other.p:.3f}"])
    headers = ["Kind", "Order by", "right", "95 %", "of pairs", "critic better", "95 %", "p"]
    return Table("Held-out pairs that are ordered right", headers, rows, words=2)


def trust_table(report: CriticReport) -> Table:
    """On how much the rates rest, and how far to trust the scores.

    swapped: the share of pairs whose order is the same when the two are given the other way round. error: the expected
    calibration error.
    """
    rows = [
        [kind, str(found.pairs), str(found.questions), number(found.swapped), number(found.error)]
        for kind, found in report.kinds.items()
    ]
    return Table("Critics", ["Kind", "pairs", "questions", "swapped", "error"], rows, words=1)


def calibration_table(report: CriticReport) -> Table:
    """How sure the critics were of their order, by the sigmoid of the scores' difference, and how often they won."""
    rows = [
        [kind, f"{each.said:.2f}", f"{each.won:.2f}", str(each.pairs)]
        for kind, found in report.kinds.items()
        for each in found.bins
    ]
    return Table("Calibration", ["Kind", "said", "won", "pairs"], rows, words=1)


def mix_table(report: CriticReport) -> Table | None:
    """What the score of the text and each other feature count, where they are weighed; None where nowhere."""
    mixes = {kind: found.mix for kind, found in report.kinds.items() if found.mix}
    if not mixes:
        return None
    names = list(dict.fromkeys(name for mix in mixes.values() for name in mix))
    rows = [
        [kind, *("" if name not in mix else number(mix[name], sign=True) for name in names)]
        for kind, mix in mixes.items()
    ]
    return Table("What each feature counts", ["Kind", *names], rows, words=1)


def cost_table(found: Sequence[Estimate]) -> Table:
    """What a fit costs: seconds by two measured steps, and the megabytes of weights and optimizer."""
    rows = [
        [each.name, *map(str, (each.pairs, each.steps, each.tokens, round(each.seconds), round(each.bytes / 1e6)))]
        for each in found
    ]
    headers = ["Model", "pairs", "steps", "tokens", "seconds", "MB"]
    return Table("What a fit costs, about", headers, rows, words=1)


def _rate(found: Rate) -> list[str]:
    span = found.by_question
    return [number(span.mean), interval(span.low, span.high), number(found.pairs)]

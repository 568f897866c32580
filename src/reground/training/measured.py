"""What is measured question by question, with intervals and paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import JsonValue

from reground.evaluation.statistics import Comparison, Interval, bootstrap_interval, compare


@dataclass(frozen=True)
class Measured:
    """Something measured. scores: for each metric, the value of each question that has one, by its id."""

    name: str
    scores: Mapping[str, Mapping[str, float]]

    def interval(self, metric: str) -> Interval:
        """The mean over the questions."""
        return bootstrap_interval(list(self.scores[metric].values()))

    def against(self, other: Self, metric: str) -> Comparison:
        """The paired difference to another one on the same questions."""
        return compare(self.scores[metric], other.scores[metric])


def figure(mean: float | None) -> str:
    """A mean as a table shows it."""
    return "-" if mean is None else f"{mean:.3f}"


def difference(comparison: Comparison) -> str:
    """A difference as a table shows it: its mean, interval and p."""
    found = comparison.difference
    if found.mean is None:
        return ""
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}], p {comparison.p:.3f}"


def recorded(comparison: Comparison) -> dict[str, JsonValue]:
    """A difference as plain data."""
    return {**comparison.difference.model_dump(mode="json"), "p": comparison.p, "questions": comparison.questions}

"""What a question costs on average: tokens, seconds and USD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reground.evaluation.records import Summary

Measure = Literal["tokens", "seconds", "usd"]
MEASURES: tuple[Measure, ...] = ("tokens", "seconds", "usd")


@dataclass(frozen=True)
class Cost:
    """The mean of a question, failed ones included. usd: None where no price is known."""

    tokens: float
    seconds: float
    usd: float | None = None

    def by(self, measure: Measure) -> float | None:
        """One of the three."""
        value: float | None = getattr(self, measure)
        return value

    def words(self) -> str:
        """As in "3,120 tokens, 4.1 s and 0.00120 USD a question"."""
        parts = [f"{self.tokens:,.0f} tokens", f"{self.seconds:.1f} s"]
        parts += [] if self.usd is None else [f"{self.usd:.5f} USD"]
        return f"{', '.join(parts[:-1])} and {parts[-1]} a question"


def cost_of(summary: Summary) -> Cost:
    """The cost of a question of a run."""
    runs = max(1, summary.runs)
    usd = None if summary.usage.usd is None else summary.usage.usd / runs
    return Cost(summary.usage.tokens / runs, summary.seconds / runs, usd)

"""Estimates the cost of a run in advance. No model is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from reground.core.language import Message, estimate_tokens
from reground.evaluation.records import Record
from reground.evaluation.task import Example

SHORTEST_ANSWER = 32
"""Completion tokens of the cheapest question: one call with a short answer."""

Pricing = Callable[[int, int, int], float]
"""USD for prompt, cached and completion tokens."""


@dataclass(frozen=True)
class Estimate:
    """The remaining cost of one run.

    runs: remaining questions x repeats. low, high: tokens; high is None without a budget.
    usd_low, usd_high: None without a price or a bound. seconds: None without a speed.
    measured: the number of finished questions behind the figures; 0 means that they are bounds.
    """

    label: str
    runs: int
    low: int
    high: int | None
    usd_low: float | None
    usd_high: float | None
    seconds: float | None
    measured: int


def estimate(
    label: str,
    examples: Sequence[Example],
    *,
    repeats: int,
    budget: int | None,
    done: Sequence[Record],
    instruction: str = "",
    usd: Pricing | None = None,
    speed: float | None = None,
    concurrency: int = 1,
) -> Estimate:
    """Estimate a run from its finished questions, or else from its questions and its budget.

    done: its records. usd: the price. speed: total tokens per second; by default the measured seconds per question.
    """
    finished = {record.id for record in done}
    left = sum(f"{example.id}~{repeat}" not in finished for repeat in range(repeats) for example in examples)
    paid = [record for record in done if record.failure is None and record.usage.calls]
    if paid:
        return _measured(label, left, paid, usd, speed, concurrency)
    prompt = round(
        _mean(estimate_tokens((Message(role="user", content=f"{e.question}{instruction}"),)) for e in examples)
    )
    low = left * (prompt + SHORTEST_ANSWER)
    high = None if budget is None else max(low, left * budget)
    return Estimate(
        label,
        left,
        low,
        high,
        None if usd is None else left * usd(prompt, 0, SHORTEST_ANSWER),
        None if usd is None or high is None else max(usd(high, 0, 0), usd(0, 0, high)),
        None if speed is None else (low if high is None else high) / speed,
        0,
    )


def _measured(
    label: str, left: int, paid: Sequence[Record], usd: Pricing | None, speed: float | None, concurrency: int
) -> Estimate:
    prompt, cached, completion = (
        left * fsum(getattr(record.usage, name) for record in paid) / len(paid)
        for name in ("prompt", "cached", "completion")
    )
    tokens = round(prompt + completion)
    price = None if usd is None else usd(round(prompt), round(cached), round(completion))
    seconds = tokens / speed if speed else left * _mean(record.seconds for record in paid) / concurrency
    return Estimate(label, left, tokens, tokens, price, price, seconds, len(paid))


def total(estimates: Sequence[Estimate]) -> Estimate:
    """The sum. A bound or price that one part lacks is None."""

    def add(parts: Iterable[float | None]) -> float | None:
        known = list(parts)
        return None if any(part is None for part in known) else fsum(part for part in known if part is not None)

    high = add(e.high for e in estimates)
    return Estimate(
        "all",
        sum(e.runs for e in estimates),
        sum(e.low for e in estimates),
        None if high is None else round(high),
        add(e.usd_low for e in estimates),
        add(e.usd_high for e in estimates),
        add(e.seconds for e in estimates),
        sum(e.measured for e in estimates),
    )


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return fsum(known) / len(known) if known else 0.0

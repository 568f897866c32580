"""Estimates the cost of a run in advance. No model is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from reground.core.language import Usage
from reground.evaluation.records import Record
from reground.evaluation.task import Example

Pricing = Callable[[int, int, int], float]
"""USD for prompt, cached and completion tokens."""


@dataclass(frozen=True)
class Estimate:
    """The remaining cost of one run; what is not known is None.

    runs: remaining questions x repeats. tokens, usd: what is expected. most_tokens, most_usd: what the budget allows.
    seconds: of the expected tokens. measured: the number of finished questions behind the figures; 0 means a dry run.
    """

    label: str
    runs: int
    tokens: int | None
    most_tokens: int | None
    usd: float | None
    most_usd: float | None
    seconds: float | None
    measured: int


def estimate(
    label: str,
    examples: Sequence[Example],
    *,
    repeats: int,
    budget: int | None,
    done: Sequence[Record],
    usual: Usage | None = None,
    usd: Pricing | None = None,
    speed: float | None = None,
    concurrency: int = 1,
) -> Estimate:
    """Estimate a run from its finished questions, or else from what a question usually takes.

    done: its records. usual: of one question, from a dry run. usd: the price. speed: tokens per second of all questions
    in work together; by default the measured seconds per question.
    """
    finished = {record.id for record in done}
    left = sum(f"{example.id}~{repeat}" not in finished for repeat in range(repeats) for example in examples)
    paid = [record for record in done if record.failure is None and record.usage.calls]
    spent, of = (sum((record.usage for record in paid), Usage()), len(paid)) if paid else (usual, 1)
    fits = 1.0 if spent is None or budget is None else min(1.0, budget * of / max(spent.tokens, 1))
    prompt, cached, completion = (
        round(fits * left / of * getattr(spent, name, 0)) for name in ("prompt", "cached", "completion")
    )
    tokens = None if spent is None else prompt + completion
    most = None if budget is None else left * budget
    seconds = None if speed is None or tokens is None else tokens / speed
    if paid and speed is None:
        seconds = left * _mean(record.seconds for record in paid) / concurrency
    return Estimate(
        label,
        left,
        tokens,
        most,
        None if usd is None or tokens is None else usd(prompt, cached, completion),
        None if usd is None or most is None else max(usd(most, 0, 0), usd(0, 0, most)),
        seconds,
        len(paid),
    )


def total(estimates: Sequence[Estimate]) -> Estimate:
    """The sum. What one part lacks is None."""

    def add(parts: Iterable[float | None]) -> float | None:
        known = list(parts)
        return None if any(part is None for part in known) else fsum(part for part in known if part is not None)

    tokens, most = add(e.tokens for e in estimates), add(e.most_tokens for e in estimates)
    return Estimate(
        "all",
        sum(e.runs for e in estimates),
        None if tokens is None else round(tokens),
        None if most is None else round(most),
        add(e.usd for e in estimates),
        add(e.most_usd for e in estimates),
        add(e.seconds for e in estimates),
        sum(e.measured for e in estimates),
    )


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return fsum(known) / len(known) if known else 0.0

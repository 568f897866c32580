"""The options that choose the questions of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

MEASURED = "questions"
"""The scheme of a file of one's own questions with answers: `questions:FILE`."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Which questions are taken, and how many at once."""

    limit: int | None = field(default=100, metadata={"min": 0})
    """How many questions, drawn by the seed; None is all."""

    seed: int = 0
    """Draws the questions and the samples."""

    concurrency: int = field(default=8, metadata={"short": "-j", "min": 1})
    """Questions in work at once."""


@dataclass(frozen=True, kw_only=True)
class Questions(Sample):
    """Which questions a run takes, and how it goes through them."""

    ids: str = ""
    """Only these: ids, 11-175 (by number), 1:164 (by place), a subset's name; commas between."""

    repeats: int = field(default=1, metadata={"min": 1})
    """Runs of each question."""

    retry_failed: bool = False
    """Run failed questions again."""

    rescore: bool = False
    """Score finished questions again; calls no model."""

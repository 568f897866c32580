"""Which questions a rewriter learns from, and which others choose its best weights."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from reground.evaluation.task import Example
from reground.training.rows import Demonstration, read_rows


@dataclass(frozen=True)
class Divided:
    """Questions in two parts. known: how many of those for validation were in the warm-up's data."""

    learning: list[Example]
    validation: list[Example]
    known: int

    def __str__(self) -> str:
        """What is said of them."""
        parts = f"{len(self.learning)} questions to learn from, {len(self.validation)} others for validation"
        if not self.known:
            return f"{parts}, none of which was in the warm-up's data"
        return f"{parts}, {self.known} of which were in the warm-up's data, because it left too few"


def divided(drawn: Sequence[Example], *, validation: int, limit: int | None, known: Container[str]) -> Divided:
    """Questions as they were drawn, in two parts.

    Those for validation are the first that are not `known`, and where these are too few the last of the others. limit:
    how many of the rest to learn from; None means all.
    """
    fresh = [example for example in drawn if example.id not in known][:validation]
    others = [example for example in drawn if example.id in known]
    missing = validation - len(fresh)
    chosen = [*fresh, *others[len(others) - missing :]]
    aside = {example.id for example in chosen}
    return Divided([example for example in drawn if example.id not in aside][:limit], chosen, missing)


def learnt(rows: Path) -> set[str]:
    """The ids of the questions in a warm-up's data; none where there is no such file. Raises DataError."""
    return {row.question for row in read_rows(rows, Demonstration)} if rows.is_file() else set()

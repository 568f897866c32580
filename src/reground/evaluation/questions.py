"""The options that choose the questions of a run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reground.core.errors import ConfigurationError
from reground.evaluation.task import Example

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


SUBSETS: dict[str, dict[str, str]] = {
    "mbpp": {"paper": "11-175"},
    "mbpp_plus": {"paper": "1:164"},
    "gsm8k": {"paper": "1:200"},
    "gsm8k_cot": {"paper": "1:200"},
    "gsm_hard": {"paper": "1:200"},
    "gsm_hard_cot": {"paper": "1:200"},
    "writing": {"paper": "1:4"},
}
"""The questions that RAT (appendix A) and RaR (appendix A) measured, if not the whole task."""

_NUMBER = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")
_RANGE = re.compile(r"\A(\d{1,9})([-:])(\d{1,9})")


def select(task: str, examples: Sequence[Example], wanted: str) -> list[Example]:
    """The chosen questions, each once, in the data's order.

    Raises ConfigurationError for a part that chooses no question.
    """
    named, ids = SUBSETS.get(task, {}), {example.id for example in examples}
    chosen: set[str] = set()
    for part in filter(None, (piece.strip() for piece in wanted.split(","))):
        chosen |= {part} if part in ids else _part(task, examples, named.get(part, part))
    if not chosen:
        raise ConfigurationError(f"--ids {wanted!r} names no question: give ids, 11-175, 1:164 or a subset's name")
    return [example for example in examples if example.id in chosen]


def number_of(identity: str) -> int | None:
    """The first separate number in an id: 32 of HumanEval/32, 7 of gsm8k-test-0007; None without one."""
    found = _NUMBER.search(identity)
    return int(found[0]) if found else None


def _part(task: str, examples: Sequence[Example], part: str) -> set[str]:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ConfigurationError(f"{task} has no question with the id {part!r}; {_near(task, examples, part)}")
    first, last = int(match[1]), int(match[3])
    within: Callable[[int], bool] = range(first, last + 1).__contains__
    if match[2] == ":":
        found = {example.id for place, example in enumerate(examples, start=1) if within(place)}
        if last > len(examples):
            raise ConfigurationError(f"--ids {part}: {task} has {len(examples)} questions")
    else:
        found = {e.id for e in examples if (number := number_of(e.id)) is not None and within(number)}
    if not found:
        raise ConfigurationError(f"--ids {part}: no id of {task} has such a number; ids look like {examples[0].id}")
    return found


def _near(task: str, examples: Sequence[Example], part: str) -> str:
    near = difflib.get_close_matches(part, [example.id for example in examples], n=3, cutoff=0.6)
    subsets = ", ".join(SUBSETS.get(task, {}))
    said = f"did you mean {' or '.join(near)}?" if near else f"ids look like {examples[0].id}"
    return f"{said} Its subsets: {subsets}" if subsets else said

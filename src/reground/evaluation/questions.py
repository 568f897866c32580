"""Which questions a run takes, and the separation of training questions from measured ones: no question is both.

A task whose name ends in `_train` is a training split; every other task measures. A dataset's own training split is
used if it has one. Where there is one file and the papers name no split, a hash of the wording decides, so that neither
the file nor the id of a question matters.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reground.core.errors import ConfigurationError
from reground.evaluation.task import Example

MEASURED = "questions"
"""The scheme of a file of one's own questions with answers: `questions:FILE`."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Which questions are taken, and how many at once."""

    limit: int | None = field(default=100, metadata={"min": 0, "found": True})
    """How many questions, drawn by the seed; None is all."""

    seed: int = field(default=0, metadata={"found": True})
    """Draws the questions and the samples."""

    concurrency: int = field(default=8, metadata={"short": "-j", "min": 1, "found": True})
    """Questions in work at once."""


@dataclass(frozen=True, kw_only=True)
class Questions(Sample):
    """Which questions a run takes, and how it goes through them."""

    ids: str = ""
    """Only these: ids, 11-175 (by number), 1:164 (by place), a subset's name; commas between."""

    repeats: int = field(default=1, metadata={"min": 1, "found": True})
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

_NUMBER = re.compile(r"(?<![A-Za-z0-9])\d{1,18}+(?![A-Za-z0-9])")
_RANGE = re.compile(r"\A(\d{1,9})([-:])(\d{1,9})")


def select(task: str, examples: Sequence[Example], selection: str) -> list[Example]:
    """The chosen questions, each once, in the data's order.

    Raises ConfigurationError for a part that chooses no question.
    """
    subsets, ids = SUBSETS.get(task, {}), {example.id for example in examples}
    matches: set[str] = set()
    for part in filter(None, (piece.strip() for piece in selection.split(","))):
        matches |= {part} if part in ids else _part(task, examples, subsets.get(part, part))
    if not matches:
        raise ConfigurationError(f"--ids {selection!r} names no question: give ids, 11-175, 1:164 or a subset's name")
    return [example for example in examples if example.id in matches]


def number_of(identity: str) -> int | None:
    """The first separate number in an id: 32 of HumanEval/32, 7 of gsm8k-test-0007; None without one."""
    match = _NUMBER.search(identity)
    return int(match[0]) if match else None


def _part(task: str, examples: Sequence[Example], part: str) -> set[str]:
    """The questions of a range of numbers, 11-175, or of places, 1:164."""
    match, like = _RANGE.fullmatch(part), f"ids look like {examples[0].id}"
    if match is None:
        near = difflib.get_close_matches(part, [example.id for example in examples], n=3, cutoff=0.6)
        subsets = f"; its subsets: {', '.join(SUBSETS[task])}" if task in SUBSETS else ""
        like = f"did you mean {' or '.join(near)}?" if near else like
        raise ConfigurationError(f"{task} has no question with the id {part!r}; {like}{subsets}")
    first, last, places = int(match[1]), int(match[3]), match[2] == ":"
    numbers = ((place if places else number_of(each.id), each.id) for place, each in enumerate(examples, start=1))
    ids = {identity for number, identity in numbers if number is not None and first <= number <= last}
    if not ids or (places and last > len(examples)):
        raise ConfigurationError(f"--ids {part}: {task} has no such questions; it has {len(examples)}, and {like}")
    return ids


SUFFIX = "_train"
SHARE = 5
"""If a hash divides the questions, one in this many is for training."""


def is_file(task: str) -> bool:
    """Whether a task's name is that of the user's own file: `FILE.py` or `FILE.py:NAME`."""
    return task.partition(":")[0].endswith(".py")


def split_of(task: str) -> str:
    """The part of a task's name that says whether it trains: of `beir_train:DIR` the scheme, of `FILE.py:NAME` NAME."""
    return task.partition(":")[2 if is_file(task) else 0]


def is_training(task: str) -> bool:
    """Whether a task is a training split."""
    return split_of(task).endswith(SUFFIX)


def for_training(question: str) -> bool:
    """Whether the hash puts a question into the training part, ignoring case and white space."""
    digest = hashlib.sha256(" ".join(question.casefold().split()).encode()).digest()
    return int.from_bytes(digest[:8], "big") % SHARE == 0


def part(examples: Iterable[Example], *, training: bool) -> list[Example]:
    """The training part of some questions, or the part that measures."""
    return [example for example in examples if for_training(example.question) is training]

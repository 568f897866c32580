"""Separates training questions from measured ones. No question is both.

A task whose name ends in `_train` is a training split; every other task measures. A dataset's own training split is
used if it has one. Where there is one file and the papers name no split, a hash of the wording decides, so that neither
the file nor the id of a question matters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from reground.core.errors import ConfigurationError
from reground.evaluation.results import write_text
from reground.evaluation.task import Example, Task

SUFFIX = "_train"
SHARE = 5
"""If a hash divides the questions, one in this many is for training."""


def is_training(task: str) -> bool:
    """Whether a task is a training split. For a folder's task (`beir_train:DIR`) the scheme decides."""
    return _key(task).endswith(SUFFIX)


def require_training(task: str, known: Collection[str]) -> None:
    """Raise ConfigurationError for a task that measures, with the task to train on instead.

    known: the names of all tasks, those of folders as `scheme:DIR`.
    """
    if is_training(task):
        return
    splits = sorted(filter(is_training, known))
    own = [name for name in splits if _key(task).startswith(_key(name).removesuffix(SUFFIX))]
    if own:
        raise ConfigurationError(f"{task} is for measuring: train on {max(own, key=len)}")
    raise ConfigurationError(f"{task} is for measuring and has no training split: train on one of {', '.join(splits)}")


def is_file(task: str) -> bool:
    """Whether a task's name is that of the user's own file: `FILE.py` or `FILE.py:NAME`."""
    return task.partition(":")[0].endswith(".py")


def _key(task: str) -> str:
    return task.partition(":")[2 if is_file(task) else 0]


def for_training(question: str) -> bool:
    """Whether the hash puts a question into the training part, ignoring case and white space."""
    digest = hashlib.sha256(_wording(question).encode()).digest()
    return int.from_bytes(digest[:8], "big") % SHARE == 0


def part(examples: Iterable[Example], *, training: bool) -> list[Example]:
    """The training part of some questions, or the part that measures."""
    return [example for example in examples if for_training(example.question) is training]


def without(task: Task, taken: Iterable[Example]) -> Task:
    """The task without some questions, of whichever task they are; the task itself if it has none of them.

    Raises ConfigurationError where none is left.
    """
    wordings = {_wording(each.question) for each in taken}
    examples = task.examples()
    left = [each for each in examples if _wording(each.question) not in wordings]
    if examples and not left:
        raise ConfigurationError(f"all questions of {task.name} are used for something else: lower a limit")
    return task if len(left) == len(examples) else cast(Task, _Part(task, left))


@dataclass(frozen=True)
class _Part:
    """Some questions of a task, and all else of it."""

    task: Task
    left: Sequence[Example]

    def examples(self) -> Sequence[Example]:
        return self.left

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.task, name)


def _wording(question: str) -> str:
    return " ".join(question.casefold().split())


def record_questions(folder: Path, task: str, examples: Sequence[Example], *, file: str = "questions.json") -> None:
    """Write the training questions' ids to a file of the folder."""
    said = {"task": task, "ids": [example.id for example in examples]}
    write_text(folder / file, json.dumps(said, ensure_ascii=False, indent=2) + "\n")

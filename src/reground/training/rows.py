"""Training data as JSON lines in TRL's formats, so that other trainers can read them.

A preference has `prompt`, `chosen` and `rejected`; a demonstration has `messages`. The other fields say where a row is
from. Files are plain JSON without checksums, because users edit and mix them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import Field, JsonValue, ValidationError

from reground.core.errors import DataError
from reground.core.files import read_lines, replace_lines, without_sum
from reground.core.language import Message, Text, Value, first_fault
from reground.core.trajectory import Trajectory, read_trajectories
from reground.evaluation.results import Record, read_records, write_text
from reground.evaluation.task import Example


class Row(Value):
    """What every row has. question: the id of the question that it comes from; rows are split by it."""

    question: Text


class Preference(Row):
    """Two texts that may follow a prompt, the better one first (TRL's preference format).

    kind: what is judged, such as `doc`. margin: by how much the better one is better, as a difference of mean rewards.
    visits: simulations through the chosen and the rejected one, 0 where the label is not from a search. extra: what
    else is known, such as scores of a retriever.
    """

    kind: Text
    prompt: Text
    chosen: Text
    rejected: Text
    margin: float = 0.0
    visits: tuple[int, int] = (0, 0)
    extra: dict[str, JsonValue] = Field(default_factory=dict)


class Demonstration(Row):
    """A conversation whose last message is to be learned (TRL's conversational format)."""

    messages: tuple[Message, ...] = Field(min_length=1)
    extra: dict[str, JsonValue] = Field(default_factory=dict)


R = TypeVar("R", bound=Row)


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Replace a file by rows, one a line. Raises StorageError."""
    replace_lines(path, (row.model_dump_json().encode() + b"\n" for row in rows))


def write_demonstrations(path: Path, rows: Sequence[Demonstration]) -> None:
    """Write them as `write_rows` does. Raises DataError where there is nothing to teach."""
    if not rows:
        raise DataError("nothing to teach was found, so nothing is written", path=path)
    write_rows(path, rows)


def read_rows(path: Path, kind: type[R]) -> list[R]:
    """All rows of a file. Raises DataError, with the line, for one that is broken, and for a file without rows."""
    if not path.exists():
        raise DataError("there are no training data yet: run the stage that writes this file first", path=path)
    rows: list[R] = []
    for number, line in read_lines(path, "training data"):
        try:
            rows.append(kind.model_validate(json.loads(without_sum(line))))
        except ValueError as error:
            why = first_fault(error) if isinstance(error, ValidationError) else str(error)
            raise DataError(f"this is no {kind.__name__.lower()}: {why}", path=path, line=number) from None
    if not rows:
        raise DataError("there are no rows here: the stage that wrote this file found nothing to teach", path=path)
    return rows


def scored(folder: Path) -> Iterator[tuple[Record, Trajectory]]:
    """Every scored question of a run with its trajectory. Raises DataError where the folder holds no run."""
    records = {record.id: record for record in read_records(folder / "scores.jsonl")}
    for trajectory in read_trajectories(folder / "trajectories.jsonl"):
        if trajectory.id in records:
            yield records[trajectory.id], trajectory


def record_questions(folder: Path, task: str, examples: Sequence[Example], *, file: str = "questions.json") -> None:
    """Write the training questions' ids to a file of the folder."""
    content = {"task": task, "ids": [example.id for example in examples]}
    write_text(folder / file, json.dumps(content, ensure_ascii=False, indent=2) + "\n")

"""Trajectories: what a method did for one question, as versioned data that anyone can read back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationError, model_validator

from reground.core.answers import Answer
from reground.core.critic import Pair
from reground.core.errors import DataError
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling, Usage, Value
from reground.core.markers import cited_markers
from reground.core.programs import Execution, Program

BEFORE_CHECKS = "answer before checks"
"""The name of the note in which a method keeps, as `text`, the answer that its own checks saw first."""
VERSION = 2
"""Version 1 had no `shown` in its answers: their `citations` held the passages shown too."""


UNGROUNDED = "ungrounded"
"""The name of the note that an answer rests on no document, though the method had some to search."""


class _Step(Value):
    """What every step has: its place, its name and when it ended, in seconds since the question was begun."""

    span: str
    ordinal: int
    name: str
    elapsed: float = 0.0
    replayed: bool = False


class GenerateStep(_Step):
    """A call of a language model."""

    kind: Literal["generate"] = "generate"
    model: str
    messages: tuple[Message, ...]
    sampling: Sampling
    replies: tuple[Reply, ...]


class RetrieveStep(_Step):
    """A query and the passages that came back."""

    kind: Literal["retrieve"] = "retrieve"
    retriever: str
    query: str
    k: int
    passages: tuple[Passage, ...]


class ExecuteStep(_Step):
    """A generated program and its verdict."""

    kind: Literal["execute"] = "execute"
    sandbox: str
    program: Program
    execution: Execution


class ScoreStep(_Step):
    """What a critic in this process made of candidates; one that asks a model has its calls as steps instead."""

    kind: Literal["score"] = "score"
    critic: str
    pairs: tuple[Pair, ...]
    scores: tuple[float, ...]


class Candidate(Value):
    """One of the things that a choice was between.

    text: what would go on, as the model wrote it or as a passage reads. logprob: the mean natural logarithm of its
    tokens' probabilities, where the model gave any. score: what the chooser made of it, higher is better.
    discarded: why it was out of the question, if it was. data: what it was parsed to, or a passage's id.
    """

    text: str
    logprob: float | None = None
    score: float | None = None
    discarded: str | None = None
    data: dict[str, JsonValue] = Field(default_factory=dict)


class ChooseStep(_Step):
    """A choice between candidates: what a trainer of critics or of agents learns from.

    name: which kind of choice. by: who or what chose (a critic's name, "perplexity", "agreement"). context: the exact
    text that the choice saw besides the candidates. chosen: the index of the one that goes on, None where all were discarded.
    """

    kind: Literal["choose"] = "choose"
    by: str
    context: str
    candidates: tuple[Candidate, ...]
    chosen: int | None
    why: str = ""


class NoteStep(_Step):
    """Something a method wants to be seen: a repaired revision, a skipped step, the end of a budget."""

    kind: Literal["note"] = "note"
    data: dict[str, JsonValue] = Field(default_factory=dict)


Step = Annotated[
    GenerateStep | RetrieveStep | ExecuteStep | ScoreStep | ChooseStep | NoteStep, Field(discriminator="kind")
]


class Failure(Value):
    """Why there is no answer: the error's class and its message."""

    type: str
    message: str


class Trajectory(Value):
    """One question's whole story.

    `stopped` names the budget limit that ended the method early; the answer is then the best it had.
    `usage` counts replayed calls too; `seconds` is wall-clock time over all attempts.
    """

    version: Literal[2] = 2
    id: str
    question: str
    method: str
    steps: tuple[Step, ...] = ()
    answer: Answer | None = None
    failure: Failure | None = None
    stopped: str | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _from_version_1(cls, data: object) -> object:
        return _upgraded(data) if isinstance(data, dict) and data.get("version") == 1 else data


def _upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """Version 1 as version 2: what an answer was shown, apart from what its text cites."""
    answer = data.get("answer")
    if isinstance(answer, dict) and isinstance(shown := answer.get("citations", []), list):
        passages = [
            passage for passage in shown if isinstance(passage, dict) and isinstance(passage.get("marker"), int)
        ]
        most = max((passage["marker"] for passage in passages), default=0)
        cited = cited_markers(str(answer.get("text", "")), most=most)
        answer = {**answer, "citations": [each for each in passages if each["marker"] in cited], "shown": shown}
    return {**data, "version": VERSION, "answer": answer}


def append_trajectory(path: Path, trajectory: Trajectory) -> None:
    """Add one line to a JSONL file, written whole or not at all by one system call."""
    line = (trajectory.model_dump_json() + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Replace a JSONL file by these trajectories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as out:
        for trajectory in trajectories:
            out.write(trajectory.model_dump_json() + "\n")
    part.replace(path)


def read_trajectories(path: Path) -> Iterator[Trajectory]:
    """Read a JSONL file back. Raises DataError naming the file and the line."""
    try:
        lines = path.open(encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot read trajectories: {error.strerror}", path=path) from error
    number = 0
    with lines:
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _parse(line, path, number)
        except UnicodeDecodeError:
            raise DataError("not a file of trajectories: it is no text in UTF-8", path=path, line=number + 1) from None


def _parse(line: str, path: Path, number: int) -> Trajectory:
    try:
        return Trajectory.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(
            f"not a trajectory of version {VERSION}: {where}: {first['msg']}", path=path, line=number
        ) from None

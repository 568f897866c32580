"""Trajectories: what a method did for one question, as versioned data that anyone can read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from reground.core.answers import Answer
from reground.core.errors import DataError
from reground.core.evidence import Passage, Skipped
from reground.core.files import append_line, read_lines, replace_lines, with_sum, without_sum
from reground.core.language import (
    LATER,
    Json,
    Message,
    Number,
    Reply,
    Sampling,
    Text,
    Usage,
    Value,
    first_fault,
    storable,
)
from reground.core.programs import Execution, Program

BEFORE_CHECKS = "answer before checks"
"""The name of the note in which a method keeps, as `text`, the answer that its own checks saw first."""
VERSION = 2
UNCHECKED = "support not checked"
"""The name of the note that a budget ended before the sentences of the answer were checked."""
UNGROUNDED = "ungrounded"
"""The name of the note that an answer rests on no document, though the method had some to search."""


class Pair(Value):
    """A candidate, and the text that it would follow."""

    context: Text
    candidate: Text


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
    """A query and the passages that came back. skipped: what was found and could not be read."""

    kind: Literal["retrieve"] = "retrieve"
    retriever: str
    query: Text
    k: int
    passages: tuple[Passage, ...]
    skipped: Annotated[tuple[Skipped, ...], LATER] = ()


class ExecuteStep(_Step):
    """A generated program and its verdict."""

    kind: Literal["execute"] = "execute"
    sandbox: str
    program: Program
    execution: Execution


class ScoreStep(_Step):
    """The scores of a critic in this process. The calls of a critic that asks a model are steps of their own."""

    kind: Literal["score"] = "score"
    critic: str
    pairs: tuple[Pair, ...]
    scores: tuple[float, ...]


class Candidate(Value):
    """One of the things that a choice was between.

    text: the candidate as the model wrote it or as the passage reads. logprob: the mean natural logarithm of its
    tokens' probabilities, where the model gave any. score: the chooser's score, higher is better. discarded: why it
    could not be chosen, if so. data: what it was parsed to, or a passage's id.
    """

    text: Text
    logprob: Number | None = None
    score: Number | None = None
    discarded: Text | None = None
    data: dict[Text, Json] = Field(default_factory=dict)


class ChooseStep(_Step):
    """A choice between candidates, from which critics and agents can be trained.

    name: which kind of choice. by: who or what chose (a critic's name, "perplexity", "agreement"). context: the exact
    text that the choice saw besides the candidates. chosen: the index of the one that goes on, None where all were
    discarded.
    """

    kind: Literal["choose"] = "choose"
    by: str
    context: Text
    candidates: tuple[Candidate, ...]
    chosen: int | None
    why: Text = ""


class NoteStep(_Step):
    """Something that a method reports: a repaired revision, a skipped step, the end of a budget."""

    kind: Literal["note"] = "note"
    data: dict[Text, Json] = Field(default_factory=dict)


Step = Annotated[
    GenerateStep | RetrieveStep | ExecuteStep | ScoreStep | ChooseStep | NoteStep, Field(discriminator="kind")
]


class Failure(Value):
    """Why there is no answer: the error's class and its message."""

    type: Text
    message: Text


class Trajectory(Value):
    """Everything that a method did for one question.

    stopped: the budget limit that ended the method; the answer is then the last one it proposed. None where the method
    answered by itself, even if a limit shortened its work: the note "ended early" says so.
    usage: includes replayed calls. seconds: wall-clock time over all attempts.
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

    @property
    def is_cut(self) -> bool:
        """Whether the limit on a reply's length cut a reply of the last call."""
        calls = [step for step in self.steps if isinstance(step, GenerateStep)]
        return bool(calls) and any(reply.finish_reason == "length" for reply in calls[-1].replies)


def append_trajectory(path: Path, trajectory: Trajectory) -> None:
    """Add one line to a JSONL file, whole or not at all. Raises StorageError."""
    append_line(path, _text(trajectory))


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Replace a JSONL file by these trajectories. Raises StorageError, and leaves the file as it was."""
    replace_lines(path, (with_sum(_text(trajectory)) for trajectory in trajectories))


def _text(trajectory: Trajectory) -> str:
    try:
        return trajectory.model_dump_json()
    except PydanticSerializationError:  # a method's own text that nothing has looked at
        return to_json(storable(trajectory.model_dump())).decode()


def read_trajectories(path: Path) -> Iterator[Trajectory]:
    """Read a JSONL file back. Raises DataError naming the file and the line."""
    for number, line in read_lines(path, "trajectories"):
        try:
            yield parse_trajectory(without_sum(line))
        except ValueError as error:
            raise DataError(str(error), path=path, line=number) from None


def parse_trajectory(data: bytes) -> Trajectory:
    """A line's trajectory. Raises ValueError in words for the user."""
    try:
        return Trajectory.model_validate_json(data.decode())
    except UnicodeDecodeError:
        raise ValueError("not a trajectory: no text in UTF-8") from None
    except ValidationError as error:
        raise ValueError(f"not a trajectory of version {VERSION}: {first_fault(error)}") from None

"""The interface of a benchmark: its examples, the form of an answer, and the scoring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import Field, JsonValue

from reground.core.answers import AnswerForm, Demonstration
from reground.core.language import Text, Value
from reground.core.programs import Sandbox
from reground.core.trajectory import Trajectory


class Example(Value):
    """One item of a benchmark. A method is shown `question` and nothing else."""

    id: Text
    question: Text
    golden_answers: tuple[Text, ...] = ()
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class Score(Value):
    """A metric's value for one example. None means unscored, not zero; `why` then gives the reason."""

    value: float | None
    why: Text = ""


NO_ANSWER = Score(value=None, why="there is no answer")
NO_SANDBOX = Score(value=None, why="programs run in a sandbox only, and there is none")


def answer_of(trajectory: Trajectory) -> str:
    """The text of the answer; empty if there is none."""
    return trajectory.answer.text if trajectory.answer is not None else ""


def hidden_documents(task: Task, example: Example) -> frozenset[str]:
    """The ids of documents that must not be found for an example; a task names them with `hidden(example)`."""
    hidden = getattr(task, "hidden", None)
    return frozenset() if hidden is None else frozenset(hidden(example))


def criteria_of(task: Task) -> str:
    """What people and judges rate answers by, where no reference decides; a task says it with `criteria`."""
    return str(getattr(task, "criteria", ""))


def as_read(task: Task, text: str) -> str:
    """An answer as people and judges are to read it; a task whose answers need it has `readable(text)`."""
    readable = getattr(task, "readable", None)
    return text if readable is None else str(readable(text))


@runtime_checkable
class Task(Protocol):
    """A benchmark, loaded.

    A class with this base may leave out demonstrations and solutions.
    """

    @property
    def name(self) -> str:
        """The task's name."""

    @property
    def form(self) -> AnswerForm:
        """The form of an answer."""

    @property
    def primary(self) -> str:
        """The metric that ranks methods."""

    @abstractmethod
    def examples(self) -> Sequence[Example]:
        """All examples of the chosen split, in the data's order."""

    def demonstrations(self) -> Sequence[Demonstration]:
        """Worked examples for few-shot prompts, from outside the evaluated split; may be empty.

        An answer is bare: a phrase without "Answer:", a program without a fence. Prompts add these.
        """
        return ()

    def solutions(self) -> Sequence[str]:
        """Texts (answers, programs, tests) that a retrieval corpus must not contain."""
        return ()

    @abstractmethod
    async def score(self, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
        """Score one solved question by every metric. Never called for a failed question."""


@dataclass(frozen=True)
class Loaded:
    """A task whose questions and worked examples stand in its fields. A subclass has `form` and `score`, and
    `metrics` if it has more than the primary one.

    corpus: the data set's own documents, if any. secret: what `solutions` gives in place of the questions. hides: the
    ids of documents that must not be found, by the example's id.
    """

    name: str
    primary: str
    loaded: tuple[Example, ...]
    shots: tuple[Demonstration, ...] = ()
    corpus: Path | None = None
    secret: tuple[str, ...] | None = field(default=None, kw_only=True)
    hides: Mapping[str, frozenset[str]] = field(default_factory=dict, kw_only=True)

    def examples(self) -> Sequence[Example]:
        """All questions of the split."""
        return self.loaded

    def demonstrations(self) -> Sequence[Demonstration]:
        """The worked examples."""
        return self.shots

    def solutions(self) -> Sequence[str]:
        """By default the questions, because a page that quotes one is a leak. A corpus may contain the answers."""
        return [example.question for example in self.loaded] if self.secret is None else list(self.secret)

    def hidden(self, example: Example) -> frozenset[str]:
        """The documents that must not be found for an example."""
        return self.hides.get(example.id, frozenset())

"""What is sent between the command and its workers: names, settings, and what was recorded. No open client is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reground.core.errors import DataError, RegroundError
from reground.core.journal import Effect
from reground.core.trajectory import Trajectory
from reground.evaluation.compare import Cell
from reground.evaluation.runner import FATAL, Asked, Told

if TYPE_CHECKING:
    from reground.app.options import Benchmark
    from reground.training.critics.collect import Searching

_SENT = (*FATAL, DataError)
"""Errors that stop a run and keep their class on the way."""


Order = TypeVar("Order", bound="Benchmark")


def changed(order: Order, **values: Any) -> Order:
    """An order with other values. Where it names a file of questions, its task is made from that again."""
    if getattr(order, "questions", None) is not None:
        values["task"] = ""
    return replace(order, **values)


@dataclass(frozen=True)
class Spec:
    """What a worker builds its parts from. folder: where the command was given, for relative paths."""

    order: Benchmark
    methods: tuple[str, ...]
    folder: Path
    version: str


@dataclass(frozen=True)
class Place:
    """A method to run: that of a cell, for a task. size: the index of its size while methods are tuned.

    searching: how the choices of the method, a planner, are searched; its answer is then the tree.
    """

    task: str
    cell: Cell
    size: int | None = None
    searching: Searching | None = None


@dataclass(frozen=True)
class Question:
    """A question for a worker. ticket: a number that it is known by until it ends.

    identity: what the command takes the method to be. recorded: its effects so far.
    """

    ticket: int
    place: Place
    identity: Mapping[str, object]
    asked: Asked
    recorded: tuple[Effect, ...]


@dataclass(frozen=True)
class Parcel:
    """What a worker has to tell: effects to record, each with its ticket, and costs by ticket."""

    number: int
    effects: tuple[tuple[int, Effect], ...]
    told: Mapping[int, Told]


@dataclass(frozen=True)
class Trouble:
    """An error on its way. An exception itself is not sent, for many cannot be unpickled."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Trouble:
        """What to send for an error."""
        kind = next((each for each in _SENT if isinstance(error, each)), None)
        if kind is None:
            known = isinstance(error, RegroundError)
            return cls("", str(error) if known else f"{type(error).__name__}: {error}")
        return cls(kind.__name__, str(error))

    def error(self, where: str) -> RegroundError:
        """The error again. where: the worker."""
        kind = next((each for each in _SENT if each.__name__ == self.kind), RegroundError)
        return kind(f"{where}: {self.message}")


@dataclass(frozen=True)
class Done:
    """An answered question. trouble: the error of the run behind its failure."""

    trajectory: Trajectory
    told: Told | None
    trouble: Trouble | None = None

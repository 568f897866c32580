"""The worker's side. What is sent, either way, is names, settings and what was recorded; no open client is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reground import __version__
from reground.app.benchmark import open_bench
from reground.app.options import Benchmark
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, DataError, RegroundError
from reground.core.journal import Effect
from reground.core.run import Method
from reground.core.trajectory import Trajectory
from reground.evaluation.compare import Cell
from reground.evaluation.runner import FATAL, EvalSettings, Request, Update, solve_here
from reground.evaluation.task import Example
from reground.evaluation.tasks import load_task
from reground.training.critics.collect import Growing, Searching


@dataclass(frozen=True)
class Spec:
    """What a worker builds its parts from. folder: where the command was given, for relative paths."""

    order: Benchmark
    methods: tuple[str, ...]
    folder: Path
    version: str


@dataclass(frozen=True)
class Place:
    """The method of a cell, to run. identity: what the command takes it to be.

    searching: how its choices, those of a planner, are searched; its answer is then the tree.
    """

    cell: Cell
    identity: Mapping[str, object] = field(compare=False)
    searching: Searching | None = None


def sendable(error: Exception) -> RegroundError:
    """An error as it can be sent, for many cannot be unpickled. Those that stop a run keep their class."""
    kind = next((each for each in (*FATAL, DataError) if isinstance(error, each)), RegroundError)
    return kind(str(error) if isinstance(error, RegroundError) else f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Parcel:
    """What there is of a question since the last parcel: effects to record, in their order, and its cost.

    The last one has the trajectory, or the error that left none; an error beside a trajectory has stopped the run.
    """

    effects: tuple[Effect, ...]
    update: Update | None
    trajectory: Trajectory | None = None
    error: RegroundError | None = None

    @property
    def is_last(self) -> bool:
        """Whether the question has ended."""
        return self.trajectory is not None or self.error is not None


class WorkerLost(Exception):
    """The worker is gone: it, its machine or the way to it."""


class Work:
    """A question in work, and the journal of its run.

    The command calls `parcel` again and again. Each call says that the parcel before it is written, so that the method
    behind its effects goes on; so no method sees what a crash could take back.
    """

    def __init__(self, recorded: tuple[Effect, ...]) -> None:
        self._recorded = {(effect.span, effect.ordinal): effect for effect in recorded}
        self._effects: list[Effect] = []
        self._sent, self._written = asyncio.Event(), asyncio.Event()  # of the last parcel, and of the next one
        self._update: Update | None = None
        self._ended: tuple[Trajectory | None, RegroundError | None] = (None, None)
        self._changed = asyncio.Event()

    def load(self, run: str, question: str) -> dict[tuple[str, int], Effect]:
        """What the command had recorded of the question when it sent it."""
        return dict(self._recorded)

    async def append(self, run: str, question: str, effect: Effect) -> None:
        """Return when the effect is in the command's journal."""
        self._effects.append(effect)
        self._changed.set()
        await self._written.wait()

    def tell(self, update: Update) -> None:
        """Send the cost with the next parcel."""
        self._update = update if self._update is None else update.after(self._update)
        self._changed.set()

    def end(self, trajectory: Trajectory | None, error: Exception | None) -> None:
        """Send the result with the next parcel, behind effects that the method no longer waits for."""
        self._ended = trajectory, None if error is None else sendable(error)
        self._changed.set()

    async def parcel(self) -> Parcel:
        """The next parcel, as soon as there is something in it; what was in the last one is written."""
        self._sent.set()
        await self._changed.wait()
        self._changed.clear()
        parcel = Parcel(tuple(self._effects), self._update, *self._ended)
        self._sent, self._written = self._written, asyncio.Event()
        self._update, self._effects = None, []
        return parcel


class Worker:
    """One event loop with models, documents and methods of its own. It has no file of the run."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._opened = AsyncExitStack()
        self._methods: dict[Place, Method] = {}
        self._works: dict[int, tuple[Work, asyncio.Task[None]]] = {}

    async def open(self) -> RegroundError | None:
        """Open the parts, for as long as the process lives. Returns what keeps it from answering."""
        try:
            if self._spec.folder.is_dir():
                os.chdir(self._spec.folder)
            if __version__ != self._spec.version:
                raise ConfigurationError(f"reground {__version__} is installed there, and {self._spec.version} here")
            order = self._spec.order
            opening = open_bench(order, self._spec.methods, load_task(order.task, order.data), self._spec.folder)
            self._bench = await self._opened.enter_async_context(opening)
        except Exception as error:
            return sendable(error)
        return None

    async def solve(
        self, ticket: int, place: Place | None = None, request: Request | None = None, recorded: tuple[Effect, ...] = ()
    ) -> Parcel:
        """The next parcel of a question. ticket: its number at this worker.

        The first call has the question, and its effects so far.
        """
        if place is not None and request is not None:
            work = Work(recorded)
            self._works[ticket] = work, asyncio.create_task(self._solve(place, request, work))
        parcel = await self._works[ticket][0].parcel()
        if parcel.is_last:
            del self._works[ticket]
        return parcel

    async def _solve(self, place: Place, request: Request, work: Work) -> None:
        try:
            solved = await solve_here(self._working(place, request.example), request, work, work.tell)
            less = {} if place.searching is None else {"steps": ()}  # a tree is all that is kept of its search
            stopping = solved.error if isinstance(solved.error, FATAL) else None
            work.end(solved.trajectory.model_copy(update=less), stopping)
        except Exception as error:
            work.end(None, error)

    def _working(self, place: Place, example: Example | None) -> Method:
        """What works on a question: its place's method, or the search of that method's choices.

        Raises ConfigurationError where the method is not the one that the command takes it to be.
        """
        if place not in self._methods:
            base = EvalSettings(place.cell.method, self._spec.order.model)
            ready = self._bench.configure(place.cell, base, Budget())
            for name, own in identity_of(ready.settings).items():
                if own != (expected := place.identity[name]):
                    why = f"its {name} would be {own!r}, and here {expected!r}"
                    raise ConfigurationError(f"{why}: give every machine the same files and packages")
            self._methods[place] = ready.method
        method: Any = self._methods[place]
        if place.searching is None:
            return method  # type: ignore[no-any-return]
        assert example is not None
        task, sandbox = self._bench.task, self._bench.sandbox
        return Growing(planner=method, task=task, example=example, searching=place.searching, sandbox=sandbox)


def identity_of(settings: EvalSettings) -> dict[str, object]:
    """What has to be equal for a method to be the same at the command and at a worker."""
    rating = ("judge", "judge_weights")  # of answers, which are rated where the run folder is
    model = {key: value for key, value in settings.model_settings.items() if key not in rating}
    return {
        "method": settings.method,
        "settings": settings.method_settings,
        "model": settings.model,
        "model settings": model,
        "documents": settings.retriever,
    }

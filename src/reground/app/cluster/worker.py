"""A worker: builds what the command would build, from the same options, and answers the questions that it is sent.

What is sent, either way, is names, settings and what was recorded; no open client is.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from reground import __version__
from reground.app.benchmark import Bench, open_bench
from reground.app.options import Benchmark, Measuring
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, DataError, RegroundError
from reground.core.journal import Effect
from reground.core.run import Method
from reground.core.trajectory import Trajectory
from reground.evaluation.compare import Cell
from reground.evaluation.runner import FATAL, Asked, EvalSettings, Told, solve_here
from reground.evaluation.task import Example
from reground.evaluation.tasks import load_task
from reground.training.critics.collect import Growing, Searching

_SENT = (*FATAL, DataError)  # errors that stop a run and keep their class on the way
_OF_THE_COMMAND = frozenset({"judge", "judge_weights"})
"""Settings of the model that a worker has not: answers are rated where the run folder is."""

Order = TypeVar("Order", bound=Benchmark)


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
    """A method to run: that of a cell, for a task.

    identity: what the command takes the method to be. searching: how the choices of the method, a planner, are
    searched; its answer is then the tree.
    """

    task: str
    cell: Cell
    identity: Mapping[str, object] = field(compare=False)
    searching: Searching | None = None


def sendable(error: Exception) -> RegroundError:
    """An error as it can be sent, for many cannot be unpickled. Those that stop a run keep their class."""
    kind = next((each for each in _SENT if isinstance(error, each)), RegroundError)
    return kind(str(error) if isinstance(error, RegroundError) else f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Parcel:
    """What there is of a question since the last parcel: effects to record, in their order, and its cost.

    The last parcel has the trajectory, or the error that left none. An error beside a trajectory is that of the run
    behind its failure.
    """

    effects: tuple[Effect, ...]
    told: Told | None
    trajectory: Trajectory | None = None
    error: RegroundError | None = None

    @property
    def is_last(self) -> bool:
        """Whether the question has ended."""
        return self.trajectory is not None or self.error is not None


class Lost(Exception):
    """The worker is gone: it, its machine or the way to it."""


class Work:
    """A question in work, and the journal of its run.

    The command calls `parcel` again and again. Each call says that the parcel before it is written, so that the method
    behind its effects goes on; so no method sees what a crash could take back.
    """

    def __init__(self, recorded: tuple[Effect, ...]) -> None:
        self._recorded = {(effect.span, effect.ordinal): effect for effect in recorded}
        self._effects: list[tuple[Effect, asyncio.Future[None]]] = []
        self._sent: list[asyncio.Future[None]] = []
        self._told: Told | None = None
        self._ended: tuple[Trajectory | None, RegroundError | None] = (None, None)
        self._changed = asyncio.Event()

    def load(self, run: str, question: str) -> dict[tuple[str, int], Effect]:
        """What the command had recorded of the question when it sent it."""
        return dict(self._recorded)

    async def append(self, run: str, question: str, effect: Effect) -> None:
        """Return when the effect is in the command's journal."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._effects.append((effect, written))
        self._changed.set()
        await written

    def tell(self, told: Told) -> None:
        """Send the cost with the next parcel."""
        self._told = told if self._told is None else told.after(self._told)
        self._changed.set()

    def end(self, trajectory: Trajectory | None, error: Exception | None) -> None:
        """Send the result with the next parcel, behind effects that the method no longer waits for."""
        self._ended = trajectory, None if error is None else sendable(error)
        self._changed.set()

    async def parcel(self) -> Parcel:
        """The next parcel, as soon as there is something in it; what was in the last one is written."""
        for written in self._sent:
            if not written.done():
                written.set_result(None)
        await self._changed.wait()
        self._changed.clear()
        parcel = Parcel(tuple(effect for effect, _ in self._effects), self._told, *self._ended)
        self._sent = [written for _, written in self._effects]
        self._told, self._effects = None, []
        return parcel


class Worker:
    """One event loop with models, documents and methods of its own. It has no file of the run."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._opened = AsyncExitStack()
        self._benches: dict[str, asyncio.Task[Bench]] = {}
        self._methods: dict[Place, Method] = {}
        self._works: dict[int, tuple[Work, asyncio.Task[None]]] = {}

    async def open(self, task: str) -> RegroundError | None:
        """Open the parts for a task, so that the first questions need not wait for them."""
        try:
            if self._spec.folder.is_dir():
                os.chdir(self._spec.folder)
            if __version__ != self._spec.version:
                raise ConfigurationError(f"reground {__version__} is installed there, and {self._spec.version} here")
            await self._bench(task)
        except Exception as error:
            return sendable(error)
        return None

    async def solve(
        self, ticket: int, place: Place | None = None, asked: Asked | None = None, recorded: tuple[Effect, ...] = ()
    ) -> Parcel:
        """The next parcel of a question. ticket: its number at this worker.

        The first call has the question, and its effects so far.
        """
        if place is not None and asked is not None:
            work = Work(recorded)
            self._works[ticket] = work, asyncio.create_task(self._solve(place, asked, work))
        parcel = await self._works[ticket][0].parcel()
        if parcel.is_last:
            del self._works[ticket]
        return parcel

    async def close(self) -> None:
        """Close models and documents."""
        await self._opened.aclose()

    async def _solve(self, place: Place, asked: Asked, work: Work) -> None:
        try:
            solved = await solve_here(await self._working(place, asked.example), asked, work, work.tell)
        except Exception as error:
            work.end(None, error)
            return
        trajectory = solved.trajectory
        if place.searching is not None:
            trajectory = trajectory.model_copy(update={"steps": ()})  # a tree is all that is kept of its search
        work.end(trajectory, solved.error if isinstance(solved.error, FATAL) else None)

    async def _working(self, place: Place, example: Example | None) -> Method:
        """What works on a question: its place's method, or the search of that method's choices.

        Raises ConfigurationError where the method is not the one that the command takes it to be.
        """
        from reground.methods.cr_planner import CRPlanner

        bench = await self._bench(place.task)
        if place not in self._methods:
            ready = bench.configure(place.cell, EvalSettings(place.cell.method, self._spec.order.model), Budget())
            for name, own in identity_of(ready.settings).items():
                if own != (wanted := place.identity[name]):
                    why = f"its {name} would be {own!r}, and here {wanted!r}"
                    raise ConfigurationError(f"{why}: give every machine the same files and packages")
            self._methods[place] = ready.method
        method = self._methods[place]
        if place.searching is None:
            return method
        assert isinstance(method, CRPlanner) and example is not None
        task, sandbox = bench.task, bench.sandbox
        return Growing(planner=method, task=task, example=example, searching=place.searching, sandbox=sandbox)

    async def _bench(self, task: str) -> Bench:
        """The bench of a task, opened once for all questions that wait for it."""

        async def opened() -> Bench:
            order = self._spec.order
            if isinstance(order, Measuring):
                order = changed(order, judge=None)
            opening = open_bench(order, self._spec.methods, load_task(task, order.data), self._spec.folder)
            return await self._opened.enter_async_context(opening)

        if task not in self._benches:
            self._benches[task] = asyncio.create_task(opened())
        return await asyncio.shield(self._benches[task])


def identity_of(settings: EvalSettings) -> dict[str, object]:
    """What has to be equal for a method to be the same at the command and at a worker."""
    model = {key: value for key, value in settings.model_settings.items() if key not in _OF_THE_COMMAND}
    return {
        "method": settings.method,
        "settings": settings.method_settings,
        "model": settings.model,
        "model settings": model,
        "documents": settings.retriever,
    }

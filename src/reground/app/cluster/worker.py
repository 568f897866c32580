"""A worker: builds what the command would build, from the same options, and answers the questions that it is sent."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from reground.app.cluster.pool import Done, Parcel, Place, Question, Spec, Trouble, changed
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError
from reground.core.journal import Effect
from reground.core.run import Event
from reground.evaluation.runner import FATAL, EvalSettings, Told, solve_here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reground.app.benchmark import Bench
    from reground.core.method import Method


class Outbox:
    """Effects and costs of all questions of a worker.

    The command calls `exchange` again and again. Each call confirms the parcel before it, so that the methods behind
    its effects go on, and returns the next parcel as soon as there is something in it. So effects that wait together
    share one way there and back.
    """

    def __init__(self) -> None:
        self._effects: list[tuple[int, Effect, asyncio.Future[None]]] = []
        self._sent: list[tuple[int, asyncio.Future[None]]] = []
        self._told: dict[int, Told] = {}
        self._number = 0
        self._open: Counter[int] = Counter()
        self._changed = asyncio.Event()
        self._confirmed = asyncio.Condition()

    async def put(self, ticket: int, effect: Effect) -> None:
        """Return when the command has written the effect."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._effects.append((ticket, effect, done))
        self._open[ticket] += 1
        self._changed.set()
        await done

    def tell(self, ticket: int, told: Told) -> None:
        """Report a cost with the next parcel."""
        before = self._told.get(ticket)
        self._told[ticket] = told if before is None else told.after(before)
        self._changed.set()

    async def end(self, ticket: int) -> Told | None:
        """Return when every effect of a question is written, also those that its method no longer waits for.

        Returns the cost that was not sent yet.
        """
        async with self._confirmed:
            await self._confirmed.wait_for(lambda: not self._open[ticket])
        del self._open[ticket]
        return self._told.pop(ticket, None)

    async def exchange(self, confirmed: int) -> Parcel:
        """Confirm the last parcel, and return the next one."""
        if confirmed == self._number:
            for ticket, done in self._sent:
                self._open[ticket] -= 1
                if not done.done():
                    done.set_result(None)
            self._sent = []
            async with self._confirmed:
                self._confirmed.notify_all()
        await self._changed.wait()
        self._changed.clear()
        effects, self._effects = self._effects, []
        told, self._told = self._told, {}
        self._sent += [(ticket, done) for ticket, _, done in effects]
        self._number += 1
        return Parcel(self._number, tuple((ticket, effect) for ticket, effect, _ in effects), told)


class SentJournal:
    """A question's journal at a worker: what was recorded came with the question, what is new goes to the outbox."""

    def __init__(self, outbox: Outbox, ticket: int, recorded: Iterable[Effect]) -> None:
        self._outbox, self._ticket = outbox, ticket
        self._recorded = {(effect.span, effect.ordinal): effect for effect in recorded}

    def load(self, run: str, question: str) -> dict[tuple[str, int], Effect]:
        """What the command had recorded of the question when it sent it."""
        return dict(self._recorded)

    async def append(self, run: str, question: str, effect: Effect) -> None:
        """Return when the effect is in the command's journal."""
        await self._outbox.put(self._ticket, effect)

    def observe(self, event: Event) -> None:
        """Report what the event tells."""
        self._outbox.tell(self._ticket, Told.of(event))


_JUDGES = frozenset({"judge", "judge_weights"})


class Worker:
    """One event loop with models, documents and methods of its own. It has no file of the run.

    An error is returned as Trouble, for what is raised here would have to be pickled.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._opened = AsyncExitStack()
        self._benches: dict[str, asyncio.Task[Bench]] = {}
        self._methods: dict[Place, Method] = {}
        self._outbox = Outbox()

    async def open(self, task: str) -> Trouble | None:
        """Open the parts for a task, so that the first questions need not wait for them."""
        from reground import __version__

        try:
            if self._spec.folder.is_dir():
                os.chdir(self._spec.folder)
            if __version__ != self._spec.version:
                raise ConfigurationError(f"reground {__version__} is installed there, and {self._spec.version} here")
            await self._bench(task)
        except Exception as error:
            return Trouble.of(error)
        return None

    async def solve(self, question: Question) -> Done | Trouble:
        """Answer a question."""
        try:
            return await self._solve(question)
        except Exception as error:
            return Trouble.of(error)

    async def exchange(self, confirmed: int) -> Parcel:
        """What there is to write and to tell; see Outbox."""
        return await self._outbox.exchange(confirmed)

    async def close(self) -> None:
        """Close models and documents."""
        await self._opened.aclose()

    async def _solve(self, question: Question) -> Done:
        method = await self._working(question)
        journal = SentJournal(self._outbox, question.ticket, question.recorded)
        solved = await solve_here(method, question.asked, journal, journal.observe)
        told = await self._outbox.end(question.ticket)
        fatal = Trouble.of(solved.error) if isinstance(solved.error, FATAL) else None
        trajectory = solved.trajectory
        if question.place.searching is not None:
            trajectory = trajectory.model_copy(update={"steps": ()})  # a tree is all that is kept of its search
        return Done(trajectory, told, fatal)

    async def _working(self, question: Question) -> Method:
        """What works on a question: its place's method, or the search of that method's choices."""
        place, example = question.place, question.asked.example
        method = await self._method(place, question.identity)
        if place.searching is None:
            return method
        from reground.methods.cr_planner import CRPlanner
        from reground.training.critics.collect import Growing

        assert isinstance(method, CRPlanner) and example is not None
        bench = await self._bench(place.task)
        return Growing(
            planner=method, task=bench.task, example=example, searching=place.searching, sandbox=bench.sandbox
        )

    async def _method(self, place: Place, wanted: Mapping[str, object]) -> Method:
        """A place's method. Raises ConfigurationError where it is not the one that the command takes it to be."""
        bench = await self._bench(place.task)
        if place not in self._methods:
            sized = bench if place.size is None else replace(bench, tuned={place.cell: place.size})
            ready = sized.configure(place.cell, EvalSettings(place.cell.method, self._spec.order.model), Budget())
            _compare(identity_of(ready.settings), wanted)
            self._methods[place] = ready.method
        return self._methods[place]

    async def _bench(self, task: str) -> Bench:
        """The bench of a task, opened once for all questions that wait for it."""
        if task not in self._benches:
            self._benches[task] = asyncio.create_task(self._open_bench(task))
        return await asyncio.shield(self._benches[task])

    async def _open_bench(self, task: str) -> Bench:
        from reground.app.benchmark import open_benches
        from reground.app.options import Measuring
        from reground.app.session import Quietly
        from reground.evaluation.tasks import load_task

        order = self._spec.order
        if isinstance(order, Measuring):
            order = changed(order, judge=None)  # answers are rated where the run folder is
        opening = open_benches(order, self._spec.methods, [load_task(task, order.data)], self._spec.folder, Quietly())
        (bench,) = await self._opened.enter_async_context(opening)
        return bench


def identity_of(settings: EvalSettings) -> dict[str, object]:
    """What has to be equal for a method to be the same at the command and at a worker."""
    model = {key: value for key, value in settings.model_settings.items() if key not in _JUDGES}
    return {
        "method": settings.method,
        "settings": settings.method_settings,
        "model": settings.model,
        "model settings": model,
        "documents": settings.retriever,
    }


def _compare(own: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    for name, value in wanted.items():
        if own[name] != value:
            raise ConfigurationError(
                f"its {name} would be {own[name]!r}, and here {value!r}: give every machine the same files and packages"
            )

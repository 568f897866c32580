"""The command's side: which worker gets a question, and what happens if a worker is lost."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from reground import __version__
from reground.app.cluster.on_ray import joined, starter
from reground.app.cluster.worker import Lost, Parcel, Place, Question, Spec, Trouble, changed, identity_of
from reground.app.options import Benchmark, Cluster
from reground.core.concurrency import gather
from reground.core.errors import ConfigurationError, RegroundError
from reground.core.journal import Journal
from reground.core.method import Solved
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.runner import Asked, Tell
from reground.models.options import ModelOptions
from reground.training.critics.collect import Searching

MOST_LOSSES = 5
"""How many workers a question may lose before it stops the run: it may be what ends them."""
_PATIENCE = 15.0
"""Seconds without any worker until the user is told what is waited for."""
_FAREWELL = 2.0
"""Seconds that a worker has to close its connections."""


@asynccontextmanager
async def opened_pool(
    order: Benchmark, methods: Sequence[str], notify: Callable[[str], None]
) -> AsyncIterator[Pool | None]:
    """The workers, ended at the end of the block; None where all is answered in this process."""
    if not isinstance(order, Cluster) or order.ray is None:
        yield None
        return
    async with joined(order, order.concurrency) as (ray, workers):
        capacity = math.ceil(order.concurrency / workers)
        data = order.data or (Path(os.environ["REGROUND_DATA"]) if os.environ.get("REGROUND_DATA") else None)
        own = changed(order, data=data, model_options=share_of(order.model_options, workers))
        start = starter(ray, Spec(own, tuple(methods), Path.cwd(), __version__), capacity, order.ray_cpus)
        async with Pool(start, order.task, workers=workers, capacity=capacity, notify=notify) as pool:
            yield pool


def share_of(options: ModelOptions, workers: int) -> ModelOptions:
    """One worker's share of the limits on what is asked of a server, so that all together keep them."""
    requests, tokens = (
        None if rate is None else rate / workers for rate in (options.requests_per_minute, options.tokens_per_minute)
    )
    connections = max(1, options.connections // workers)
    return replace(options, connections=connections, requests_per_minute=requests, tokens_per_minute=tokens)


def placed(
    ready: Configured,
    pool: Pool | None,
    task: str,
    cell: Cell,
    tuned: Mapping[Cell, int],
    searching: Searching | None = None,
) -> Configured:
    """A configured method at the workers, if there are any. task: its name. tuned: the sizes that are not the cells'
    own. searching: how its choices are searched, where the workers are to grow trees.
    """
    if pool is None:
        return ready
    place = Place(task, cell, tuned.get(cell), searching)
    return replace(ready, elsewhere=At(pool, place, identity_of(ready.settings)))


class Remote(Protocol):
    """A worker, from afar."""

    async def call(self, method: str, *arguments: object) -> Any:
        """What a method of `Worker` returns. Raises Lost where the worker is gone."""
        ...

    def kill(self) -> None:
        """End the worker, whatever it does."""
        ...


@dataclass(eq=False)
class _Hand:
    """A worker in use. number: its place among the workers. questions: how many it has. answered: how many it had."""

    number: int
    remote: Remote
    questions: int = 0
    answered: int = 0

    @property
    def name(self) -> str:
        return f"worker {self.number}"


class Pool:
    """Workers, each with at most `capacity` questions at once. A worker that is lost is replaced.

    start: begins a worker. task: what it opens at once. notify: tells the user a line.
    """

    def __init__(
        self,
        start: Callable[[], Remote],
        task: str,
        *,
        workers: int,
        capacity: int,
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._start, self._task, self._notify = start, task, notify
        self._workers, self._capacity = workers, capacity
        self._hands: list[_Hand] = []  # those that are open
        self._remotes: set[Remote] = set()  # those that begin, too
        self._beginning: set[asyncio.Task[None]] = set()
        self._fruitless: Counter[int] = Counter()
        self._tickets = itertools.count()
        self._changed = asyncio.Condition()
        self._error: Exception | None = None

    async def __aenter__(self) -> Pool:
        for number in range(self._workers):
            self._replace(number)
        self._watch = asyncio.get_running_loop().call_later(_PATIENCE, self._tell)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the workers: with a farewell after a run, at once after an error or Ctrl-C."""
        self._watch.cancel()
        for task in self._beginning:
            task.cancel()
        if error is None:
            farewells = (hand.remote.call("close") for hand in self._hands)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*farewells, return_exceptions=True), _FAREWELL)
        for remote in self._remotes:
            remote.kill()

    async def solve(self, at: At, asked: Asked, journal: Journal, told: Tell) -> Solved:
        """Let a worker answer a question; if it is lost, another one goes on from what the journal has."""
        for _ in range(MOST_LOSSES):
            hand = await self._free()
            try:
                last = await self._carry(hand, at, asked, journal, told)
            except Lost as why:
                lost = why
                await self._lose(hand, why)
                continue
            finally:
                hand.questions -= 1
                async with self._changed:
                    self._changed.notify_all()
            hand.answered += 1
            error = None if last.trouble is None else last.trouble.error(hand.name)
            if last.trajectory is not None:
                return Solved(last.trajectory, error)
            assert error is not None
            raise error
        raise RegroundError(f"{MOST_LOSSES} workers were lost with the question {asked.id}; the last one: {lost}")

    async def _carry(self, hand: _Hand, at: At, asked: Asked, journal: Journal, told: Tell) -> Parcel:
        """Write what a worker sends of a question until its last parcel. Raises Lost, or why it cannot be written."""
        recorded = tuple(journal.load(asked.run, asked.id).values())
        question: Question | None = Question(at.place, at.identity, asked, recorded)
        ticket = next(self._tickets)
        while True:
            parcel: Parcel = await hand.remote.call("solve", ticket, question)
            await gather(*(journal.append(asked.run, asked.id, effect) for effect in parcel.effects))
            if parcel.told is not None:
                told(parcel.told)
            if parcel.trajectory is not None or parcel.trouble is not None:
                return parcel
            question = None

    async def _free(self) -> _Hand:
        """The worker with the fewest questions, as soon as one has room."""

        def room() -> list[_Hand]:
            return [hand for hand in self._hands if hand.questions < self._capacity]

        async with self._changed:
            await self._changed.wait_for(lambda: self._error is not None or room())
            if self._error is not None:
                raise self._error
            hand = min(room(), key=lambda each: each.questions)
            hand.questions += 1
            return hand

    def _replace(self, number: int, pause: float = 0.0) -> None:
        task = asyncio.create_task(self._begin(number, pause))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _begin(self, number: int, pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            hand = _Hand(number, self._start())
            self._remotes.add(hand.remote)
            trouble: Trouble | None = await hand.remote.call("open", self._task)
            if trouble is not None:
                raise trouble.error(hand.name)
        except Lost as why:
            await self._lose(hand, why)
        except Exception as error:
            await self._fail(error)
        else:
            async with self._changed:
                self._hands.append(hand)
                self._changed.notify_all()

    async def _lose(self, hand: _Hand, why: Lost) -> None:
        """Begin another worker in place of a lost one, at the first of its questions that tells."""
        if hand.remote not in self._remotes:
            return
        self._remotes.remove(hand.remote)
        self._hands = [each for each in self._hands if each is not hand]
        hand.remote.kill()
        self._fruitless[hand.number] = 0 if hand.answered else self._fruitless[hand.number] + 1
        if self._fruitless[hand.number] == MOST_LOSSES:
            await self._fail(ConfigurationError(f"a worker ended {MOST_LOSSES} times without an answer: {why}"))
            return
        self._notify(f"{hand.name} was lost ({why}); its questions go to others")
        self._replace(hand.number, 0.1 * 2 ** self._fruitless[hand.number])

    async def _fail(self, error: Exception) -> None:
        """Stop the run."""
        async with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _tell(self) -> None:
        """Say what is waited for where no worker begins."""
        if not self._hands and self._error is None:
            self._notify("no worker has begun yet; each waits for a free CPU of the cluster (ray_cpus)")


@dataclass(frozen=True)
class At:
    """One method at the workers; an Elsewhere. identity: what a worker must take the method to be."""

    pool: Pool
    place: Place
    identity: Mapping[str, object]

    async def solve(self, asked: Asked, journal: Journal, told: Tell, /) -> Solved:
        """Let a worker answer the question."""
        return await self.pool.solve(self, asked, journal, told)

"""The command's side: which worker gets a question, and what happens if a worker is lost."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from reground import __version__
from reground.app.benchmark import Bench, open_bench
from reground.app.cluster.on_ray import Actor, ray_cluster
from reground.app.cluster.worker import Parcel, Place, Spec, WorkerLost, identity_of
from reground.app.options import Measuring
from reground.app.session import Opening
from reground.core.concurrency import gather
from reground.core.errors import ConfigurationError, RegroundError
from reground.core.journal import Journal
from reground.core.run import Solved
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.runner import Request, Tell
from reground.evaluation.task import Task
from reground.models.options import ModelOptions
from reground.training.critics.collect import Searching

MOST_LOSSES = 5  # how many workers a question may lose before it stops the run: it may be what ends them
_PATIENCE = 15.0  # seconds without any worker until the user is told what is waited for
_log = logging.getLogger(__name__)


@asynccontextmanager
async def opened_bench(
    order: Any, methods: Sequence[str], task: Task, out: Path, opening: Opening | None = None
) -> AsyncIterator[Bench]:
    """A bench as `open_bench` opens it; where the options name Ray, workers answer its questions, and end with it."""
    async with AsyncExitStack() as opened:
        bench = await opened.enter_async_context(open_bench(order, methods, task, out, opening))
        if getattr(order, "ray", None) is not None:
            ray, workers = await opened.enter_async_context(ray_cluster(order, order.concurrency))
            capacity = math.ceil(order.concurrency / workers)
            data = order.data or (Path(os.environ["REGROUND_DATA"]) if os.environ.get("REGROUND_DATA") else None)
            own = replace(order, ray=None, data=data, model_options=share_of(order.model_options, workers))
            if isinstance(own, Measuring):
                own = replace(own, judge=None)  # answers are rated where the run folder is
            spec = Spec(own, tuple(methods), Path.cwd(), __version__)
            start = partial(Actor, ray, spec, capacity, order.ray_cpus)
            pool = await opened.enter_async_context(Pool(start, workers=workers, capacity=capacity))
            bench = replace(bench, distribute=pool.distribute)
        yield bench


def share_of(options: ModelOptions, workers: int) -> ModelOptions:
    """One worker's share of the limits on what is asked of a server, so that all together keep them."""
    limits = {name: getattr(options, name) for name in ("requests_per_minute", "tokens_per_minute")}
    rates = {name: limit / workers for name, limit in limits.items() if limit is not None}
    return replace(options, connections=max(1, options.connections // workers), **rates)


@dataclass(eq=False)
class _Hand:
    """A worker in use. questions: how many it has. answered: whether it had one. lost: why it is gone."""

    name: str
    actor: Actor
    questions: int = 0
    answered: bool = False
    loss: asyncio.Future[WorkerLost] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(eq=False)
class Pool:
    """Workers, each with at most `capacity` questions at once. For one that is lost `start` begins another."""

    start: Callable[[], Actor]
    workers: int
    capacity: int
    _hands: list[_Hand] = field(default_factory=list)  # those that are open
    _tickets: Iterator[int] = field(default_factory=itertools.count)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Pool:
        self._keepers = [asyncio.create_task(self._keep(f"worker {number}")) for number in range(self.workers)]
        for keeper in self._keepers:
            keeper.add_done_callback(lambda _: self._changed.set())
        waiting = "no worker has begun yet; each waits for a free CPU of the cluster (ray_cpus)"
        self._watch = asyncio.get_running_loop().call_later(_PATIENCE, _log.warning, waiting)
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        self._watch.cancel()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    def distribute(self, ready: Configured, cell: Cell, searching: Searching | None = None) -> Configured:
        """A cell's method at the workers. searching: how its choices are searched, where they are to grow trees."""
        return replace(ready, elsewhere=partial(self.solve, Place(cell, identity_of(ready.settings), searching)))

    async def solve(self, place: Place, request: Request, journal: Journal, tell: Tell) -> Solved:
        """Let a worker answer a question; if it is lost, another one goes on from what the journal has."""
        for _ in range(MOST_LOSSES):
            hand = await self._free()
            try:
                last = await self._carry(hand.actor, place, request, journal, tell)
            except WorkerLost as why:
                if not hand.loss.done():
                    self._hands.remove(hand)
                    hand.loss.set_result(why)
                continue
            finally:
                hand.questions -= 1
                self._changed.set()
            hand.answered = True
            error = None if last.error is None else type(last.error)(f"{hand.name}: {last.error}")
            if last.trajectory is not None:
                return Solved(last.trajectory, error)
            assert error is not None
            raise error
        raise RegroundError(
            f"{MOST_LOSSES} workers were lost with the question {request.id}; the last one: {hand.loss.result()}"
        )

    async def _carry(self, actor: Actor, place: Place, request: Request, journal: Journal, tell: Tell) -> Parcel:
        """Write all that a worker sends of a question. Raises WorkerLost, or why it cannot be written."""
        recorded = tuple(journal.load(request.run, request.id).values())
        following = partial(actor.call, "solve", next(self._tickets))
        parcel: Parcel = await following(place, request, recorded)
        while True:
            await gather(*(journal.append(request.run, request.id, effect) for effect in parcel.effects))
            if parcel.update is not None:
                tell(parcel.update)
            if parcel.is_last:
                return parcel
            parcel = await following()

    async def _free(self) -> _Hand:
        """The worker with the fewest questions, as soon as one has room. Raises why a worker cannot be kept."""
        while True:
            for keeper in self._keepers:
                if keeper.done():
                    keeper.result()
            hand = min(self._hands, key=lambda each: each.questions, default=None)
            if hand is not None and hand.questions < self.capacity:
                hand.questions += 1
                return hand
            self._changed.clear()
            await self._changed.wait()

    async def _keep(self, name: str) -> None:
        """Begin a worker, and another one in place of each that is lost."""
        fruitless = 0
        while True:
            hand = _Hand(name, self.start())
            try:
                error: RegroundError | None = await hand.actor.call("open")
                if error is not None:
                    raise type(error)(f"{name}: {error}")
                self._watch.cancel()
                self._hands.append(hand)
                self._changed.set()
                why = await hand.loss
            except WorkerLost as loss:
                why = loss
            finally:
                hand.actor.kill()
            fruitless = 0 if hand.answered else fruitless + 1
            if fruitless == MOST_LOSSES:
                raise ConfigurationError(f"a worker ended {MOST_LOSSES} times without an answer: {why}")
            _log.warning("%s was lost (%s); its questions go to others", name, why)
            await asyncio.sleep(0.1 * 2**fruitless)

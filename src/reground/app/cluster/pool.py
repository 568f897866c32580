"""The command's side: which worker gets a question, and what happens if a worker is lost."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path

from reground import __version__
from reground.app.cluster.on_ray import Actor, joined
from reground.app.cluster.worker import Lost, Parcel, Place, Spec, changed, identity_of
from reground.app.options import Benchmark, Cluster
from reground.core.concurrency import gather
from reground.core.errors import ConfigurationError, RegroundError
from reground.core.journal import Journal
from reground.core.run import Solved
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.runner import Asked, Tell
from reground.models.options import ModelOptions
from reground.training.critics.collect import Searching

MOST_LOSSES = 5  # how many workers a question may lose before it stops the run: it may be what ends them
_PATIENCE = 15.0  # seconds without any worker until the user is told what is waited for
_FAREWELL = 2.0  # seconds that a worker has to close its connections


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
        start = partial(Actor, ray, Spec(own, tuple(methods), Path.cwd(), __version__), capacity, order.ray_cpus)
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
    ready: Configured, pool: Pool | None, task: str, cell: Cell, searching: Searching | None = None
) -> Configured:
    """A configured method at the workers, if there are any. task: its name.

    searching: how its choices are searched, where the workers are to grow trees.
    """
    if pool is None:
        return ready
    place = Place(task, cell, identity_of(ready.settings), searching)
    return replace(ready, elsewhere=partial(pool.solve, place))


@dataclass(eq=False)
class _Hand:
    """A worker in use. questions: how many it has. answered: whether it had one. lost: why it is gone."""

    name: str
    actor: Actor
    questions: int = 0
    answered: bool = False
    lost: asyncio.Future[Lost] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(eq=False)
class Pool:
    """Workers, each with at most `capacity` questions at once. A worker that is lost is replaced.

    start: begins a worker. task: what it opens at once. notify: tells the user a line.
    """

    start: Callable[[], Actor]
    task: str
    _: KW_ONLY
    workers: int
    capacity: int
    notify: Callable[[str], None] = lambda line: None
    _hands: list[_Hand] = field(default_factory=list)  # those that are open
    _tickets: Iterator[int] = field(default_factory=itertools.count)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Pool:
        self._keepers = [asyncio.create_task(self._keep(f"worker {number}")) for number in range(self.workers)]
        for keeper in self._keepers:
            keeper.add_done_callback(lambda _: self._changed.set())
        self._watch = asyncio.get_running_loop().call_later(_PATIENCE, self._tell)
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        """End the workers: with a farewell after a run, at once after an error or Ctrl-C."""
        self._watch.cancel()
        if error is None:
            farewells = (hand.actor.call("close") for hand in self._hands)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*farewells, return_exceptions=True), _FAREWELL)
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def solve(self, place: Place, asked: Asked, journal: Journal, told: Tell) -> Solved:
        """Let a worker answer a question; if it is lost, another one goes on from what the journal has."""
        for _ in range(MOST_LOSSES):
            hand = await self._free()
            try:
                last = await self._carry(hand.actor, place, asked, journal, told)
            except Lost as why:
                if not hand.lost.done():
                    self._hands.remove(hand)
                    hand.lost.set_result(why)
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
            f"{MOST_LOSSES} workers were lost with the question {asked.id}; the last one: {hand.lost.result()}"
        )

    async def _carry(self, actor: Actor, place: Place, asked: Asked, journal: Journal, told: Tell) -> Parcel:
        """Write what a worker sends of a question until its last parcel. Raises Lost, or why it cannot be written."""
        recorded = tuple(journal.load(asked.run, asked.id).values())
        ticket = next(self._tickets)
        question: tuple[object, ...] = (place, asked, recorded)
        while True:
            parcel: Parcel = await actor.call("solve", ticket, *question)
            await gather(*(journal.append(asked.run, asked.id, effect) for effect in parcel.effects))
            if parcel.told is not None:
                told(parcel.told)
            if parcel.is_last:
                return parcel
            question = ()

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
                error: RegroundError | None = await hand.actor.call("open", self.task)
                if error is not None:
                    raise type(error)(f"{name}: {error}")
                self._hands.append(hand)
                self._changed.set()
                why = await hand.lost
            except Lost as lost:
                why = lost
            finally:
                hand.actor.kill()
            fruitless = 0 if hand.answered else fruitless + 1
            if fruitless == MOST_LOSSES:
                raise ConfigurationError(f"a worker ended {MOST_LOSSES} times without an answer: {why}")
            self.notify(f"{name} was lost ({why}); its questions go to others")
            await asyncio.sleep(0.1 * 2**fruitless)

    def _tell(self) -> None:
        """Say what is waited for where no worker begins."""
        if not self._hands:
            self.notify("no worker has begun yet; each waits for a free CPU of the cluster (ray_cpus)")

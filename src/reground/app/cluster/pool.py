"""The command's side: what is sent, which worker gets a question, and what happens if a worker is lost.

What is sent is names, settings and what was recorded; no open client is.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from reground.core.concurrency import being_cancelled, gather
from reground.core.errors import ConfigurationError, DataError, RegroundError
from reground.core.journal import Effect, Journal
from reground.core.method import Solved
from reground.core.trajectory import Trajectory
from reground.evaluation.compare import Cell
from reground.evaluation.runner import FATAL, Asked, Tell, Told

if TYPE_CHECKING:
    from reground.app.options import Benchmark
    from reground.training.critics.collect import Searching


MOST_LOSSES = 5
"""How many workers a question may lose before it stops the run: it may be what ends them."""
_PATIENCE = 15.0
"""Seconds without any worker until the user is told what is waited for."""
_FAREWELL = 2.0
"""Seconds that a worker has to close its connections."""
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


class Lost(Exception):
    """The worker is gone: it, its machine or the way to it."""


class Remote(Protocol):
    """A worker, from afar. Each call raises Lost where the worker is gone."""

    async def call(self, method: str, *arguments: object) -> Any:
        """What a method of `Worker` returns."""
        ...

    def kill(self) -> None:
        """End the worker, whatever it does."""
        ...


@dataclass(frozen=True)
class _Carried:
    """A question that a worker has."""

    asked: Asked
    journal: Journal
    told: Tell


@dataclass(eq=False)
class _Hand:
    """A worker in use. attending: writes what it sends, until it is gone."""

    remote: Remote
    name: str
    carried: dict[int, _Carried] = field(default_factory=dict)
    finished: int = 0
    attending: asyncio.Task[None] | None = None

    async def attend(self) -> None:
        """Write what the worker sends and confirm it, for ever. Raises Lost, or why it could not be written."""
        confirmed = 0
        while True:
            parcel: Parcel = await self.remote.call("exchange", confirmed)
            await gather(*(self._write(ticket, effect) for ticket, effect in parcel.effects))
            for ticket, told in parcel.told.items():
                if ticket in self.carried:
                    self.carried[ticket].told(told)
            confirmed = parcel.number

    async def _write(self, ticket: int, effect: Effect) -> None:
        one = self.carried.get(ticket)
        if one is None:  # the run was ended; its method must not go on
            raise Lost("its question was taken back")
        await one.journal.append(one.asked.run, one.asked.id, effect)

    async def solve(self, question: Question) -> Done:
        """Let the worker answer a question. Raises Lost only when all that it had sent is in the journal."""
        assert self.attending is not None
        solving = asyncio.ensure_future(self.remote.call("solve", question))
        solving.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may wait for a lost one
        try:
            await asyncio.wait({solving, self.attending}, return_when=asyncio.FIRST_COMPLETED)
            if self.attending.done():
                self.attending.result()  # raises
            done: Done | Trouble = await solving
        except Lost:
            self.remote.kill()
            with suppress(Lost, TimeoutError):
                await asyncio.wait_for(asyncio.shield(self.attending), _FAREWELL)
            self.attending.cancel()
            raise
        finally:
            solving.cancel()
        if isinstance(done, Trouble):
            raise done.error(self.name)
        return done


class Pool:
    """Workers, each with at most `capacity` questions at once. A worker that is lost is replaced.

    start: begins a worker. notify: tells the user a line.
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
        self._hands: list[_Hand] = []
        self._starting: set[Remote] = set()
        self._seats: list[asyncio.Task[None]] = []
        self._tickets = itertools.count()
        self._changed = asyncio.Condition()
        self._error: Exception | None = None

    async def __aenter__(self) -> Pool:
        self._seats = [asyncio.create_task(self._keep(number)) for number in range(self._workers)]
        self._seats.append(asyncio.create_task(self._watch()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the workers: with a farewell after a run, at once after an error or Ctrl-C."""
        for seat in self._seats:
            seat.cancel()
        await asyncio.gather(*self._seats, return_exceptions=True)
        if error is None:
            farewells = (hand.remote.call("close") for hand in self._hands)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*farewells, return_exceptions=True), _FAREWELL)
        for remote in (*self._starting, *(hand.remote for hand in self._hands)):
            remote.kill()

    async def ready(self) -> None:
        """Return when every worker has begun. Raises the error that stops the run."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._error is not None or len(self._hands) == self._workers)
        if self._error is not None:
            raise self._error

    def at(self, place: Place, identity: Mapping[str, object]) -> At:
        """The port for one method. identity: what a worker must take it to be."""
        return At(self, place, identity)

    async def solve(self, at: At, asked: Asked, journal: Journal, told: Tell) -> Solved:
        """Let a worker answer a question; if it is lost, another one goes on from what the journal has."""
        for _ in range(MOST_LOSSES):
            ticket = next(self._tickets)
            hand = await self._free(ticket, _Carried(asked, journal, told))
            try:
                recorded = tuple(journal.load(asked.run, asked.id).values())
                done = await hand.solve(Question(ticket, at.place, at.identity, asked, recorded))
            except Lost as why:
                lost = why
                continue
            finally:
                await self._give_back(hand, ticket)
            hand.finished += 1
            if done.told is not None:
                told(done.told)
            return Solved(done.trajectory, None if done.trouble is None else done.trouble.error(hand.name))
        raise RegroundError(f"{MOST_LOSSES} workers were lost with the question {asked.id}; the last one: {lost}")

    async def _free(self, ticket: int, carried: _Carried) -> _Hand:
        """The worker with the fewest questions, as soon as one has room."""

        def room() -> list[_Hand]:
            return [hand for hand in self._hands if len(hand.carried) < self._capacity]

        async with self._changed:
            await self._changed.wait_for(lambda: self._error is not None or room())
            if self._error is not None:
                raise self._error
            hand = min(room(), key=lambda each: len(each.carried))
            hand.carried[ticket] = carried
            return hand

    async def _give_back(self, hand: _Hand, ticket: int) -> None:
        del hand.carried[ticket]
        async with self._changed:
            self._changed.notify_all()

    async def _keep(self, number: int) -> None:
        """Keep one worker at work: begin it, attend to it, and begin another one when it is lost."""
        fruitless = 0
        while self._error is None:
            finished, why = 0, "it ended"
            try:
                hand = await self._begin(number)
                finished, why = await self._attended(hand)
            except Lost as lost:
                why = str(lost)
            except Exception as error:
                await self._fail(error)
                return
            fruitless = 0 if finished else fruitless + 1
            if fruitless == MOST_LOSSES:
                await self._fail(ConfigurationError(f"a worker ended {MOST_LOSSES} times without an answer: {why}"))
                return
            self._notify(f"worker {number} was lost ({why}); its questions go to others")
            await asyncio.sleep(0.1 * 2**fruitless)

    async def _begin(self, number: int) -> _Hand:
        remote = self._start()
        self._starting.add(remote)
        try:
            trouble: Trouble | None = await remote.call("open", self._task)
        except Lost:
            remote.kill()
            self._starting.discard(remote)
            raise
        if trouble is not None:
            raise trouble.error(f"worker {number}")
        hand = _Hand(remote, f"worker {number}")
        hand.attending = asyncio.create_task(hand.attend())
        async with self._changed:
            self._hands.append(hand)
            self._starting.discard(remote)
            self._changed.notify_all()
        return hand

    async def _attended(self, hand: _Hand) -> tuple[int, str]:
        """Return when a worker is lost: the number of questions that it answered, and why."""
        assert hand.attending is not None
        try:
            await asyncio.wait({hand.attending})
            hand.attending.result()
        except asyncio.CancelledError:
            if not hand.attending.done() or being_cancelled():  # this task, and not the attending
                hand.attending.cancel()
                raise
        except Lost as lost:
            return hand.finished, str(lost)
        finally:
            if hand.attending.done():
                hand.remote.kill()
                self._hands.remove(hand)
        return hand.finished, "it does not answer"

    async def _fail(self, error: Exception) -> None:
        """Stop the run."""
        async with self._changed:
            self._error = self._error if self._error is not None else error
            self._changed.notify_all()

    async def _watch(self) -> None:
        """Say what is waited for where no worker begins."""
        await asyncio.sleep(_PATIENCE)
        if not self._hands and self._error is None:
            self._notify("no worker has begun yet; each waits for a free CPU of the cluster (ray_cpus)")


@dataclass(frozen=True)
class At:
    """One method at the workers; an Elsewhere."""

    pool: Pool
    place: Place
    identity: Mapping[str, object]

    async def solve(self, asked: Asked, journal: Journal, told: Tell, /) -> Solved:
        """Let a worker answer the question."""
        return await self.pool.solve(self, asked, journal, told)

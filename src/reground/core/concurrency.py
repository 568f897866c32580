"""Work at the same time: branches that all end, blocking work that a cancelled task need not wait for, calls that one
thread answers together, and objects that belong to one event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def in_daemon(work: Callable[[], T], *, name: str) -> T:
    """Do the work in a daemon thread of this name while the event loop goes on.

    After a cancellation the work is left to the end of the process, for the loop and the interpreter wait for asyncio's
    own threads when they end.
    """
    result: Future[T] = Future()

    def run() -> None:
        result.set_running_or_notify_cancel()
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(result)


async def gather(*branches: Awaitable[T]) -> list[T]:
    """Await all branches. If one fails, the others still finish, because they are paid for; then its error is raised.

    Cancellation reaches every branch at once.
    """
    results = await asyncio.gather(*branches, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def to_its_end(work: Awaitable[T]) -> T:
    """Await work that must not be cancelled half done. A cancellation meanwhile arrives at the caller's next await."""
    task, caller = asyncio.ensure_future(work), asyncio.current_task()
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        result = await task
        if caller is not None:
            caller.uncancel()  # else it counts twice, and Ctrl-C is no KeyboardInterrupt
            caller.cancel()
        return result


async def close(part: object) -> None:
    """Close a model, a retriever or an engine, if it can be closed."""
    aclose = getattr(part, "aclose", None)
    if aclose is not None:
        await aclose()


def being_cancelled() -> bool:
    """Whether the code runs in a task that is being cancelled, as at Ctrl-C, and should hold nobody up."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop
        return False
    return task is not None and task.cancelling() > 0


Session = TypeVar("Session", bound=Any)


class PerLoop(Generic[Session]):
    """What belongs to one event loop and has a coroutine `close`, as an HTTP session: made for each loop that asks."""

    def __init__(self, make: Callable[[], Session]) -> None:
        self._make = make
        self._made: dict[asyncio.AbstractEventLoop, Session] = {}

    async def get(self) -> Session:
        """The running loop's; those of loops that have ended are closed."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            await self.aclose()
            self._made[loop] = self._make()
        return self._made[loop]

    async def aclose(self) -> None:
        """Close the running loop's, and those of loops that have ended. The next call makes a new one."""
        loop = asyncio.get_running_loop()
        for owner in [owner for owner in self._made if owner is loop or owner.is_closed()]:
            await self._made.pop(owner).close()


Call = TypeVar("Call")
Answer = TypeVar("Answer")
Loaded = TypeVar("Loaded")


@dataclass
class Job(Generic[Call, Answer]):
    """A call that waits for its answer or is being answered. cancelled: set when its caller has gone."""

    call: Call
    answer: Future[Answer] = field(default_factory=Future)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def settle(self, outcome: Answer | Exception) -> None:
        """Give the caller its answer, or the error in its place."""
        if not self.answer.set_running_or_notify_cancel():
            return
        if isinstance(outcome, Exception):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)


class BatchThread(Generic[Loaded, Call, Answer]):
    """A thread that answers calls with something large that it loads first; calls that wait are answered together.

    work: the answers to some jobs, in their order. fits: whether a job may join those of a batch. name: of the thread.
    If a batch fails, each job is tried alone, so that the fault of one does not fail the others.
    """

    def __init__(
        self,
        load: Callable[[], Loaded],
        work: Callable[[Loaded, Sequence[Job[Call, Answer]]], Sequence[Answer]],
        fits: Callable[[Sequence[Job[Call, Answer]], Job[Call, Answer]], bool],
        *,
        name: str,
    ) -> None:
        self.loaded: Loaded | None = None
        self._load = load
        self._work = work
        self._fits = fits
        self._waiting: list[Job[Call, Answer]] = []
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def ask(self, call: Call) -> Answer:
        """The answer to a call, or its error."""
        job: Job[Call, Answer] = Job(call)
        with self._lock:
            self._waiting.append(job)
        self._thread.submit(self._next)
        try:
            return await asyncio.wrap_future(job.answer)
        except asyncio.CancelledError:
            job.cancelled.set()
            raise

    def unload(self) -> Future[None]:
        """Free what is loaded after the current batch. A later call loads it again."""
        return self._thread.submit(setattr, self, "loaded", None)

    def _next(self) -> None:
        """Answer the call that has waited longest, together with those that fit it."""
        batch: list[Job[Call, Answer]] = []
        others: list[Job[Call, Answer]] = []
        with self._lock:
            for job in self._waiting:
                if not job.cancelled.is_set():
                    (batch if not batch or self._fits(batch, job) else others).append(job)
            self._waiting = others
        if batch:
            self._answer(batch)

    def _answer(self, jobs: Sequence[Job[Call, Answer]]) -> None:
        try:
            self.loaded = self.loaded or self._load()
            answers = self._work(self.loaded, jobs)
        except Exception as error:
            for job in jobs:
                if len(jobs) > 1 and self.loaded is not None:
                    self._answer([job])
                else:
                    job.settle(error)
            return
        for job, answer in zip(jobs, answers, strict=True):
            job.settle(answer)

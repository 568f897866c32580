"""Work at the same time: branches that all end, and blocking work that a cancelled task need not wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar

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


def being_cancelled() -> bool:
    """Whether the code runs in a task that is being cancelled, as at Ctrl-C, and should hold nobody up."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop
        return False
    return task is not None and task.cancelling() > 0

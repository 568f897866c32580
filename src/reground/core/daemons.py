"""Long blocking work that a cancelled task need not wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
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

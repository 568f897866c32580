"""Work in a thread that Ctrl-C need not wait for: a step of a fit is one library call, and takes seconds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

THREAD = "reground-fit"
"""A process that is interrupted ends without waiting for a thread of this name (`app.cli.main`). Fits lose nothing by
it, because their checkpoints and results are put in place whole."""


async def in_background(work: Callable[[], T]) -> T:
    """Do long blocking work while the event loop goes on. After a cancellation it is left to the end of the process."""
    result: Future[T] = Future()

    def run() -> None:
        result.set_running_or_notify_cancel()
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    # A daemon thread, because the loop and the interpreter wait for asyncio's own threads when they end.
    threading.Thread(target=run, name=THREAD, daemon=True).start()
    return await asyncio.wrap_future(result)

"""Work in a thread that Ctrl-C need not wait for: a step of a fit is one library call, and takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reground.core.concurrency import in_daemon

T = TypeVar("T")

THREAD = "reground-fit"
"""A process that is interrupted ends without waiting for a thread of this name (`app.cli.main`). Fits lose nothing by
it, because their checkpoints and results are put in place whole."""


async def in_background(work: Callable[[], T]) -> T:
    """Do long blocking work while the event loop goes on. After a cancellation it is left to the end of the process."""
    return await in_daemon(work, name=THREAD)

"""Branches of a run that work at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


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

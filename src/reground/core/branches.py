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

"""What a server tells about itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Asked(Generic[T]):
    """An answer that is requested once for all concurrent calls. None is no answer yet: the next call asks again."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, T | None]], *, known: T | None = None) -> None:
        self._ask = ask
        self._answer = known
        self._asking: asyncio.Task[T | None] | None = None

    async def get(self) -> T | None:
        """The answer."""
        if self._answer is None:
            if self._asking is None or self._asking.get_loop() is not asyncio.get_running_loop():
                self._asking = asyncio.create_task(self._ask())
            self._answer = await asyncio.shield(self._asking)
            self._asking = None if self._answer is None else self._asking
        return self._answer

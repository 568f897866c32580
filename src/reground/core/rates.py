"""How fast a server may be asked, and how long it says to wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime

BURST_SECONDS = 10.0
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


class Bucket:
    """A token bucket: fills at `per_minute`, holds some seconds' worth (at least 1), serves in order of arrival.

    A request larger than the bucket waits until it is full and leaves a debt, so that the average holds.
    """

    def __init__(
        self,
        per_minute: float,
        *,
        burst_seconds: float = BURST_SECONDS,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._rate = per_minute / 60.0
        self._capacity = max(1.0, self._rate * burst_seconds)
        self._level = self._capacity
        self._clock = clock
        self._sleep = sleep
        self._at = clock()
        self._turn = asyncio.Lock()
        self._nap: asyncio.Future[None] | None = None

    def _refill(self) -> float:
        now = self._clock()
        self._level = min(self._capacity, self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level

    async def take(self, amount: float) -> None:
        """Return when `amount` may be spent."""
        needed = min(amount, self._capacity)
        async with self._turn:
            while (missing := needed - self._refill()) > 1e-9:
                await self._wait(missing / self._rate)
            self._level -= amount

    async def _wait(self, seconds: float) -> None:
        """Return when the seconds are over, or something was given back, which may be enough."""
        self._nap = nap = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait((nap,))
        finally:
            nap.cancel()
        if not nap.cancelled():
            nap.result()

    def settle(self, difference: float) -> None:
        """Correct the amount taken: a positive difference takes more, a negative one gives back."""
        self._refill()
        self._level = min(self._capacity, self._level - difference)
        if difference < 0 and self._nap is not None:
            self._nap.cancel()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from Retry-After (seconds or an HTTP date) or retry-after-ms."""
    for name, unit in (("retry-after-ms", 1000.0), ("Retry-After", 1.0)):
        with suppress(ValueError):
            if (told := headers.get(name)) is not None:
                return max(0.0, float(told) / unit)
    given = headers.get("Retry-After")
    if given is None:
        return None
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except ValueError:
        return None

"""Replies are judged in the background, many at once, while the model works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Generic, Self, TypeVar

Q = TypeVar("Q")

Judged = Mapping[str, float]
"""What a reply is worth: `score` is the reward, the other numbers are its parts."""
Judge = Callable[[Q, str], Awaitable[Judged]]


class Judging(Generic[Q]):
    """Judges replies in a thread with an event loop of its own, so that many wait for a reader at once."""

    def __init__(self, judge: Judge[Q]) -> None:
        self._judge = judge
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="judging", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(timeout=1)

    def _run(self) -> None:
        """Serve until the end, then cancel what still waits."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._over.wait())

    def submit(self, question: Q, text: str) -> Future[Judged]:
        """Begin to judge a reply."""

        async def judged() -> Judged:
            return await self._judge(question, text)

        return asyncio.run_coroutine_threadsafe(judged(), self._loop)

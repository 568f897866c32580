"""A question in work: its steps as they happen, then its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from reground.app.serving.refusals import Gone

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from reground.app.result import Result
    from reground.core.run import Event, Observer

Receive = Callable[[], Awaitable["MutableMapping[str, Any]"]]


@asynccontextmanager
async def while_connected(receive: Receive) -> AsyncIterator[None]:
    """Cancel what runs within when the client goes away. Raises Gone then.

    receive: of the request, whose body has been read.
    """
    task = asyncio.current_task()
    assert task is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        task.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if gone and task.uncancel() == 0:
            raise Gone from None
        raise
    finally:
        watching.cancel()


class Work:
    """A question that is answered while its steps are read. Leaving the block cancels it.

    ask: answers, and tells the observer what happens.
    """

    def __init__(self, ask: Callable[[Observer], Awaitable[Result]]) -> None:
        self._news: asyncio.Queue[Event | None] = asyncio.Queue()
        self._ask = ask
        self._task: asyncio.Task[Result] | None = None
        self._first: Event | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._answered())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # it was told, or nobody is left to be told

    async def _answered(self) -> Result:
        try:
            return await self._ask(self._news.put_nowait)
        finally:
            self._news.put_nowait(None)

    async def begun(self, seconds: float) -> None:
        """Return at the first step, or after these seconds. Raises what kept the question from beginning."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                self._first = await self._news.get()
                if self._first is None:
                    self._news.put_nowait(None)
                    await self.result()

    async def events(self, heartbeat: float | None) -> AsyncIterator[Event | None]:
        """What happens, as it happens; None after that many seconds without news; never for None."""
        if self._first is not None:
            yield self._first
        while True:
            try:
                async with asyncio.timeout(heartbeat):
                    event = await self._news.get()
            except TimeoutError:
                yield None
                continue
            if event is None:
                return
            yield event

    async def result(self) -> Result:
        """The result. Raises what kept the method from an answer."""
        assert self._task is not None
        return await asyncio.shield(self._task)

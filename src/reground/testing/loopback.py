"""A server on loopback, for the time of a block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from aiohttp import web


class Loopback(ABC):
    """Listens on a free port of 127.0.0.1 within `async with`. port: 0 until then."""

    def __init__(self) -> None:
        self._runner: web.AppRunner | None = None
        self.port = 0

    @abstractmethod
    def application(self) -> web.Application:
        """What is served."""

    @property
    def origin(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> Self:
        """Listen; 0 takes a free port."""
        self._runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port, backlog=2048).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        """Stop listening and drop open requests."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

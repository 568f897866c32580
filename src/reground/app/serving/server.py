"""The life of the server: from its socket to its end by SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from reground.app.serving.api import application
from reground.app.serving.keys import Keys
from reground.core.http import cannot_listen, is_loopback

if TYPE_CHECKING:
    from reground.app.options_serving import Serve
    from reground.app.serving.engine import Engine

_CANCELLED_SECONDS = 0.5
"""How long cancelled requests may take to end."""


class _Server(uvicorn.Server):
    """uvicorn, which ends at once at Ctrl-C, and returns after SIGTERM so that models and documents are closed."""

    interrupted = False

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.should_exit = True
        if sig == signal.SIGINT:
            self.interrupted = self.force_exit = True
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for task in self.server_state.tasks:
            task.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=_CANCELLED_SECONDS)


async def serve(engine: Engine, order: Serve, keys: Keys | None, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it. on_ready: told the address. Raises KeyboardInterrupt after Ctrl-C.

    After SIGTERM no connection is accepted any more, and questions in work have `grace` seconds to their end.
    """
    app = application(engine, order, keys, here=is_loopback(order.host))
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        log_level="critical",
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=order.grace,  # type: ignore[arg-type]
    )
    listening = _socket(order)
    host, port = listening.getsockname()[:2]
    server = _Server(config)
    on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        await server.serve([listening])
    finally:
        listening.close()
    if server.interrupted:
        raise KeyboardInterrupt


def _socket(order: Serve) -> socket.socket:
    """The open socket. Raises ConfigurationError."""
    try:
        # without the port, of which it takes the last 16 bits alone
        found = socket.getaddrinfo(order.host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server((address[0], order.port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise cannot_listen(order.host, order.port, error) from None

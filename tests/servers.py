"""A server in a thread of its own, for tests of commands that run their own event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web

from reground.testing.openai_server import Loopback, MockOpenAI

Server = TypeVar("Server", bound=AbstractAsyncContextManager[Any])


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve until the block ends."""

    async def close() -> None:
        await server.__aexit__(None, None, None)
        handlers = asyncio.all_tasks() - {asyncio.current_task()}  # of clients that left without waiting for a reply
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def in_order(*replies: str) -> MockOpenAI:
    """A server that gives these replies one after the other, and the last one from then on."""
    left = list(replies)
    return MockOpenAI(lambda body: left.pop(0) if len(left) > 1 else left[0])


def model_of(server: MockOpenAI) -> list[str]:
    """The options that name a server's model."""
    return ["--model", "openai/mock", "--base-url", server.url]


@dataclass(frozen=True)
class Recorded:
    """A reply. body: as it is sent."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A request. body: its JSON; None if it has none."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class RecordedServer(Loopback):
    """Gives its replies in their order to every POST and to every GET of `models`; the last one from then on.

    Other pages are a 404 and are not kept: adapters look for them at a server of one's own.
    """

    def __init__(self, replies: Iterable[Recorded]) -> None:
        super().__init__()
        self._replies = deque(replies)
        if not self._replies:
            raise ValueError("a recorded server needs a reply")
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        """The address, without a path."""
        return self.origin

    def application(self) -> web.Application:
        """Every path and method, answered with the next reply."""
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_route("*", "/{path:.*}", self._reply)
        return app

    async def _reply(self, request: web.Request) -> web.Response:
        if request.method == "GET" and not request.path.endswith("/models"):
            return web.json_response({"error": "File Not Found"}, status=404)
        text = await request.text()
        body = json.loads(text) if text else None
        self.asked.append(Asked(request.method, request.path, dict(request.headers), body))
        reply = self._replies.popleft() if len(self._replies) > 1 else self._replies[0]
        return web.Response(
            status=reply.status, text=reply.body, headers=reply.headers, content_type="application/json"
        )

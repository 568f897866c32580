"""A server in a thread of its own, for tests of commands that run their own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

from reground.testing.openai_server import MockOpenAI

Server = TypeVar("Server", bound=AbstractAsyncContextManager[Any])


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def in_order(*replies: str) -> MockOpenAI:
    """A server that gives these replies one after the other, and the last one from then on."""
    left = list(replies)
    return MockOpenAI(lambda body: left.pop(0) if len(left) > 1 else left[0])

"""A server that writes raw bytes: every request gets a right reply of the model, or a fault that was drawn for it."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from reground.testing.openai_server import MockOpenAI, embed

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

Wire = asyncio.StreamWriter
Fault = Callable[[Wire, dict[str, Any]], Awaitable[None]]
"""Writes what is wrong, from the reply that would be right."""


class BadServer:
    """Chat completions and embeddings. choose: the fault for a request's body, None for a right reply.

    counts: right replies, by the text of the last message or by "embeddings".
    """

    def __init__(self, choose: Callable[[dict[str, Any]], Fault | None] = lambda body: None) -> None:
        self.choose = choose
        self.counts: Counter[str] = Counter()
        self.url = ""
        self._right = MockOpenAI(lambda body: "It is so.\nAnswer: Writer 1")

    async def serve(self, reader: asyncio.StreamReader, wire: Wire) -> None:
        """One request a connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = json.loads(await reader.readexactly(int(length[1]))) if length else {}
            reply = self._reply(body)
            fault = self.choose(body)
            if fault is not None:
                await fault(wire, reply)
            else:
                self.counts[body["messages"][-1]["content"] if "messages" in body else "embeddings"] += 1
                wire.write(whole(json.dumps(reply).encode()))
            await wire.drain()
        with suppress(ConnectionError):
            wire.close()
            await wire.wait_closed()

    def _reply(self, body: dict[str, Any]) -> dict[str, Any]:
        if "messages" in body:
            return self._right.completion(body)
        data = [{"index": index, "embedding": embed(text)} for index, text in enumerate(body.get("input", []))]
        return {"object": "list", "data": data, "model": "mock", "usage": {"prompt_tokens": 1, "total_tokens": 1}}


@asynccontextmanager
async def serving(server: BadServer) -> AsyncIterator[BadServer]:
    """Serve until the block ends; what hangs then is dropped."""
    tasks: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, wire: Wire) -> None:
        task = asyncio.create_task(server.serve(reader, wire))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(begin, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def whole(body: bytes, status: str = "200 OK", headers: str = "", *, length: str | None = None) -> bytes:
    """A response. length: what Content-Length says instead of the truth; empty for no such header."""
    said = str(len(body)) if length is None else length
    counted = f"Content-Length: {said}\r\n" if said else ""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n{counted}{headers}\r\n"
    return head.encode("latin-1", "replace") + body

"""A server that gives one fixed reply to every request: it must cost far less than the client it measures.

python -m benchmarks.fast_server LATENCY     # seconds; the first line of output is the base URL
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

from reground.testing.openai_server import MockOpenAI

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
WORDS = 100


class _Fixed(asyncio.Protocol):
    """Finds the end of each request by its Content-Length and answers after the latency.

    A request without a body asks what the server has, not the model, so it is answered at once.
    """

    def __init__(self, reply: bytes, latency: float) -> None:
        self._reply = reply
        self._latency = latency
        self._loop = asyncio.get_running_loop()
        self._waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.WriteTransport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting = data = self._waiting + data if self._waiting else data
        while (head := data.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(data, 0, head)
            end = head + 4 + (int(length.group(1)) if length else 0)
            if len(data) < end:
                break
            data = data[end:]
            self._loop.call_later(self._latency if length else 0, self._answer)
        self._waiting = data

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._reply)


async def serve_fixed(latency: float) -> str:
    """Listen on a free loopback port and return the base URL. The reply is that of a hundred words."""
    text = " ".join(f"word{number}" for number in range(WORDS))
    completion = MockOpenAI().completion({"model": "mock", "messages": [{"role": "user", "content": text}]})
    body = json.dumps(completion).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    reply = head.encode() + body
    server = await asyncio.get_running_loop().create_server(
        lambda: _Fixed(reply, latency), "127.0.0.1", 0, backlog=4096
    )
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def main(latency: float) -> None:
    """Serve until interrupted."""
    print(await serve_fixed(latency), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))

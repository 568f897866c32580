"""A server that writes raw bytes, and what it may do wrong, in families; the details of each are drawn."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from reground.testing.openai_server import MockOpenAI

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

Wire = asyncio.StreamWriter
Fault = Callable[[Wire, dict[str, Any]], Awaitable[None]]
"""Writes what is wrong, from the reply that would be right."""


class BadServer:
    """Chat completions. choose: the fault for a request's body, None for a right reply.

    counts: right replies, by the text of the last message.
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
            if not body:  # a page that tells what the server is
                wire.write(whole(b"", "404 Not Found"))
            elif fault := self.choose(body):
                await fault(wire, self._right.completion(body))
            else:
                self.counts[body["messages"][-1]["content"]] += 1
                wire.write(whole(json.dumps(self._right.completion(body)).encode()))
            await wire.drain()
        with suppress(ConnectionError):
            wire.close()
            await wire.wait_closed()


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


FOREVER = 3600.0
_ODD_WAITS = (
    "-1", "nan", "inf", "1e400", "soon", "9" * 30, "0x10", "", "Fri, 31 Feb 2099 25:61:61 GMT",
    "Fri, 01 Jan 0001 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00", "Mon, 99 Foo 99999 00:00:00 GMT", "\xff\xfe",
    "1, 2",
)  # fmt: skip
_STATUSES = (
    "429 Too Many Requests", "500 Internal Server Error", "503 Service Unavailable", "502 Bad Gateway",
    "408 Request Timeout", "529 Overloaded", "418 I'm a teapot", "400 Bad Request", "422 Unprocessable",
    "404 Not Found", "599 ", "999 Odd", "204 No Content", "206 Partial Content", "304 Not Modified",
    "101 Switching Protocols",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, 0, -1, 1e308, float("nan"), float("inf"), "", "x" * 100_000, [], {}, [[]], [None], {"a": {}}, True, "\ud800",
    10**400, -(2**63) - 1, "NaN", [1, 2, 3], {"\udfff": 1},
)  # fmt: skip
_BODIES = (
    b"", b"null", b"[]", b"{}", b"1e999", b"true", b'"text"', b"\xef\xbb\xbf{}", b"{'choices': []}", b"\x00" * 64,
    '{"choices": []}'.encode("utf-16"), b'{"choices": "\xff\xfe"}', b"[" * 200_000, b'{"a":' * 200_000, b"NaN",
    b'{"choices": [NaN]}', b'{"choices": {}}', b'{"choices": null}', b"9" * 100_000, b'{"error": null}',
    b'{"error": "no"}', b'{"error": {"message": null, "code": []}}', b'{"error": [1]}', b'{"error": {"code": 1e400}}',
    b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n', b"<html><body>Welcome</body></html>",
    b'{"detail": [{"loc": ["body"], "msg": "odd"}]}', b'{"choices": [{"message": {"content": "a"}}]} and more',
)  # fmt: skip


def _raw(data: bytes) -> Fault:
    return _changed(lambda reply: data)


def _changed(change: Callable[[dict[str, Any]], bytes]) -> Fault:
    async def write(wire: Wire, reply: dict[str, Any]) -> None:
        wire.write(change(reply))

    return write


def _packed(reply: Any) -> bytes:
    return json.dumps(reply).encode()


def reset(chance: random.Random) -> Fault:
    """The connection is reset before, within or after the headers, or within the body."""
    share, politely = chance.choice((0.0, 0.02, 0.1, 0.3, 0.6, 0.95)), chance.random() < 0.5

    async def fault(wire: Wire, reply: dict[str, Any]) -> None:
        data = whole(_packed(reply))
        wire.write(data[: int(len(data) * share)])
        await wire.drain()
        if not politely:
            wire.transport.abort()

    return fault


def stall(chance: random.Random) -> Fault:
    """Nothing comes any more, from the first byte on or later; or a byte now and then."""
    share, trickles = chance.choice((0.0, 0.1, 0.5, 0.9)), chance.random() < 0.5

    async def fault(wire: Wire, reply: dict[str, Any]) -> None:
        data = whole(_packed(reply))
        at = int(len(data) * share)
        wire.write(data[:at])
        while trickles and at < len(data):
            await asyncio.sleep(0.5)
            wire.write(data[at : at + 1])
            await wire.drain()
            at += 1
        await asyncio.sleep(FOREVER)

    return fault


def length_lie(chance: random.Random) -> Fault:
    """Content-Length is not the body's."""
    said = chance.choice(("0", "1", "99999", "-5", "abc", str(10**18), "10, 20", "0x20", "1" * 400, " ", "+3"))
    return _changed(lambda reply: whole(_packed(reply), length=said))


_CHUNKS = (
    b"zz\r\nhello\r\n", b"5\r\nhello", b"5\r\nhello\r\n", b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    b"-1\r\nhello\r\n0\r\n\r\n", b"5;" + b"x" * 70_000 + b"\r\nhello\r\n0\r\n\r\n", b"2\r\nhello\r\n0\r\n\r\n",
    b"0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", b"\r\n\r\n",
)  # fmt: skip
_HEADS = (
    b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/9.9 abc\r\n\r\n", b"HTTP/1.1 \r\n\r\n", b"\r\n\r\n\r\n\r\n",
    bytes(range(256)) * 40, b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2_000_000 + b"\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200_000 + b"\r\n{}", b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\n: nameless\r\n\r\n{}", b"HTTP/1.1 100 Continue\r\n\r\n" * 3000,
    b"HTTP/1.1 200 OK\r\nContent-Type: \xff\xfe;charset=\x01\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 103 Early Hints\r\n\r\n", b"<html>no protocol</html>", b"HTTP/1.1 -200 OK\r\n\r\n{}",
    b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"{}",
)  # fmt: skip


def chunks(chance: random.Random) -> Fault:
    """Chunked transfer that breaks its own rules."""
    lies = chance.choice(("Transfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked, gzip\r\n"))
    return _raw(whole(chance.choice(_CHUNKS), headers=lies, length=chance.choice(("", "", "7"))))


def head(chance: random.Random) -> Fault:
    """A status line or headers that are none."""
    return _raw(chance.choice(_HEADS))


def status(chance: random.Random) -> Fault:
    """A refusal, with or without a wait that nobody can make out."""
    headers = ""
    if chance.random() < 0.7:
        name = chance.choice(("Retry-After", "retry-after-ms"))
        headers = f"{name}: {chance.choice(_ODD_WAITS)}\r\n"
    if chance.random() < 0.2:
        headers += "Content-Type: text/plain; charset=klingon\r\n"
    return _raw(whole(chance.choice(_BODIES), chance.choice(_STATUSES), headers))


def redirect(chance: random.Random) -> Fault:
    """A way that leads nowhere or round in a circle."""
    where = chance.choice(
        ("/v1/chat/completions", "file:///etc/passwd", "http://[::1", "", "//", "javascript:1", "\xff")
    )
    code = chance.choice(("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent", "300 Choices"))
    return _raw(whole(b"", code, f"Location: {where}\r\n" if where else ""))


def packing(chance: random.Random) -> Fault:
    """A body packed wrongly, too often, as it was not asked for, or a bomb."""
    bomb = zlib.compressobj(wbits=31)
    data = chance.choice(
        (
            lambda: b"".join(bomb.compress(b"x" * (1 << 20)) for _ in range(300)) + bomb.flush(),
            lambda: gzip.compress(b'{"choices": []}')[:-9],
            lambda: gzip.compress(b'{"choices": []}') + b"garbage",
            lambda: gzip.compress(gzip.compress(b"{}")),
            lambda: b"not packed at all",
            lambda: b"",
        )
    )()
    named = chance.choice(("gzip", "gzip", "gzip", "br", "deflate", "zstd", "gzip, gzip", "\xff", "GZIP"))
    return _raw(whole(data, headers=f"Content-Encoding: {named}\r\n"))


def endless(chance: random.Random) -> Fault:
    """A body without an end."""
    opening = chance.choice((b'{"choices": [{"message": {"content": "', b"[", b"", b" "))
    filling = chance.choice((b"x", b" ", b"[", b"0,", b"\n")) * (1 << 18)

    async def fault(wire: Wire, reply: dict[str, Any]) -> None:
        wire.write(whole(opening, length=""))
        while not wire.is_closing():
            wire.write(filling)
            await wire.drain()
            await asyncio.sleep(0)

    return fault


def no_json(chance: random.Random) -> Fault:
    """A body that is no JSON, or JSON of something else."""
    return _raw(whole(chance.choice(_BODIES)))


def _parted(chance: random.Random, edit: Callable[[Any, Any], None]) -> Fault:
    seed = chance.random()

    def change(reply: dict[str, Any]) -> bytes:
        edit(*random.Random(seed).choice(list(_parts(reply))))
        return whole(_packed(reply))

    return _changed(change)


def wrong_types(chance: random.Random) -> Fault:
    """The right reply with one of its parts replaced by something that has no place there."""
    value = chance.choice(ODD)
    return _parted(chance, lambda holder, key: holder.__setitem__(key, value))


def missing(chance: random.Random) -> Fault:
    """The right reply without one of its parts."""
    return _parted(chance, lambda holder, key: holder.__delitem__(key))


def _parts(value: Any) -> Any:
    """Every place in nested data that something else could stand in; of long lists the first places."""
    places: Sequence[Any] = ()
    if isinstance(value, dict):
        places = list(value)
    elif isinstance(value, list):
        places = range(min(3, len(value)))
    for key in places:
        yield value, key
        yield from _parts(value[key])


def logprobs(chance: random.Random) -> Fault:
    """Log-probabilities that are none, and calls of tools instead of a text."""
    number = chance.choice(ODD)
    odd = chance.choice(
        (
            {"content": [{"token": "a", "logprob": number}]},
            {"content": [{"token": number, "logprob": -1.0}]},
            {"content": number},
            {"tokens": ["a", "b"], "token_logprobs": [number]},
            {"tokens": number, "token_logprobs": number},
            number,
        )
    )
    tools = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": number}}]

    def change(reply: dict[str, Any]) -> bytes:
        for choice in reply.get("choices", []):
            choice["logprobs"] = odd
            if chance.random() < 0.3:
                choice["message"] = {"role": "assistant", "content": None, "tool_calls": tools}
        return whole(_packed(reply))

    return _changed(change)


SERVER: dict[str, Callable[[random.Random], Fault]] = {
    "connection reset": reset,
    "stalled or trickling": stall,
    "wrong Content-Length": length_lie,
    "broken chunks": chunks,
    "broken head": head,
    "refusal, odd Retry-After": status,
    "redirect": redirect,
    "wrong packing, bombs": packing,
    "endless body": endless,
    "no JSON": no_json,
    "wrong types": wrong_types,
    "missing parts": missing,
    "log-probabilities, tool calls": logprobs,
}

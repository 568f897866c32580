"""Sends JSON and streams of events, straight in the words of ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from pydantic_core import to_json

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HEARTBEAT = b": still working\n\n"


async def send_bytes(
    send: Send,
    body: bytes,
    *,
    status: int = 200,
    kind: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> None:
    """A whole response."""
    more = {"content-type": kind, "content-length": str(len(body)), **(headers or {})}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(more)})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, data: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
    """A whole response of JSON; what JSON has no word for, such as NaN, becomes null."""
    await send_bytes(send, to_json(data, inf_nan_mode="null"), status=status, headers=headers)


class EventStream:
    """A response of server-sent events, begun with its first."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def begin(self) -> None:
        """Send the headers; proxies are told to pass on every event at once."""
        headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            "x-accel-buffering": "no",
        }
        await self._send({"type": "http.response.start", "status": 200, "headers": _encoded(headers)})

    async def event(self, data: dict[str, Any] | None) -> None:
        """One event, named by its type if it has one; None is a comment that keeps the connection awake."""
        if data is None:
            return await self._piece(HEARTBEAT)
        name = f"event: {data['type']}\n".encode() if isinstance(data.get("type"), str) else b""
        await self._piece(b"%sdata: %s\n\n" % (name, to_json(data, inf_nan_mode="null")))

    async def end(self, word: str | None) -> None:
        """The last word, if there is one, and the end of the response."""
        await self._piece(b"" if word is None else b"data: %s\n\n" % word.encode(), more=False)

    async def _piece(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]

"""Reads a server's replies within limits: on their unpacked size, and on the seconds without data."""

from __future__ import annotations

import asyncio
import json
import json.decoder
import json.scanner
import zlib
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic_core import from_json

from reground.core.storable import storable_text

MIB = 1 << 20
LEAST_LIMIT = 2 * MIB
MOST_LIMIT = 64 * MIB
IDLE_SECONDS = 120.0
LARGE = MIB
ENCODING = "gzip"
_GZIP = (ENCODING, "x-gzip")  # the same by RFC 9110, section 8.4.1.3


class BadBody(Exception):
    """The fault of a reply's body, as the end of a sentence. passing: whether a retry may succeed."""

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(why)
        self.passing = passing


class Content(Protocol):
    """What is still to come of a body."""

    def is_eof(self) -> bool:
        """Whether all of it has arrived, read or not."""
        ...

    async def readany(self) -> bytes:
        """The next piece; nothing at the end."""
        ...


class Response(Protocol):
    """A response whose body has not been read, as aiohttp gives it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers, by names in any case."""
        ...

    @property
    def content(self) -> Content:
        """Its body."""
        ...

    def close(self) -> None:
        """Drop the connection."""
        ...


async def read_body(response: Response, most: int, *, idle: float = IDLE_SECONDS) -> bytes:
    """The body, unpacked; memory never holds more than `most` bytes of it. Raises BadBody.

    The session must not unpack by itself: a few packed kilobytes can be gigabytes.
    What follows the end of a packed body is passed over, as in browsers: padding, or a second member, legal but rare.
    idle: the most seconds without data.
    """
    packed = response.headers.get("Content-Encoding", "").strip().lower() or "identity"
    if packed not in ("identity", *_GZIP):
        raise BadBody(f"packed its reply as {packed}, which it was not asked to", passing=False)
    unpack = zlib.decompressobj(wbits=31) if packed in _GZIP else None
    parts: list[bytes] = []
    size = sent = 0
    while piece := await _piece(response.content, idle):
        sent += len(piece)  # limited too, because some of it may unpack to nothing, without end
        if unpack is not None:
            piece = _unpacked(unpack, piece, most - size)
        size += len(piece)
        if max(size, sent) > most:
            response.close()
            raise BadBody(f"sent more than the {most / MIB:.0f} MiB that a reply to this call may take", passing=False)
        parts.append(piece)
    if unpack is not None and not unpack.eof:
        raise BadBody("cut its packed reply short", passing=True)
    return b"".join(parts)


async def _piece(content: Content, idle: float) -> bytes:
    if content.is_eof():  # most replies arrive whole, and a timer costs more than reading them
        return await content.readany()
    try:
        async with asyncio.timeout(idle) as limit:
            return await content.readany()
    except TimeoutError:
        if not limit.expired():
            raise
        raise BadBody(f"sent nothing for {idle:g} s in the middle of its reply", passing=True) from None


def _unpacked(unpack: zlib._Decompress, piece: bytes, room: int) -> bytes:
    if unpack.eof:  # it would keep what follows the end
        return b""
    try:
        return unpack.decompress(piece, room + 1)
    except zlib.error as error:
        raise BadBody(f"packed its reply wrongly ({error})", passing=True) from None


def read_json(body: bytes) -> Any:
    """A body's JSON. Raises ValueError.

    Bytes that are no UTF-8, and half a surrogate pair, which a token limit may leave behind, become U+FFFD.
    Parse a large body in a thread: this parser is in Python, so other threads can run meanwhile.
    """
    if len(body) <= LARGE:
        try:
            return from_json(body)
        except ValueError as error:
            first = error
    try:
        text = body.decode("utf-8", "replace")
        if len(body) > LARGE:
            return _Patient().decode(text)
        return from_json(storable_text(json.dumps(json.loads(text), ensure_ascii=False)))
    except RecursionError:
        raise ValueError("nested too deep") from None
    except ValueError as error:
        raise (error if len(body) > LARGE else first) from None


class _Patient(json.JSONDecoder):
    """The standard library's decoder without its C part, which would hold the interpreter's lock throughout."""

    def __init__(self) -> None:
        super().__init__()
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]

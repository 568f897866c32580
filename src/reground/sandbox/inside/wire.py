"""Frames between two processes that do not trust each other: four bytes of length, and JSON.

A frame's bytes and its number of values are limited before it is parsed.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

MOST_BYTES = 32 * 1024 * 1024
MOST_NODES = 2_000_000
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')


class WireError(BaseException):
    """The other side has gone or violates the protocol. It is no Exception, so that `except Exception` misses it."""


class Channel:
    """Whole frames over a pair of file descriptors."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write

    def send(self, message: dict[str, Any]) -> None:
        """Write one frame. Raises WireError if the reader has gone or the message is too long."""
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > MOST_BYTES:
            raise WireError("a value is too large to cross")
        view = memoryview(len(data).to_bytes(4, "big") + data)
        try:
            while view:
                view = view[os.write(self._write, view) :]
        except OSError as error:
            raise WireError("the other side has gone") from error

    def receive(self) -> dict[str, Any]:
        """Read one frame. Raises WireError at the end of the stream and for an invalid frame."""
        size = int.from_bytes(self._exactly(4), "big")
        if size > MOST_BYTES:
            raise WireError("a value is too large to cross")
        return parse(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = os.read(self._read, min(size - len(data), 1 << 20))
            except OSError as error:
                raise WireError("the other side has gone") from error
            if not part:
                raise WireError("the other side has gone")
            data += part
        return bytes(data)


def parse(data: bytes) -> dict[str, Any]:
    """A frame's message. Raises WireError."""
    if len(data) > MOST_NODES and _nodes(data) > MOST_NODES:
        raise WireError("a value has too many parts to cross")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError, MemoryError) as error:
        raise WireError("not a message") from error
    if not isinstance(message, dict):
        raise WireError("not a message")
    return message


def _nodes(data: bytes) -> int:
    """At least the number of values in a frame. Commas within texts are only excluded if the limit is exceeded."""
    if (most := _marks(data)) <= MOST_NODES:
        return most
    return _marks(_TEXT.sub(b"", data))


def _marks(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")

"""Connections that send no request, or send it slowly, cannot keep others out.

A server has a limit of open files, and uvicorn waits for the head of a request for ever.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("reground.serve")

HEAD_SECONDS = 10.0
"""How long the head of a request may take, from the connection's beginning or the reply before."""
AT_ONCE = 16
"""Connections that are accepted in one go, before any can be refused; more wait in the system's queue."""
QUEUE = 2048
"""Connections that may wait to be accepted."""
_LEAST, _OWN_FILES = 32, 160
"""The fewest connections; and open files that are left for the index, journals, models and those just accepted."""
_PAUSE = 60.0
"""Seconds between two lines of the log about connections that were closed."""


def bounded(config: uvicorn.Config, most: int | None = None, seconds: float = HEAD_SECONDS) -> uvicorn.Config:
    """The configuration of a server with a limit of connections. most: that limit; by default what the limit of open
    files has room for. seconds: how long the head of a request may take.

    Where there would be more, the one that has been without the head of a request longest is closed for the new one.
    """
    if most is None:
        most = max(_LEAST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OWN_FILES)
    config.backlog = AT_ONCE
    config.http = partial(_Bounded, _Places(most, seconds))  # type: ignore[assignment]
    return config


@dataclass
class _Places:
    """What the connections of a server share. waiting: those without the head of a request, oldest first."""

    most: int
    seconds: float
    waiting: dict[_Bounded, asyncio.TimerHandle] = field(default_factory=dict)
    told: float = -_PAUSE

    def note(self, why: str) -> None:
        if time.monotonic() - self.told >= _PAUSE:
            self.told = time.monotonic()
            log.warning("connections are closed: %s (said once a minute)", why)


class _Bounded(H11Protocol):
    """A connection that has a time for the head of each request."""

    def __init__(self, places: _Places, **given: Any) -> None:
        super().__init__(**given)
        self._places = places

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._places.most:
            self._places.note(f"there are more than {self._places.most}")
            oldest = next(iter(self._places.waiting), self)
            oldest.go_on()
            oldest.transport.abort()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self.go_on()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.go_on()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._wait()

    def _wait(self) -> None:
        self.go_on()
        self._places.waiting[self] = self.loop.call_later(self._places.seconds, self._late)

    def go_on(self) -> None:
        if (timer := self._places.waiting.pop(self, None)) is not None:
            timer.cancel()

    def _late(self) -> None:
        self._places.note(f"no request came within {self._places.seconds:g} s")
        self.transport.abort()

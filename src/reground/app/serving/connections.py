"""Servers by uvicorn, in which connections that send no request, or send it slowly, cannot keep others out.

uvicorn waits for the head of a request for ever.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from reground.core.http import AT_ONCE, QUEUE, Connection, Places


class Server(uvicorn.Server):
    """A server whose connections keep their places."""

    def __init__(self, config: uvicorn.Config, places: Places | None = None) -> None:
        config.backlog = AT_ONCE
        config.http = partial(_Bounded, places or Places())  # type: ignore[assignment]
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(QUEUE)  # asyncio accepts as many in one go as the queue has had places until now


class _Bounded(Connection, H11Protocol):
    """A connection that has a time for the head of each request."""

    def __init__(self, places: Places, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.places, self.logger = places, places.log

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering:
            self.places.wait(self, None)
            # RFC 9112, section 6.1: a proxy may take the rest for another client's request
            self.cycle.keep_alive &= not {b"content-length", b"transfer-encoding"} <= dict(self.headers).keys()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.flow.write_paused:
            self.resume_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self._is_answering:
            self.places.wait(self, self.places.seconds)

"""A way to a server that can be cut after the server has worked and before its reply arrives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Way:
    """Connections to `port` on this machine, by way of another port of it. cut: how many replies are still lost."""

    def __init__(self, port: int) -> None:
        self.cut = 0
        self.lost = 0
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                for pair in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, back: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if back and self.cut:
                    self.cut -= 1
                    self.lost += 1
                    break
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def way_to(port: int) -> Iterator[Way]:
    """A way that is there until the block ends."""
    way = Way(port)
    try:
        yield way
    finally:
        way.close()

"""A connection that is opened again when it is lost, for a bounded while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from reground.core.journal import as_written
from reground.postgres.address import Address

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0
_PASSING = frozenset({
    "57P01", "57P02", "57P03", "57P05",  # the server is stopping, has crashed, is starting, or took us for idle
    "53300",  # it has too many connections
    "25006",  # it only reads: another has taken its place
})  # fmt: skip


class Session:
    """One connection, for one thread at a time.

    patience: the seconds for which a lost connection is opened again. It begins when there has been a first one, so
    that a wrong address is told at once, and ends with the first time that it was in vain.
    """

    def __init__(self, address: Address, patience: float) -> None:
        self._address = address
        self._patience, self._granted = patience, 0.0
        self._hurried = threading.Event()
        self._db: Connection[Any] | None = None

    def run(self, work: Callable[[Connection[Any], bool], T]) -> T:
        """Do work on the connection, from its beginning on another one if it is lost.

        work: gets the connection, and whether an earlier try may have been carried out although nothing was heard of
        it. Raises psycopg's errors.
        """
        import psycopg

        until: float | None = None
        wait = _FIRST_WAIT
        while True:
            try:
                found = work(self._connected(), until is not None)
            except psycopg.Error as error:
                if not self._is_lost(error):
                    raise
                self.close()
                until = until if until is not None else time.monotonic() + self._granted
                if time.monotonic() + wait > until or self._hurried.wait(wait):
                    self._granted = 0.0
                    raise
                wait = min(2 * wait, _LONGEST_WAIT)
            else:
                self._granted = self._patience
                return found

    def trust(self) -> None:
        """Be patient from the first connection on: the database has been reached before."""
        self._granted = self._patience

    def hurry(self) -> None:
        """End the patience, also that of work under way in another thread."""
        self._hurried.set()

    def close(self) -> None:
        """Close the connection; the next work opens another."""
        db, self._db = self._db, None
        if db is not None:
            with suppress(Exception):  # it may be broken already
                db.close()

    def _connected(self) -> Connection[Any]:
        if self._db is None or self._db.closed:
            self._db = _connect(self._address)
        return self._db

    def _is_lost(self, error: Any) -> bool:
        """Whether the same work may succeed on another connection."""
        import psycopg

        if self._db is None or self._db.closed or error.sqlstate in _PASSING:
            return True
        return isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08").startswith("08")


def _connect(address: Address) -> Connection[Any]:
    import psycopg
    from psycopg.adapt import Loader

    class AsWritten(Loader):  # type: ignore[misc]  # where psycopg is not installed, it has no type
        """Texts of damaged rows are read, too: their checksums tell."""

        def load(self, data: Any) -> str:
            return as_written(bytes(data))

    # Poolers between here and the server keep no prepared statements.
    db: Connection[Any] = psycopg.connect(
        **address.parameters, client_encoding="utf8", autocommit=True, prepare_threshold=None
    )
    db.adapters.register_loader("text", AsWritten)
    return db

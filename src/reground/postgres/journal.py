"""A journal in PostgreSQL, with the meaning of the one in SQLite."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from reground.core.branches import being_cancelled
from reground.core.errors import JournalError
from reground.core.journal import Effect, checksum
from reground.postgres import tables
from reground.postgres.address import address_of
from reground.postgres.session import Session

PATIENCE = 60.0
"""Seconds for which a lost connection is opened again."""
THREAD = "reground-journal"
_ROWS_AT_ONCE = 1000
T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Batch:
    """The appends of one turn of an event loop."""

    loop: asyncio.AbstractEventLoop
    rows: list[tables.Row]
    waiting: list[asyncio.Future[None]]

    def settle(self, failure: JournalError | None) -> None:
        """Tell those who wait, from the writer's thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self.loop.call_soon_threadsafe(self._tell, failure)

    def _tell(self, failure: JournalError | None) -> None:
        for done in self.waiting:
            if not done.done():
                done.set_result(None) if failure is None else done.set_exception(failure)


class PostgresJournal:
    """A journal in a PostgreSQL database, which many processes on many machines may write at once.

    A thread has the only connection, so nothing but `load` waits for the server in the event loop's thread. Appends of
    one turn of the loop, and those that come while the server works, share one commit. Appends return when the server
    has them on its disk, whatever the server's `synchronous_commit`. Every row has a checksum. A row that fails it is
    named in `notices` and ignored, so its call is made again.

    url: postgresql://USER@HOST:PORT/DATABASE; the driver also heeds PGPASSWORD and ~/.pgpass. patience: the seconds for
    which a lost connection is opened again. reached: whether the database has been reached before, so that it is
    patient from the beginning. id: the database's own name. place: the address as messages have it.

    Raises ConfigurationError for an address that cannot be read, MissingExtra without the driver, JournalError.
    """

    def __init__(self, url: str, *, patience: float = PATIENCE, reached: bool = False) -> None:
        self._address = address_of(url)
        self.place = self._address.place
        self.notices: list[str] = []
        self._session = Session(self._address, patience)
        if reached:
            self._session.trust()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._batches: deque[_Batch] = deque()
        self._rows: list[tables.Row] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=THREAD, daemon=True)
        self._thread.start()
        try:
            self.id = self._submit("open", lambda db, again: tables.prepare(db, self.place)).result()
        except BaseException:
            self._jobs.put(None)
            raise

    def load(self, run: str, question: str) -> dict[tuple[str, int], Effect]:
        """Everything recorded for one question. Of two effects with the same key, the later one counts."""
        return self._loading(run, question).result()

    async def read(self, run: str, question: str) -> dict[tuple[str, int], Effect]:
        """`load` without holding up the event loop."""
        return await asyncio.wrap_future(self._loading(run, question))

    async def append(self, run: str, question: str, effect: Effect) -> None:
        """Return when the effect is committed and on the server's disk."""
        self._check_open()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if not self._rows:
            loop.call_soon(self._flush, loop)
        values = (run, question, effect.span, effect.ordinal, effect.fingerprint, effect.result, float(effect.elapsed))
        self._rows.append((*values, checksum(*values)))
        self._waiting.append(done)
        await done

    def forget(self, run: str) -> None:
        """Drop everything that one run has recorded."""
        self._submit("write", lambda db, again: tables.delete(db, run)).result()

    def close(self) -> None:
        """Write what waits and close the connection. A task that is being cancelled waits for no lost server."""
        if being_cancelled():
            self._session.hurry()
        if self._waiting:
            self._flush(self._waiting[0].get_loop())
        self._closed = True
        self._jobs.put(None)
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise JournalError(f"the journal {self.place} is closed")

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._rows:  # closing may have been quicker
            self._batches.append(_Batch(loop, self._rows, self._waiting))
            self._rows, self._waiting = [], []
            self._jobs.put(self._write)

    def _loading(self, run: str, question: str) -> Future[dict[tuple[str, int], Effect]]:
        return self._submit("read", lambda db, again: self._effects(tables.read(db, run, question), run, question))

    def _effects(self, rows: list[Any], run: str, question: str) -> dict[tuple[str, int], Effect]:
        effects: dict[tuple[str, int], Effect] = {}
        damaged: dict[tuple[str, int], int] = {}
        for row, mark, values in rows:
            effect = replace(Effect(*values), where=f"{self.place}, row {row}")
            place = effect.span, effect.ordinal
            if mark == checksum(run, question, *values):
                effects[place] = effect
                damaged.pop(place, None)  # it was asked again
            else:
                damaged[place] = row
        for row in damaged.values():
            notice = (
                f"{self.place}, row {row}: its checksum does not match, so the record is damaged; the call is made "
                "again"
            )
            _log.warning("%s", notice)
            self.notices.append(notice)
        return effects

    def _submit(self, verb: str, work: Callable[[Any, bool], T]) -> Future[T]:
        """Let the thread do work on the connection. The future has its result or a JournalError."""
        done: Future[T] = Future()

        def job() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(self._session.run(work))
                except Exception as error:
                    done.set_exception(self._told(verb, error))

        self._check_open()
        self._jobs.put(job)
        return done

    def _told(self, verb: str, error: Exception) -> JournalError:
        """A JournalError about an error of the driver. It has no cause: a stack trace would show the driver's words."""
        if isinstance(error, JournalError):
            return error
        return JournalError(f"cannot {verb} the journal {self.place}: {self._address.harmless(error)}")

    def _work(self) -> None:
        """Do the jobs in their order until there is None. Only this runs in the thread."""
        while (job := self._jobs.get()) is not None:
            job()
        self._session.close()

    def _write(self) -> None:
        """Write what waits in one commit: one batch, and those that came while the server worked."""
        batches: list[_Batch] = []
        rows: list[tables.Row] = []
        while self._batches and len(rows) < _ROWS_AT_ONCE:
            batches.append(self._batches.popleft())
            rows += batches[-1].rows
        if not rows:
            return
        failure = None
        try:
            self._session.run(lambda db, again: tables.write(db, rows, again=again))
        except Exception as error:
            failure = self._told("write", error)
        for batch in batches:
            batch.settle(failure)

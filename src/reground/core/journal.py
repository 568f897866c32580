"""The journal: every effect of a run, written before the method sees its result.

Repeating a run replays the recorded effects and continues from the first missing one. An effect is keyed by run,
question, span path and ordinal. The fingerprint tells whether the request is the same, so changed code or prompts never
get an old answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from reground.core.errors import JournalError

SCHEMA_VERSION = 2
_LOCKED_SECONDS, _AGAIN_SECONDS = 30.0, 0.02
"""How long another process may hold the file, and the time between two tries to write."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Effect:
    """One recorded effect. elapsed: seconds since the question was begun. result: JSON. where: its file and row."""

    span: str
    ordinal: int
    fingerprint: str
    result: str
    elapsed: float
    where: str = field(default="", compare=False)


def fingerprint(kind: str, *parts: str) -> str:
    """A stable identity for a request: 128 bits over its parts, each with its length."""
    pieces = [kind.encode()]
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        pieces += (len(data).to_bytes(8, "little"), data)
    return hashlib.blake2b(b"".join(pieces), digest_size=16).hexdigest()


def checksum(*values: object) -> str:
    """CRC-32 over values as text, eight hexadecimal digits: tells whether a row is as it was written."""
    return f"{zlib.crc32(chr(0).join(map(str, values)).encode('utf-8', 'surrogateescape')):08x}"


def as_written(raw: bytes) -> str:
    """Text from the database. Invalid UTF-8 becomes text that no valid text equals, so its row's checksum fails."""
    return raw.decode("utf-8", "surrogateescape")


class Journal(Protocol):
    """Where a run's effects are kept."""

    def load(self, run: str, question: str) -> dict[tuple[str, int], Effect]:
        """Everything recorded for one question."""

    async def append(self, run: str, question: str, effect: Effect) -> None:
        """Return when the effect would survive the process."""


class MemoryJournal:
    """A journal for tests and for questions that need not be resumed."""

    def __init__(self) -> None:
        self.effects: dict[tuple[str, str], dict[tuple[str, int], Effect]] = {}

    def load(self, run: str, question: str) -> dict[tuple[str, int], Effect]:
        """Everything recorded for one question."""
        return dict(self.effects.get((run, question), {}))

    async def append(self, run: str, question: str, effect: Effect) -> None:
        """Keep the effect for as long as this object lives."""
        self.effects.setdefault((run, question), {})[effect.span, effect.ordinal] = effect


class SqliteJournal:
    """A journal in one SQLite file (WAL), safe against kill -9.

    Appends that wait in the same turn of the event loop share one commit, so hundreds of calls in flight do not cost
    hundreds of commits. While another process holds the file they wait, and the loop goes on. Every row has a checksum.
    A row that fails it is named in `notices` and ignored, so its call is made again. The table only grows at its end; a
    primary key would scatter each commit over as many pages as it has rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notices: list[str] = []
        self._waiting: list[tuple[tuple[object, ...], asyncio.Future[None]]] = []
        with self._naming("open"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=_LOCKED_SECONDS)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version not in (0, SCHEMA_VERSION):  # 0: a new file
                raise JournalError(f"{path} is a journal of format {version}; this reground reads {SCHEMA_VERSION}")
            self._db.text_factory = as_written
            if not version:
                self._db.execute(
                    "CREATE TABLE IF NOT EXISTS effects (run TEXT, question TEXT, span TEXT, ordinal INTEGER,"
                    " fingerprint TEXT, result TEXT, elapsed REAL, sum TEXT)"
                )
                self._db.execute("CREATE INDEX IF NOT EXISTS effects_of ON effects (run, question)")
                self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    @contextmanager
    def _naming(self, work: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise JournalError(f"cannot {work} the journal {self.path}: {error}") from error

    def load(self, run: str, question: str) -> dict[tuple[str, int], Effect]:
        """Everything recorded for one question. Of two effects with the same key, the later one counts."""
        effects: dict[tuple[str, int], Effect] = {}
        damaged: dict[tuple[str, int], int] = {}
        with self._naming("read"):
            rows = self._db.execute(
                "SELECT rowid, sum, span, ordinal, fingerprint, result, elapsed FROM effects "
                "WHERE run=? AND question=? ORDER BY rowid",
                (run, question),
            )
            for row, mark, *values in rows:
                effect = replace(Effect(*values), where=f"{self.path}, row {row}")
                place = effect.span, effect.ordinal
                if mark == checksum(run, question, *values):
                    effects[place] = effect
                    damaged.pop(place, None)  # it was asked again
                else:
                    damaged[place] = row
        for row in damaged.values():
            why = "its checksum does not match, so the record is damaged; the call is made again"
            self.notices.append(f"{self.path}, row {row}: {why}")
            _log.warning("%s", self.notices[-1])
        return effects

    async def append(self, run: str, question: str, effect: Effect) -> None:
        """Return when the effect is committed."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush, time.monotonic() + _LOCKED_SECONDS)
        row = (run, question, effect.span, effect.ordinal, effect.fingerprint, effect.result, effect.elapsed)
        self._waiting.append(((*row, checksum(*row)), future))
        await future

    def _flush(self, until: float = 0.0) -> None:
        """Write what waits. until: when to give up a file that another process holds; by default it is waited for."""
        if not self._waiting:  # it was written when the file was closed
            return
        batch, self._waiting = self._waiting, []
        failure: JournalError | None = None
        try:
            with self._naming("write"), self._db:  # rolls back what fails
                self._db.execute(f"PRAGMA busy_timeout={0 if until else round(_LOCKED_SECONDS * 1000)}")
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany("INSERT INTO effects VALUES (?,?,?,?,?,?,?,?)", (row for row, _ in batch))
        except JournalError as error:
            if time.monotonic() < until and "locked" in str(error.__cause__):
                self._waiting = batch
                asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._flush, until)
                return
            failure = error
        for _, future in batch:
            if future.cancelled():
                continue
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(None)

    def forget(self, run: str) -> None:
        """Drop everything that one run has recorded."""
        with self._naming("write"):
            self._db.execute("DELETE FROM effects WHERE run=?", (run,))

    def close(self) -> None:
        """Write what waits and close the file."""
        self._flush()
        self._db.close()

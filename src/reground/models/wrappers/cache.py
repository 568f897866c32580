"""A shared cache for temperature-0 calls, across runs and processes: one SQLite file."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from reground.core.errors import ConfigurationError, RegroundError
from reground.core.journal import as_written, checksum, fingerprint
from reground.core.language import LanguageModel, Message, Reply, Sampling, Usage
from reground.models.wrappers.base import Wrapper

_REPLIES = TypeAdapter(Annotated[tuple[Reply, ...], Field(min_length=1)])
_log = logging.getLogger(__name__)

Outcome = tuple[Reply, ...] | RegroundError


class Cache(Wrapper):
    """Answers a repeated greedy call from a file; the usage is then zero, including the number of calls.

    Equal calls have the same model, messages and sampling. `identity` distinguishes servers with the same model name.
    Concurrent equal calls share one request. Sampled calls (temperature above 0) are never cached. Every entry has a
    checksum; a damaged one is requested again. If the file cannot be written, calls are only not cached.
    """

    def __init__(self, model: LanguageModel, path: Path, *, identity: str = "") -> None:
        super().__init__(model)
        self.path = path
        self._identity = identity or model.name
        self._pending: dict[str, asyncio.Future[Outcome | None]] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=5.0)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.text_factory = as_written
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, replies TEXT, sum TEXT) WITHOUT ROWID"
            )
        except (sqlite3.Error, OSError) as error:
            raise ConfigurationError(f"cannot open the cache {path}: {error}") from error

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return the recorded replies, or call the model and record its replies."""
        if sampling.temperature > 0:
            return await self.model.generate(messages, sampling)
        texts = [text for message in messages for text in (message.role, message.content)]
        key = fingerprint("reply", self._identity, sampling.model_dump_json(), *texts)
        while True:
            recorded = self._read(key)
            if recorded is not None:
                return recorded
            pending = self._pending.get(key)
            if pending is None:
                return await self._ask(key, messages, sampling)
            outcome = await asyncio.shield(pending)
            if isinstance(outcome, RegroundError):
                raise outcome
            if outcome is not None:
                return outcome
            # The other call was cancelled: look again, and make the call here unless yet another one does.

    async def _ask(self, key: str, messages: Sequence[Message], sampling: Sampling) -> Sequence[Reply]:
        mine: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self._pending[key] = mine
        outcome: Outcome | None = None
        try:
            replies = await self.model.generate(messages, sampling)
            outcome = tuple(reply.model_copy(update={"usage": Usage()}) for reply in replies)
            self._write(key, outcome)
            return replies
        except RegroundError as error:
            outcome = error
            raise
        finally:
            del self._pending[key]
            mine.set_result(outcome)

    def _read(self, key: str) -> tuple[Reply, ...] | None:
        try:
            row = self._db.execute("SELECT replies, sum FROM replies WHERE key=?", (key,)).fetchone()
            if row is None:
                return None
            if row[1] != checksum(key, row[0]):
                _log.warning("the cache %s cannot be read at key %s: its checksum does not match", self.path, key)
                return None
            return _REPLIES.validate_json(row[0])
        except sqlite3.Error as error:
            why = str(error)
        except ValidationError as error:
            why = error.errors()[0]["msg"]
        _log.warning("the cache %s cannot be read: %s", self.path, why)
        return None

    def _write(self, key: str, replies: tuple[Reply, ...]) -> None:
        try:
            text = _REPLIES.dump_json(replies).decode()
            row = (key, text, checksum(key, text))
            self._db.execute("INSERT OR REPLACE INTO replies (key, replies, sum) VALUES (?,?,?)", row)
        except sqlite3.Error as error:
            _log.warning("the cache %s cannot be written: %s", self.path, error)

    async def aclose(self) -> None:
        """Close the file and the inner model."""
        self._db.close()
        await super().aclose()

"""Limits, retries and a cache around any language model: cache ▸ retry ▸ limit ▸ adapter.

A cache hit costs nothing, so the cache comes first. Every attempt of a call is a separate request to the provider, so
the limits are inside the retries: an attempt takes a slot and counts against the rates, and a call that waits for its
next attempt holds no slot.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from reground.core.concurrency import close
from reground.core.errors import ConfigurationError, ModelError, RegroundError, TransientModelError
from reground.core.http import Bucket, Clock, Sleep, backoff, gave_up
from reground.core.journal import as_written, checksum, fingerprint
from reground.core.language import LanguageModel, Message, Reply, Sampling, Usage, estimate_tokens, replies_of
from reground.models.options import ModelOptions

_REPLIES = TypeAdapter(Annotated[tuple[Reply, ...], Field(min_length=1)])
_log = logging.getLogger(__name__)

Outcome = tuple[Reply, ...] | RegroundError


def wrap(model: LanguageModel, options: ModelOptions) -> Retry | Cache:
    """Wrap a model in limits, retries and, if a file is given, the shared cache."""
    limited = Limit(
        model,
        connections=options.connections,
        requests_per_minute=options.requests_per_minute,
        tokens_per_minute=options.tokens_per_minute,
    )
    retried = Retry(limited, attempts=options.attempts)
    if options.cache is None:
        return retried
    return Cache(retried, options.cache, identity=str(getattr(model, "identity", model.name)))


class Wrapper:
    """Takes the name, price, server and samples of the inner model, and closes it."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.name = model.name
        self.price = getattr(model, "price", None)
        self.served_at = getattr(model, "served_at", None)

    @property
    def samples(self) -> int | None:
        """Replies that one request of the inner model gives; None if it gives all."""
        return getattr(self.model, "samples", None)

    async def aclose(self) -> None:
        """Close the inner model."""
        await close(self.model)


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
            self._db.text_factory = as_written
            self._db.executescript(
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE TABLE IF NOT EXISTS replies "
                "(key TEXT PRIMARY KEY, replies TEXT, sum TEXT) WITHOUT ROWID; PRAGMA busy_timeout=100"  # in the loop
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
                raise ValueError(f"the checksum at key {key} does not match")
            return _REPLIES.validate_json(row[0])
        except (sqlite3.Error, ValueError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            _log.warning("the cache %s cannot be read: %s", self.path, why)
            return None

    def _write(self, key: str, replies: tuple[Reply, ...]) -> None:
        try:
            text = _REPLIES.dump_json(replies).decode()
            self._db.execute("INSERT OR REPLACE INTO replies VALUES (?,?,?)", (key, text, checksum(key, text)))
        except sqlite3.Error as error:
            _log.warning("the cache %s cannot be written: %s", self.path, error)

    async def aclose(self) -> None:
        """Close the file and the inner model."""
        self._db.close()
        await super().aclose()


class Retry(Wrapper):
    """Tries a call up to `attempts` times, with the server's requested wait or a random one in between.

    The random wait is uniform between 0 and `base` * 2^failures seconds, at most `cap`, so that calls that failed
    together do not come back together. No attempt begins later than `deadline` seconds after the first failure. Waiting
    for a rate limit before the first attempt does not count.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        attempts: int = 6,
        deadline: float = 1200.0,
        base: float = 0.5,
        cap: float = 30.0,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        super().__init__(model)
        self._attempts = attempts
        self._deadline = deadline
        self._clock = clock
        self._sleep = sleep
        self._backoff = partial(backoff, base=base, cap=cap, uniform=uniform)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return the first successful attempt's replies. Raises the last failure with the number of attempts."""
        paid: list[Reply] = []
        began: float | None = None
        for attempt in count(1):
            try:
                rest = rest_of(sampling, len(paid)) if paid else sampling
                return [*paid, *await self.model.generate(messages, rest)]
            except TransientModelError as error:
                paid += error.paid
                began = self._clock() if began is None else began
                seconds, requested = self._clock() - began, error.retry_after
                wait = self._backoff(attempt, requested)
                if attempt >= self._attempts or seconds + wait > self._deadline:
                    several = self._attempts > 1
                    why = gave_up(error, attempt, f" and {seconds:.0f} s", requested) if several else str(error)
                    last = TransientModelError(why, retry_after=requested)
                    last.paid = paid
                    raise last from error
                await self._sleep(wait)
            except ModelError as error:
                error.paid = [*paid, *error.paid]
                raise
        raise AssertionError


def rest_of(sampling: Sampling, have: int) -> Sampling:
    """The same sampling for the missing replies, with another seed, because the same one would repeat samples."""
    seed = None if sampling.seed is None else sampling.seed + have
    return sampling.model_copy(update={"n": sampling.n - have, "seed": seed})


class Limit(Wrapper):
    """Holds a model to `connections` calls at once and to a provider's rates.

    A call's tokens are estimated in advance (the prompt and all of `max_tokens`) and corrected by its usage afterwards.
    A call keeps its slot while it waits for its rates, because slots are not scarce then.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        connections: int = 1024,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(model)
        self._connections = connections
        self._requests = Bucket(requests_per_minute, clock=clock, sleep=sleep)
        self._tokens = Bucket(tokens_per_minute, clock=clock, sleep=sleep)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Wait for a slot and for the rates, then call the model."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # a lock belongs to one loop
            self._loop = loop
            self._slots = asyncio.Semaphore(self._connections)
        async with self._slots:
            estimate = estimate_tokens(tuple(messages)) + sampling.n * sampling.max_tokens
            await self._requests.take(1)
            await self._tokens.take(estimate)
            try:
                replies = await replies_of(self.model, messages, sampling)
            except ModelError:
                self._tokens.settle(-estimate)  # a failed call's tokens are free for the next attempt
                raise
            self._requests.settle(sum(reply.usage.calls for reply in replies) - 1)
            self._tokens.settle(sum(reply.usage.tokens for reply in replies) - estimate)
            return replies

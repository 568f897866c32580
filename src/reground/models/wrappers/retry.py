"""Retries errors that the adapter marks as transient, with full-jitter backoff and a deadline."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence

from reground.core.errors import ModelError, TransientModelError
from reground.core.language import LanguageModel, Message, Reply, Sampling
from reground.models.wrappers.base import Wrapper


def rest_of(sampling: Sampling, have: int) -> Sampling:
    """The same sampling for the missing replies, with another seed, because the same one would repeat samples."""
    seed = None if sampling.seed is None else sampling.seed + have
    return sampling.model_copy(update={"n": sampling.n - have, "seed": seed})


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
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        super().__init__(model)
        self._attempts = attempts
        self._deadline = deadline
        self._base = base
        self._cap = cap
        self._clock = clock
        self._sleep = sleep
        self._uniform = uniform

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return the first successful attempt's replies. Raises the last failure with the number of attempts."""
        try:
            return await self.model.generate(messages, sampling)
        except TransientModelError as error:
            return await self._again(messages, sampling, error)

    async def _again(
        self, messages: Sequence[Message], sampling: Sampling, error: TransientModelError
    ) -> Sequence[Reply]:
        began = self._clock()
        have = list(error.paid)
        for failures in range(1, self._attempts):
            wait = self._wait(failures, error)
            if self._clock() - began + wait > self._deadline:
                raise self._given_up(error, failures, began, have) from error
            await self._sleep(wait)
            try:
                return [*have, *await self.model.generate(messages, rest_of(sampling, len(have)))]
            except TransientModelError as again:
                error = again
                have += error.paid
            except ModelError as last:
                last.paid = [*have, *last.paid]
                raise
        raise self._given_up(error, self._attempts, began, have) from error

    def _wait(self, failures: int, error: TransientModelError) -> float:
        spread = self._uniform(0.0, min(self._cap, self._base * 2.0**failures))
        if error.retry_after is None:
            return spread
        # A little later than requested, so that calls with the same Retry-After do not come back together.
        return error.retry_after + min(spread, self._base)

    def _given_up(
        self, error: TransientModelError, attempts: int, began: float, have: Sequence[Reply]
    ) -> TransientModelError:
        given_up = TransientModelError(self._told(error, attempts, began), retry_after=error.retry_after)
        given_up.paid = have
        return given_up

    def _told(self, error: TransientModelError, attempts: int, began: float) -> str:
        if attempts == 1 and self._attempts == 1:
            return str(error)
        times = f"{attempts} attempt{'' if attempts == 1 else 's'}"
        waited = self._clock() - began
        asked = "" if error.retry_after is None else f"; the server asks to wait {error.retry_after:.0f} s"
        return f"{error} (gave up after {times} and {waited:.0f} s{asked})"

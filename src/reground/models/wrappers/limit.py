"""Limits on concurrent calls, requests per minute and tokens per minute. Calls are served in order of arrival."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from reground.core.errors import ModelError
from reground.core.http import Bucket, Clock, Sleep
from reground.core.language import LanguageModel, Message, Reply, Sampling, estimate_tokens
from reground.models.wrappers.base import Wrapper


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
        self._rates = (requests_per_minute, tokens_per_minute)
        self._clock = clock
        self._sleep = sleep
        self._loop: asyncio.AbstractEventLoop | None = None

    def _enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make new locks for a new event loop, because a lock belongs to one loop."""
        self._loop = loop
        self._slots = asyncio.Semaphore(self._connections)
        requests, tokens = (
            None if rate is None else Bucket(rate, clock=self._clock, sleep=self._sleep) for rate in self._rates
        )
        self._requests, self._tokens = requests, tokens

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Wait for a slot and for the rates, then call the model."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._enter_loop(loop)
        async with self._slots:
            if self._requests is None and self._tokens is None:
                return await self.model.generate(messages, sampling)
            return await self._rated(messages, sampling)

    async def _rated(self, messages: Sequence[Message], sampling: Sampling) -> Sequence[Reply]:
        estimate = estimate_tokens(tuple(messages)) + sampling.n * sampling.max_tokens
        if self._requests is not None:
            await self._requests.take(1)
        if self._tokens is not None:
            await self._tokens.take(estimate)
        try:
            replies = await self.model.generate(messages, sampling)
        except ModelError:
            if self._tokens is not None:
                self._tokens.settle(-estimate)  # a failed call's tokens are free for the next attempt
            raise
        if self._requests is not None:
            self._requests.settle(sum(reply.usage.calls for reply in replies) - 1)
        if self._tokens is not None:
            self._tokens.settle(sum(reply.usage.tokens for reply in replies) - estimate)
        return replies

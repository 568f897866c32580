"""Budgets, and the meter that enforces them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from pydantic import Field

from reground.core.errors import BudgetExceeded, ConfigurationError
from reground.core.language import LATER, LEAST_REPLY, Message, Reply, Sampling, Usage, Value, estimate_tokens

T = TypeVar("T")

MOST_COUNT = 2**53
"""The largest number that is taken from outside, for a count of anything."""
Count = Annotated[int | None, Field(ge=0, le=MOST_COUNT)]
Amount = Annotated[float | None, Field(ge=0, le=MOST_COUNT, allow_inf_nan=False)]


class Budget(Value):
    """The most that one question may cost. None is no limit."""

    tokens: Count = None
    """Most tokens, prompts and completions together."""

    calls: Count = None
    """Most model calls."""

    seconds: Amount = None
    """Most wall-clock seconds, those of earlier, interrupted attempts included; what still runs then is ended."""

    usd: Amount = None
    """Most US dollars; needs the model's price."""

    completion: Annotated[Count, LATER] = Field(default=None, json_schema_extra={"file": True})
    """Most tokens that the model writes, in all calls together."""


class Reservation(Usage):
    """What an admitted call costs at most. estimated: its prompt's tokens, by estimate; 0 if nothing limits tokens."""

    estimated: int = 0


_SAFETY = 1.05
_LEAST, _MOST = 0.6, 1.6


@dataclass
class Meter:
    """Counts the cost of one question and refuses calls that its budget does not cover.

    Calls in flight have reservations, so that concurrent calls cannot overspend together. Prompts are estimated before
    they are sent, and the error of earlier estimates corrects later ones.
    """

    budget: Budget = field(default_factory=Budget)
    clock: Callable[[], float] = time.monotonic
    usage: Usage = field(default_factory=Usage)
    replayed_calls: int = 0
    _in_flight: list[Reservation] = field(default_factory=list)
    _holds: list[Callable[[], int]] = field(default_factory=list)
    _estimated: int = 0
    _measured: int = 0
    _cut_texts: set[str] = field(default_factory=set)
    _started: float = field(init=False)
    _carried: float = 0.0

    def __post_init__(self) -> None:
        self._started = self.clock()

    @property
    def limits(self) -> str | None:
        """The limits of tokens and calls, in words that a record can be named by; None without any."""
        limits = (self.budget.tokens, self.budget.completion, self.budget.calls)
        return str(limits) if any(limit is not None for limit in limits) else None

    @property
    def elapsed(self) -> float:
        """Seconds since the question began, without the time between attempts."""
        return self._carried + self.clock() - self._started

    def carry(self, elapsed: float) -> None:
        """Count the time of a replayed effect that ended `elapsed` seconds into its run."""
        self._carried = max(self._carried, elapsed - (self.clock() - self._started))

    @property
    def _reserved(self) -> Usage:
        return sum(self._in_flight, Usage())

    def remaining_tokens(self) -> int | None:
        """Tokens that are not spent, reserved or held back; None without a limit."""
        if self.budget.tokens is None:
            return None
        hold = math.ceil(self.ratio * sum(tokens() for tokens in self._holds))
        return max(0, self.budget.tokens - self.usage.tokens - self._reserved.tokens - hold)

    @contextmanager
    def holding(self, tokens: Callable[[], int]) -> Iterator[None]:
        """Hold back one call and its estimated tokens while the block runs.

        tokens: called for every call inside the block, because the prompt may grow.
        """
        self._holds.append(tokens)
        try:
            yield
        finally:
            self._holds.remove(tokens)

    @property
    def ratio(self) -> float:
        """Measured tokens per estimated token of the prompts so far, plus 5 %, between 0.6 and 1.6.

        1 before the first call.
        """
        if not self._estimated:
            return 1.0
        return min(_MOST, max(_LEAST, _SAFETY * self._measured / self._estimated))

    def room(self) -> int | None:
        """The tokens left in units of `estimate_tokens`; None without a limit."""
        remaining = self.remaining_tokens()
        return None if remaining is None else int(remaining / self.ratio)

    def admit(
        self, messages: tuple[Message, ...], sampling: Sampling, *, least: int = LEAST_REPLY, model: object = None
    ) -> tuple[Sampling, Reservation]:
        """Reserve tokens for a call. Returns the sampling, cut to the tokens left, and the reservation.

        If a reply would be shorter than `least` tokens, fewer samples are drawn. Raises BudgetExceeded if not even one
        such reply fits.

        model: its `price` is known, if it has one. Its `samples`, if it has any, are the most replies of one request;
        each further request reads the prompt again.
        """
        self.check_time()
        price, samples = getattr(model, "price", None), getattr(model, "samples", None) or sampling.n
        n = self._within_calls(sampling.n, samples)
        if self.budget.usd is not None:
            if self.usage.usd is None:
                raise ConfigurationError(
                    "a budget in USD needs the model's price: give it with --price PROMPT,COMPLETION"
                )
            # Calls in flight count with what they cost at most, so that only the last one can go over the limit.
            if self.usage.usd + (self._reserved.usd or 0.0) >= self.budget.usd:
                raise BudgetExceeded("usd", f"the budget of {self.budget.usd:g} USD is used up")
        n, longest = self._within_completion(n, sampling.max_tokens, least)
        estimated = estimate_tokens(messages)
        prompt = 0
        room = self.remaining_tokens()
        if room is not None:
            prompt = math.ceil(estimated * self.ratio)
            least = min(max(1, least), longest)
            while n > 0 and -(-n // samples) * prompt + n * least > room:
                n -= 1
            if n < 1:
                remaining = f"{room} of {self.budget.tokens} tokens are left"
                raise BudgetExceeded("tokens", f"{remaining} and the next call needs about {prompt + least}")
            longest = min(longest, (room - -(-n // samples) * prompt) // n)
        calls = -(-n // samples)
        usd = 0.0 if price is None or self.budget.usd is None else price.usd(calls * estimated, 0, longest * n)
        estimated = estimated if room is not None else 0
        reserved = Reservation(estimated=estimated, calls=calls, prompt=calls * prompt, completion=longest * n, usd=usd)
        self._in_flight.append(reserved)
        is_whole = (n, longest) == (sampling.n, sampling.max_tokens)
        return sampling if is_whole else sampling.model_copy(update={"n": n, "max_tokens": longest}), reserved

    def _within_calls(self, n: int, samples: int) -> int:
        if self.budget.calls is None:
            return n
        remaining = self.budget.calls - self.usage.calls - self._reserved.calls - len(self._holds)
        if remaining < 1:
            raise BudgetExceeded("calls", f"the budget of {self.budget.calls} calls is used up")
        return min(n, remaining * samples)

    def _within_completion(self, n: int, longest: int, least: int) -> tuple[int, int]:
        """Samples, and the tokens of each that may still be written. The first call is made however few they are."""
        if self.budget.completion is None:
            return n, longest
        spent = self.usage.completion + self._reserved.completion
        remaining = max(0, self.budget.completion - spent)
        n = min(n, remaining // min(max(1, least if spent else 1), longest))
        if n < 1:
            raise BudgetExceeded("completion", f"{remaining} of {self.budget.completion} tokens are left to be written")
        return n, min(longest, remaining // n)

    def settle(self, reserved: Reservation, usage: Usage | None) -> None:
        """Release a reservation and count the call's real cost. usage: None if the call failed."""
        self._in_flight.remove(reserved)
        if usage is not None:
            self._count(reserved.estimated, usage)

    def _count(self, estimated: int, usage: Usage) -> None:
        """Count a call, and learn from its prompt's length. It may be several requests, each with the whole prompt."""
        self.usage += usage
        if estimated and usage.prompt:
            self._estimated += estimated * max(1, usage.calls)
            self._measured += usage.prompt

    def see(self, replies: Sequence[Reply]) -> None:
        """Remember what a call wrote that the budget shortened: replies that ended at its length."""
        self._cut_texts.update(reply.text.strip() for reply in replies if reply.finish_reason == "length")

    def has_cut(self, text: str) -> bool:
        """Whether the text is a reply that the token budget cut."""
        return text.strip() in self._cut_texts

    def replay(self, usage: Usage, elapsed: float, messages: tuple[Message, ...]) -> None:
        """Count a call that an earlier attempt paid for. messages: its prompt."""
        self._count(estimate_tokens(messages) if self.budget.tokens is not None else 0, usage)
        self.replayed_calls += usage.calls
        self.carry(elapsed)

    def check_time(self) -> None:
        """Raise BudgetExceeded if the time is over."""
        if self.budget.seconds is not None and self.elapsed >= self.budget.seconds:
            raise self._time_over()

    def _time_over(self) -> BudgetExceeded:
        return BudgetExceeded("seconds", f"the time budget of {self.budget.seconds:g} s is used up")

    async def within(self, effect: Awaitable[T]) -> T:
        """Await the effect. When the time is over, cancel it and raise BudgetExceeded."""
        if self.budget.seconds is None:
            return await effect
        try:
            async with asyncio.timeout(self.budget.seconds - self.elapsed) as limit:
                return await effect
        except TimeoutError:
            if limit.expired():
                raise self._time_over() from None
            raise

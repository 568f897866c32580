"""The table of a question's guesses: effects made before their turn, for the request that will probably be made.

An effect has a place in a run, its span and its ordinal. The table's key is the place and the request's fingerprint, so
that whoever asks the same at the same place gets one result: the method, which makes the call if nobody has begun it,
or a guess. A guess can be wrong only in its request, which the method then never makes. The seed of a sampled call
comes from the place, so a guess draws the sample that the method would have drawn.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reground.core.journal import Effect
from reground.core.language import Usage

AHEAD = "ahead"
"""The name of the spans in which the journal keeps guesses: /ahead.0/step.2 holds one for /step.2."""
_IN_SPAN = re.compile(rf"/{AHEAD}\.\d+")

Key = tuple[str, int, str]
"""A place, which is a span and an ordinal, and the request's fingerprint."""


class GuessEnded(Exception):
    """A guess goes no further: a limit refused it, its call failed, or nobody waits for it any more."""


@dataclass
class Made:
    """One effect of the table.

    name: the call's. round: the round of guesses that made it, None for the method itself. used: the method made this
    request. call: what runs until it has a result, for a guess that is not in the journal.
    """

    name: str
    round: int | None = None
    used: bool = False
    call: asyncio.Future[Any] | None = None
    usage: Usage = field(default_factory=Usage)
    _result: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def result(self) -> Any:
        """Its result, once it is there. Raises GuessEnded if there will be none."""
        await asyncio.wait([self._result])
        if self._result.cancelled():
            raise GuessEnded(f"{self.name} gave no result")
        return self._result.result()

    def settle(self, result: object) -> None:
        """Give its result to all who wait."""
        self._result.set_result(result)

    def fail(self) -> None:
        """Tell all who wait that there is no result."""
        self._result.cancel()

    @property
    def guessed(self) -> bool:
        """Whether it was made before its turn."""
        return self.round is not None

    @property
    def thrown_away(self) -> bool:
        """Whether it is a guess whose result nobody used, or one that was ended in flight."""
        return self.guessed and not self.used and (self.usage.calls > 0 or not self._result.cancelled())

    def end(self) -> None:
        """End the call in flight, if there is one."""
        if self.call is not None:
            self.call.cancel()


class Guesses:
    """What one question has made since it began to guess, and the guesses that its journal holds."""

    def __init__(self, recorded: Mapping[tuple[str, int], Effect]) -> None:
        self.made: dict[Key, Made] = {}
        self.begun: set[tuple[str, int]] = set()
        """The places at which the method has made a call. A guess for one of them would come too late."""
        self.recorded = {
            (_IN_SPAN.sub("", effect.span, count=1), effect.ordinal, effect.fingerprint): effect
            for effect in recorded.values()
            if _IN_SPAN.search(effect.span)
        }
        self._rounds: Counter[str] = Counter()

    def next_round(self, path: str) -> int:
        """The number of the next round of guesses in this span."""
        self._rounds[path] += 1
        return self._rounds[path] - 1

    def contradict(self, key: Key, *, by: int | None) -> None:
        """End the calls in flight of guesses that expected another request here, for they expect a wrong history.

        by: the round that makes the request, which says nothing about later rounds; None for the method, which does.
        """
        span, ordinal, mark = key
        older = [
            (at, made)
            for at, made in self.made.items()
            if at[0] == span and made.round is not None and (by is None or made.round < by)
        ]
        if any(at[1] == ordinal and at[2] != mark for at, _ in older):
            for at, made in older:
                if at[1] >= ordinal and at != key:
                    made.end()

    def forget(self, key: Key) -> None:
        """Take out an effect that gave no result, so that it can be made again."""
        self.made.pop(key).fail()

"""Makes a method's calls before their turn, on a guess of what the calls before them will say.

A method that revises step after step waits for each revision, although many change nothing. `Guessing` lets it begin
the later steps at once, in twins of their spans. When the method comes to such a step and asks the same, it gets the
guess's result; when it asks something else, it makes its call as ever. So its answer is the same with and without.

Guesses are recorded and paid for like all calls, and those that were wrong cost tokens. They are made only where the
budget also holds everything that the method still needs, and their failures are nobody's errors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar, cast

from pydantic import JsonValue, TypeAdapter

from reground.core.answers import Answer
from reground.core.budget import Reservation
from reground.core.effects import REPLIES, usage_of
from reground.core.guesses import AHEAD, GuessEnded, Guesses, Key, Made
from reground.core.language import Message, Prompt, Reply, Sampling
from reground.core.optional import Optional
from reground.core.run import Run
from reground.core.trajectory import Step

T = TypeVar("T")
Longest = Sequence[tuple[int, int]]
"""The calls that a method still has to make: the tokens of a prompt and of its reply at their longest."""
_log = logging.getLogger(__name__)


class Guessing:
    """The part of a method in which calls may be made before their turn, for use in an async with statement.

    When the block ends, guesses still in flight are ended too. Notes say which guesses were used and which were not.

    run: the span in which the block stands. on: False makes no guesses.
    """

    def __init__(self, run: Run, *, on: bool) -> None:
        self._run = run
        self._on = on and run.foresees
        self._guess: Guess | None = None
        self._rounds: list[Guess] = []

    async def __aenter__(self) -> Guessing:
        shared = self._run._shared
        if self._on and shared.guesses is None:
            shared.guesses = Guesses(shared.recorded)
        return self

    def restart(self, rest: Longest) -> Guess | None:
        """Guess anew from where the method is now; guesses before it begin no further calls. None where none are made.

        rest: everything that the method still has to do, without guesses.
        """
        guesses = self._run._shared.guesses
        if not self._on or guesses is None:
            return None
        if self._rounds:
            self._rounds[-1].closed = True
        self._rounds.append(Guess(self._run, guesses, rest))
        return self._rounds[-1]

    async def __aexit__(self, *error: object) -> None:
        for guess in self._rounds:
            guess.stop()
        for guess in self._rounds:
            await guess.end()
        for made, place in [each for guess in self._rounds for each in guess.made]:
            if made.thrown_away:
                self._run.note("guess thrown away", of=made.name, at=place, tokens=made.usage.tokens)


class Guess:
    """One round of guesses: what the method will do if it goes on as it expects.

    run: the twin of the method's span, with the places that its next effects will have.
    """

    def __init__(self, run: Run, guesses: Guesses, rest: Longest) -> None:
        self.rest = rest
        self.closed = False
        self.flying: set[asyncio.Future[Any]] = set()
        self.made: list[tuple[Made, str]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._base = run._path
        self._name = f"/{AHEAD}.{guesses.next_round(run._path)}"
        self.run = self.of(run)

    def of(self, run: Run) -> Run:
        """The twin of a span as it stands now, for guesses of its next effects."""
        twin = object.__new__(_Twin)
        twin._shared = run._shared
        twin._path = f"{self._base}{self._name}{run._place[len(self._base) :]}"
        twin._ordinal = run._ordinal
        twin._children = dict(run._children)
        twin._guess = self
        return twin

    def place(self, path: str) -> str:
        """The span whose effects are guessed under this path."""
        return self._base + path[len(self._base) + len(self._name) :]

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Let it run beside the method. Whoever awaits the task gets its result or GuessEnded."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        return task

    def stop(self) -> None:
        """End the calls in flight and begin no others."""
        self.closed = True
        for call in self.flying:
            call.cancel()

    async def end(self) -> None:
        """Wait until nothing runs. What is recorded is still read, so that its cost counts."""
        while self._tasks:
            ended, self._tasks = self._tasks, []
            for result in await asyncio.gather(*ended, return_exceptions=True):
                if isinstance(result, Exception) and not isinstance(result, GuessEnded):
                    _log.debug("a guess failed: %s", result)


class _Twin(Run):
    """A span whose effects are guesses: kept in the table and in the journal, and left out of the trajectory."""

    _guess: Guess

    @property
    def _place(self) -> str:
        return self._guess.place(self._path)

    def span(self, name: str, **data: JsonValue) -> Run:
        child = cast(_Twin, super().span(name, **data))
        child._guess = self._guess
        return child

    def propose(self, answer: Answer) -> Answer:
        return answer

    def keeping(self, prompt: Callable[[], Prompt] | None, *, reply: int) -> Optional:
        return Optional(self._note_end, nullcontext(), frozenset())  # guesses leave room for all calls anyway

    def _begin(self, name: str) -> None:
        """A guess is nobody's progress."""

    def _record(
        self, kind: Callable[..., Step], ordinal: int, name: str, *, replayed: bool = False, **found: object
    ) -> None:
        """Nor part of the trajectory, which is the method's."""

    def _admitted(self, messages: tuple[Message, ...], wanted: Sampling, least: int) -> tuple[Sampling, Reservation]:
        return wanted, self._shared.meter.admit_beside(messages, wanted, self._guess.rest)

    async def _made(
        self,
        ordinal: int,
        mark: str,
        name: str,
        adapter: TypeAdapter[T],
        make: Callable[[], Awaitable[T]],
        keep: Callable[[], bool] = lambda: True,
    ) -> tuple[T, float | None]:
        guesses = cast(Guesses, self._shared.guesses)
        place = (self._place, ordinal)
        key = (*place, mark)
        if key in guesses.made:
            return await guesses.made[key].result(), None
        known = self._known(guesses, key, adapter, name)
        if known is not None:
            return known
        if self._guess.closed or place in self._shared.recorded or place in guesses.begun:
            raise GuessEnded(f"nobody waits for {name}")
        made = self._enter(guesses, key, name)
        try:
            result = await self._flown(make)
            if keep():
                await self._write(ordinal, mark, adapter, result)
        except (Exception, asyncio.CancelledError) as error:
            guesses.forget(key)
            raise GuessEnded(str(error)) from error
        _settle(made, result, adapter)
        return result, None

    def _known(self, guesses: Guesses, key: Key, adapter: TypeAdapter[T], name: str) -> tuple[T, float | None] | None:
        """What the journal has for this request, as the method's effect or as a guess."""
        place, ordinal, mark = key
        real = self._shared.recorded.get((place, ordinal))
        if real is not None and real.fingerprint == mark:
            known = self._parsed(real, adapter, name)
            if known is not None:
                return known[0], None  # the method counts it when it comes here
        if key in guesses.recorded:
            known = self._parsed(guesses.recorded[key], adapter, name)
            if known is not None:
                _settle(self._enter(guesses, key, name), known[0], adapter)
                return known
        return None

    def _enter(self, guesses: Guesses, key: Key, name: str) -> Made:
        made = guesses.made[key] = Made(name, guessed=True)
        self._guess.made.append((made, key[0]))
        return made

    async def _flown(self, make: Callable[[], Awaitable[T]]) -> T:
        """The call's result. The end of the block may cancel the call."""
        call = asyncio.ensure_future(make())
        self._guess.flying.add(call)
        try:
            return await call
        finally:
            self._guess.flying.discard(call)


def _settle(made: Made, result: object, adapter: TypeAdapter[T]) -> None:
    if adapter is REPLIES:
        made.usage = usage_of(cast(Sequence[Reply], result))
    made.settle(result)

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
from reground.core.effects import usage_of, usage_of_ended
from reground.core.guesses import AHEAD, GuessEnded, Guesses, Key, Made
from reground.core.language import LanguageModel, Message, Prompt, Reply, Sampling, Terms, Usage
from reground.core.optional import Optional
from reground.core.recording import Limited
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
        self._guesses: Guesses | None = None
        self._rounds: list[Guess] = []

    async def __aenter__(self) -> Guessing:
        if self._on:
            self._guesses = self._run.guessing()
        return self

    def restart(self, rest: Longest) -> Guess | None:
        """Guess again from where the method is now; guesses before it begin no further calls. None where none are made.

        rest: everything that the method still has to do, without guesses.
        """
        if self._guesses is None:
            return None
        if self._rounds:
            self._rounds[-1].closed = True
        self._rounds.append(Guess(self._run, self._guesses, rest))
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
        self.made: list[tuple[Made, str]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._base = run.path
        self.number = guesses.next_round(run.path)
        self._name = f"/{AHEAD}.{self.number}"
        self.run = self.of(run)

    def of(self, run: Run) -> Run:
        """The twin of a span as it stands now, for guesses of its next effects."""
        twin = run.twin(_Twin, f"{self._base}{self._name}{run.place[len(self._base) :]}")
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
        for made, _ in self.made:
            made.end()

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
    def place(self) -> str:
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

    def _admitted(
        self, model: LanguageModel, messages: tuple[Message, ...], wanted: Sampling, least: int
    ) -> tuple[Sampling, Reservation]:
        return wanted, self._shared.meter.admit_beside(messages, wanted, self._guess.rest, terms=Terms.of(model))

    async def _made(
        self,
        ordinal: int,
        mark: str,
        name: str,
        adapter: TypeAdapter[T],
        make: Callable[[], Awaitable[T]],
        keep: Callable[[], bool] = lambda: True,
        limited: Limited | None = None,
    ) -> tuple[T, float | None]:
        guesses = cast(Guesses, self._shared.guesses)
        place = (self.place, ordinal)
        key = (*place, mark)
        known = self._ended_before(ordinal, mark, adapter, name)
        if known is None and key in guesses.made:
            return await guesses.made[key].result(), None
        known = known or self._known(guesses, key, adapter, name)
        if known is not None:
            return known
        if self._guess.closed or place in self._shared.recorded or place in guesses.begun:
            raise GuessEnded(f"nobody waits for {name}")
        guesses.contradict(key, by=self._guess.number)
        made = self._enter(guesses, key, name)
        try:
            result = await self._flown(made, make)
            made.usage = _usage(result)
            if keep():
                await self._write(ordinal, _ended(mark) if _is_ended(result) else mark, adapter, result)
        except (Exception, asyncio.CancelledError) as error:
            guesses.forget(key)
            raise GuessEnded(str(error)) from error
        if _is_ended(result):
            guesses.forget(key)
        else:
            made.settle(result)
        return result, None

    def _ended_before(
        self, ordinal: int, mark: str, adapter: TypeAdapter[T], name: str
    ) -> tuple[T, float | None] | None:
        """What this guess cost when it was ended in flight in an earlier attempt."""
        ended = self._replay(ordinal, _ended(mark), adapter, name)
        if ended is not None:
            made = Made(name, round=self._guess.number, usage=_usage(ended[0]))
            self._guess.made.append((made, self.place))
        return ended

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
                made = self._enter(guesses, key, name)
                made.usage = _usage(known[0])
                made.settle(known[0])
                return known
        return None

    async def generate(self, model: LanguageModel, prompt: Prompt, /, **wanted: Any) -> list[Reply]:
        replies = await super().generate(model, prompt, **wanted)
        if _is_ended(tuple(replies)):
            raise GuessEnded("others know by now that it is wrong")
        return replies

    async def _pay(
        self,
        model: LanguageModel,
        messages: tuple[Message, ...],
        wanted: Sampling,
        name: str,
        least: int,
        limited: Limited | None,
    ) -> tuple[Reply, ...]:
        """As ever. A call that is ended in flight has cost its prompt, and is recorded with that."""
        try:
            return await super()._pay(model, messages, wanted, name, least, limited)
        except asyncio.CancelledError:
            usage = usage_of_ended(messages, model)
            self._shared.meter.usage += usage
            return (Reply(text="", finish_reason=_ENDED, usage=usage),)

    def _enter(self, guesses: Guesses, key: Key, name: str) -> Made:
        made = guesses.made[key] = Made(name, round=self._guess.number)
        self._guess.made.append((made, key[0]))
        return made

    async def _flown(self, made: Made, make: Callable[[], Awaitable[T]]) -> T:
        """The call's result. Others may end the call."""
        made.call = call = asyncio.ensure_future(make())
        try:
            return await call
        finally:
            made.call = None


_ENDED = "ended"


def _ended(mark: str) -> str:
    """The fingerprint under which the journal has what an ended call cost, and no result."""
    return f"{mark} {_ENDED}"


def _is_ended(result: object) -> bool:
    return isinstance(result, tuple) and any(isinstance(r, Reply) and r.finish_reason == _ENDED for r in result)


def _usage(result: object) -> Usage:
    return usage_of([each for each in result if isinstance(each, Reply)]) if isinstance(result, tuple) else Usage()

"""Records the effects of a span of a run, and replays those of an earlier attempt."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from reground.core.answers import Answer
from reground.core.budget import Meter
from reground.core.errors import BudgetExceeded
from reground.core.events import Event, Observer
from reground.core.guesses import GuessEnded, Guesses, Key, Made
from reground.core.journal import Effect, Journal
from reground.core.language import Usage
from reground.core.optional import COUNTING
from reground.core.trajectory import Candidate, ChooseStep, NoteStep, Step

T = TypeVar("T")
REFUSED = TypeAdapter(tuple[str, str])
"""How a refusal is written: the limit, and why."""
_log = logging.getLogger(__name__)


@dataclass
class Shared:
    """The state that all spans of one question share."""

    run_id: str
    question_id: str
    journal: Journal
    meter: Meter
    observer: Observer | None
    seed: int | None
    recorded: dict[tuple[str, int], Effect]
    steps: list[Step] = field(default_factory=list)
    best: Answer | None = None
    whole: Answer | None = None
    lacking: set[tuple[str, str]] = field(default_factory=set)
    """Models, and what optional wish each has refused."""
    hidden: frozenset[str] = frozenset()
    """The ids of documents that this question must not find."""
    guesses: Guesses | None = None
    """Calls made before their turn, as soon as a method has made any."""


@dataclass
class Limited:
    """The fingerprints of a call that the budget shortened, and of one that it refused; another budget has others.

    is_cut: whether the result comes from a shortened call.
    """

    cut: str
    refused: str
    is_cut: bool = False


class Recording:
    """One span: its path, its ordinals and its steps."""

    _shared: Shared
    _path: str
    _ordinal: int
    _children: dict[str, int]

    @property
    def usage(self) -> Usage:
        """The cost of the whole question so far, including replayed calls."""
        return self._shared.meter.usage

    @property
    def meter(self) -> Meter:
        """The question's meter."""
        return self._shared.meter

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step so far, in the order in which they ended."""
        return tuple(self._shared.steps)

    @property
    def within(self) -> tuple[Step, ...]:
        """The steps of this span, and of the spans inside it, so far."""
        inside = f"{self._path}/"
        return tuple(step for step in self._shared.steps if f"{step.span}/".startswith(inside))

    @property
    def path(self) -> str:
        """The span under which the journal has these effects."""
        return self._path

    @property
    def place(self) -> str:
        """The span whose effects these are; a guess has another path for its records."""
        return self._path

    def guessing(self) -> Guesses:
        """The table of the question's guesses. From the first call on, every effect is entered in it."""
        shared = self._shared
        if shared.guesses is None:
            shared.guesses = Guesses(shared.recorded)
        return shared.guesses

    def note(self, name: str, **data: JsonValue) -> None:
        """Record a note, which is not an effect."""
        self._record(NoteStep, self._ordinal, name, data=data)

    def choose(
        self, name: str, *, by: str, context: str, candidates: Sequence[Candidate], chosen: int | None, why: str = ""
    ) -> None:
        """Record the method's choice between candidates, with its context."""
        made = tuple(candidates)
        self._record(ChooseStep, self._ordinal, name, by=by, context=context, candidates=made, chosen=chosen, why=why)

    async def _once(
        self,
        ordinal: int,
        mark: str,
        name: str,
        adapter: TypeAdapter[T],
        effect: Callable[[], Awaitable[T]],
        *,
        keep: Callable[[], bool] = lambda: True,
    ) -> tuple[T, bool]:
        """An effect without tokens. Returns its result, and whether it was replayed."""
        meter = self._shared.meter

        async def make() -> T:
            meter.check_time()
            self._begin(name)
            return await meter.within(effect())

        result, recorded_at = await self._made(ordinal, mark, name, adapter, make, keep)
        if recorded_at is not None:
            meter.carry(recorded_at)
        return result, recorded_at is not None

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
        """An effect's result, recorded, guessed or made now; and when it ended, if its cost is to be counted again."""
        key = (self._path, ordinal, mark)
        guesses = self._shared.guesses
        found: tuple[T, float | None] | None = self._replay(ordinal, mark, adapter, name)
        if found is None and limited is not None:
            found = self._replay(ordinal, limited.cut, adapter, name)
            limited.is_cut = found is not None
            make = self._refusing(ordinal, limited.refused, make)
        if found is not None:
            if guesses is not None and key in guesses.recorded:
                self._note_used(name)
            return found
        if guesses is None:
            found = await make(), None
        else:
            found = await self._guessed(guesses, key, name, adapter)
            if found is None:
                found = await self._shown(guesses, key, name, make), None
        if keep():
            at = limited.cut if limited is not None and limited.is_cut else mark
            await self._write(ordinal, at, adapter, found[0])
        return found

    async def _guessed(
        self, guesses: Guesses, key: Key, name: str, adapter: TypeAdapter[T]
    ) -> tuple[T, float | None] | None:
        """The result of a guess of this very request, made or recorded; None if there is none."""
        found: tuple[T, float | None] | None = None
        made = guesses.made.get(key)
        if made is not None and made.guessed:
            self._begin(name)
            try:
                found = await self._shared.meter.within(made.result()), None
            except GuessEnded:
                return None
        elif key in guesses.recorded:
            found = self._parsed(guesses.recorded[key], adapter, name)
            if found is not None:
                made = guesses.made[key] = Made(name, round=0)
                made.settle(found[0])
        if found is not None and made is not None:
            made.used = True
            self._note_used(name)
        return found

    def _note_used(self, name: str) -> None:
        self.note("guess used", of=name)

    async def _shown(self, guesses: Guesses, key: Key, name: str, make: Callable[[], Awaitable[T]]) -> T:
        """Make the effect where guesses see it, because what comes after it may be guessed."""
        guesses.begun.add(key[:2])
        guesses.contradict(key, by=None)
        made = guesses.made[key] = Made(name)
        try:
            result = await make()
        except BaseException:
            guesses.forget(key)
            raise
        made.settle(result)
        return result

    async def _write(self, ordinal: int, mark: str, adapter: TypeAdapter[T], result: T) -> None:
        """Put the result of an effect into the journal."""
        shared = self._shared
        effect = Effect(self._path, ordinal, mark, adapter.dump_json(result).decode(), shared.meter.elapsed)
        await shared.journal.append(shared.run_id, shared.question_id, effect)

    def _refusing(self, ordinal: int, mark: str, make: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """The call, refused again if the same budget refused it before.

        At a replay the calls beside it have ended, and there may be room that there was not.
        """

        async def refusing() -> T:
            effect = self._shared.recorded.get((self._path, ordinal))
            if effect is not None and effect.fingerprint == mark:
                raise BudgetExceeded(*REFUSED.validate_json(effect.result))
            try:
                return await make()
            except BudgetExceeded as error:
                if error.limit in COUNTING:
                    await self._write(ordinal, mark, REFUSED, (error.limit, str(error)))
                raise

        return refusing

    def _next(self) -> int:
        ordinal = self._ordinal
        self._ordinal += 1
        return ordinal

    def _replay(self, ordinal: int, mark: str, adapter: TypeAdapter[T], name: str) -> tuple[T, float] | None:
        """The recorded result of this request and when it ended; None if nothing readable is recorded."""
        effect = self._shared.recorded.get((self._path, ordinal))
        return None if effect is None or effect.fingerprint != mark else self._parsed(effect, adapter, name)

    def _parsed(self, effect: Effect, adapter: TypeAdapter[T], name: str) -> tuple[T, float] | None:
        try:
            return adapter.validate_json(effect.result), effect.elapsed
        except ValidationError as error:
            why = f"{effect.where or 'the journal'}: {error.errors()[0]['msg']}"
            _log.warning("a recorded effect (%s) cannot be read, so the call is made again: %s", name, why)
            self.note("record set aside", of=name, why=why)
            return None

    def _begin(self, name: str) -> None:
        if self._shared.observer is not None:
            self._shared.observer(Event("begin", self._path, name, self.usage))

    def _record(
        self, kind: Callable[..., Step], ordinal: int, name: str, *, replayed: bool = False, **found: object
    ) -> None:
        shared = self._shared
        place = {"span": self._path, "ordinal": ordinal, "name": name, "elapsed": shared.meter.elapsed}
        step = kind(**place, replayed=replayed, **found)
        shared.steps.append(step)
        if shared.observer is not None:
            shared.observer(Event("end", step.span, step.name, self.usage, step))

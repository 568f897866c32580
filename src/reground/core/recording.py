"""Records the effects of a span of a run, and replays those of an earlier attempt."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from reground.core.answers import Answer
from reground.core.budget import Meter
from reground.core.errors import BudgetExceeded
from reground.core.events import Event, Observer
from reground.core.journal import Effect, Journal
from reground.core.language import Usage
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
    rooms: dict[str, int] = field(default_factory=dict)
    """The most tokens that a reasoning model's call had for its thought, by the model's name."""


class Recording:
    """One span: its path, its ordinals and its steps."""

    _shared: Shared
    _path: str
    _ordinal: int
    _children: dict[str, int]

    def _under(self, path: str) -> Self:
        """A new span of the question, which has nothing of its own yet."""
        made = object.__new__(type(self))
        made._shared, made._path = self._shared, path
        made._ordinal, made._children = 0, {}
        return made

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
        found = self._replay(ordinal, mark, adapter, name)
        if found is not None:
            result, recorded_at = found
            meter.carry(recorded_at)
            return result, True
        meter.check_time()
        self._begin(name)
        result = await meter.within(effect())
        if keep():
            await self._write(ordinal, mark, adapter, result)
        return result, False

    async def _write(self, ordinal: int, mark: str, adapter: TypeAdapter[T], result: T) -> None:
        """Put the result of an effect into the journal."""
        shared = self._shared
        effect = Effect(self._path, ordinal, mark, adapter.dump_json(result).decode(), shared.meter.elapsed)
        await shared.journal.append(shared.run_id, shared.question_id, effect)

    def _refuse_again(self, ordinal: int, mark: str) -> None:
        """Raise BudgetExceeded if the same budget refused the call before.

        At a replay the calls beside it have ended, and there may be room that there was not.
        """
        effect = self._shared.recorded.get((self._path, ordinal))
        if effect is not None and effect.fingerprint == mark:
            raise BudgetExceeded(*REFUSED.validate_json(effect.result))

    def _next(self) -> int:
        ordinal = self._ordinal
        self._ordinal += 1
        return ordinal

    def _replay(self, ordinal: int, mark: str, adapter: TypeAdapter[T], name: str) -> tuple[T, float] | None:
        """The recorded result of this request and when it ended; None if nothing readable is recorded."""
        effect = self._shared.recorded.get((self._path, ordinal))
        if effect is None or effect.fingerprint != mark:
            return None
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

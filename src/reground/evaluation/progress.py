"""The progress of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic

from reground.core.language import Usage
from reground.core.run import Event
from reground.core.trajectory import GenerateStep, NoteStep
from reground.evaluation.records import Record

SIMULATION = "simulation"
"""The note of a tree search that a simulation has entered its tree; `number` counts them from 1."""


@dataclass(frozen=True)
class Told:
    """The cost of a question so far, and what of it was paid since the last time.

    simulations: how many its tree has so far, where it is a tree that is grown.
    """

    usage: Usage
    paid: Usage | None = None
    simulations: int = 0

    @classmethod
    def of(cls, event: Event) -> Told:
        """What an event tells."""
        step = event.step
        number = step.data.get("number") if isinstance(step, NoteStep) and step.name == SIMULATION else None
        return cls(event.usage, _paid_by(event), number if isinstance(number, int) else 0)

    def after(self, before: Told | None) -> Told:
        """This one, with what an earlier one that was not sent tells."""
        if before is None:
            return self
        paid = before.paid if self.paid is None else self.paid if before.paid is None else before.paid + self.paid
        return Told(self.usage, paid, max(self.simulations, before.simulations))


Tell = Callable[[Told], None]
"""Called with what there is to tell of a question."""


@dataclass(frozen=True)
class Progress:
    """The progress of a run, in questions x repeats.

    resumed: those that earlier sessions finished; done includes them.
    usage: the cost of finished and started ones over all sessions. paid: the cost of this session.
    left: estimated seconds to the end at this session's pace; None until one has finished.
    """

    done: int
    total: int
    resumed: int
    failed: int
    unscored: int
    usage: Usage
    paid: Usage
    elapsed: float
    left: float | None


class Tracker:
    """Adds up the progress of a run for its observer."""

    def __init__(self, total: int, records: Mapping[str, Record], observer: Callable[[Progress], None] | None) -> None:
        self._total, self._observer, self._started = total, observer, monotonic()
        self._resumed = self._done = len(records)
        self._failed = sum(record.failure is not None for record in records.values())
        self._unscored = sum(_unscored(record) for record in records.values())
        self._usage = sum((record.usage for record in records.values()), Usage())
        self._begun: dict[str, Usage] = {}
        self._paid = Usage()
        self._tell()

    def watch(self, id: str, event: Event) -> None:
        """Count an event of one question."""
        self.count(id, Told.of(event))

    def count(self, id: str, told: Told) -> None:
        """Count what a question has cost so far, and what of it was paid now."""
        self._begun[id] = told.usage
        if told.paid is not None:
            self._paid += told.paid
        self._tell()

    def finish(self, record: Record) -> None:
        """Count a finished question."""
        self._begun.pop(record.id, None)
        self._usage += record.usage
        self._done += 1
        self._failed += record.failure is not None
        self._unscored += _unscored(record)
        self._tell()

    def _tell(self) -> None:
        if self._observer is None:
            return
        elapsed, mine = monotonic() - self._started, self._done - self._resumed
        self._observer(
            Progress(
                done=self._done,
                total=self._total,
                resumed=self._resumed,
                failed=self._failed,
                unscored=self._unscored,
                usage=sum(self._begun.values(), self._usage),
                paid=self._paid,
                elapsed=elapsed,
                left=elapsed / mine * (self._total - self._done) if mine else None,
            )
        )


def _paid_by(event: Event) -> Usage | None:
    """What the event's call has cost; None for other events, and for replayed calls, which cost nothing now."""
    if event.type == "end" and isinstance(event.step, GenerateStep) and not event.step.replayed:
        return sum((reply.usage for reply in event.step.replies), Usage())
    return None


def _unscored(record: Record) -> bool:
    return record.failure is None and all(score.value is None for score in record.scores.values())

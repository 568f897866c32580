"""What waits at a worker until the command has written it: the journal of a run whose file is elsewhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from reground.app.cluster.wire import Parcel
from reground.core.journal import Effect
from reground.core.run import Event
from reground.evaluation.runner import Told


class Outbox:
    """Effects and costs of all questions of a worker.

    The command calls `exchange` again and again. Each call confirms the parcel before it, so that the methods behind
    its effects go on, and returns the next parcel as soon as there is something in it. So effects that wait together
    share one way there and back.
    """

    def __init__(self) -> None:
        self._effects: list[tuple[int, Effect, asyncio.Future[None]]] = []
        self._sent: list[tuple[int, asyncio.Future[None]]] = []
        self._told: dict[int, Told] = {}
        self._number = 0
        self._open: Counter[int] = Counter()
        self._changed = asyncio.Event()
        self._confirmed = asyncio.Condition()

    async def put(self, ticket: int, effect: Effect) -> None:
        """Return when the command has written the effect."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._effects.append((ticket, effect, done))
        self._open[ticket] += 1
        self._changed.set()
        await done

    def tell(self, ticket: int, told: Told) -> None:
        """Report a cost with the next parcel."""
        self._told[ticket] = told.after(self._told.get(ticket))
        self._changed.set()

    async def end(self, ticket: int) -> Told | None:
        """Return when every effect of a question is written, also those that its method no longer waits for.

        Returns the cost that was not sent yet.
        """
        async with self._confirmed:
            await self._confirmed.wait_for(lambda: not self._open[ticket])
        del self._open[ticket]
        return self._told.pop(ticket, None)

    async def exchange(self, confirmed: int) -> Parcel:
        """Confirm the last parcel, and return the next one."""
        if confirmed == self._number:
            for ticket, done in self._sent:
                self._open[ticket] -= 1
                if not done.done():
                    done.set_result(None)
            self._sent = []
            async with self._confirmed:
                self._confirmed.notify_all()
        await self._changed.wait()
        self._changed.clear()
        effects, self._effects = self._effects, []
        told, self._told = self._told, {}
        self._sent += [(ticket, done) for ticket, _, done in effects]
        self._number += 1
        return Parcel(self._number, tuple((ticket, effect) for ticket, effect, _ in effects), told)


class SentJournal:
    """A question's journal at a worker: what was recorded came with the question, what is new goes to the outbox."""

    def __init__(self, outbox: Outbox, ticket: int, recorded: Iterable[Effect]) -> None:
        self._outbox, self._ticket = outbox, ticket
        self._recorded = {(effect.span, effect.ordinal): effect for effect in recorded}

    def load(self, run: str, question: str) -> dict[tuple[str, int], Effect]:
        """What the command had recorded of the question when it sent it."""
        return dict(self._recorded)

    async def append(self, run: str, question: str, effect: Effect) -> None:
        """Return when the effect is in the command's journal."""
        await self._outbox.put(self._ticket, effect)

    def observe(self, event: Event) -> None:
        """Report what the event tells."""
        self._outbox.tell(self._ticket, Told.of(event))

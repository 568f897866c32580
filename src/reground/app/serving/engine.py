"""A session that is asked again and again: its queue, follow-ups as questions of their own, removal of old runs."""

from __future__ import annotations

import asyncio
import logging
import math
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import WeakValueDictionary

from reground.app import catalogue
from reground.app.benchmark import settings_by_method
from reground.app.documents import Source, names_other
from reground.app.options import Offering, Serve
from reground.app.result import Result
from reground.app.runs import GONE, in_use, removed
from reground.app.session import Offer, Session, Setup
from reground.core.budget import Budget
from reground.core.concurrency import in_daemon
from reground.core.errors import ConfigurationError, RegroundError, did_you_mean
from reground.core.evidence import Retriever
from reground.core.journal import SqliteJournal, fingerprint
from reground.core.language import LanguageModel, Message, Sampling, Usage
from reground.core.paths import expanded, runs_dir
from reground.core.run import Observer, Run
from reground.text.excerpts import terms

if TYPE_CHECKING:
    from reground.core.run import Event


MARK = "served"
"""An empty file in the folder of a run that a server began. Its time is that of the last question. Runs without it
belong to somebody else, such as `reground ask`, and stay."""
WITHIN = "within-"
"""How the name of a folder begins that holds the runs within one budget."""
_DAY = 86400.0
_OFTEN, _SELDOM = 1.0, 3600.0
"""The seconds between two looks: a tenth of the time that runs are kept, within these bounds."""
_log = logging.getLogger("reground.serve")
TURNS = 8
"""The last turns before the question that are shown to the model."""
_TURN = 1500
"""Characters of a turn that are shown, from its beginning."""
_PROMPT = """\
Below is a conversation and its last message. Write the last message as one question that can be understood without the
conversation: put the names in place of "it", "she" or "there", and change nothing else. Write the question alone.

Conversation:
{conversation}

Last message: {last}

Question:"""


class Busy(RegroundError):
    """Too many questions wait already. retry_after: seconds after which there is probably room."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"too many questions wait already; try again in {math.ceil(retry_after)} seconds")
        self.retry_after = retry_after


class UnknownName(ConfigurationError):
    """What was asked for is not offered."""


class Engine:
    """What a session offers, and its questions in work.

    concurrency: questions in work at once. waiting: how many more may wait. keep: the days for which runs are kept
    (`Keeping`); None for the user's own questions, which are kept.
    """

    def __init__(
        self,
        session: Session,
        *,
        concurrency: int = 8,
        waiting: int = 64,
        keep: float | None = None,
    ) -> None:
        self.session = session
        self.offers = session.setup.offers
        self.corpora = session.retrievers
        self.working = 0
        self.waiting = 0
        self._places, self._most = asyncio.Semaphore(concurrency), waiting
        self._concurrency = concurrency
        self._seconds = 10.0
        self._same: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._home = session.setup.home or runs_dir()
        self._home.mkdir(parents=True, exist_ok=True)
        self._journal = SqliteJournal(self._home / "follow-ups.sqlite")
        self.keeping = None if keep is None else Keeping(self._home, keep)

    async def ask(
        self,
        name: str,
        turns: Sequence[Message],
        *,
        observer: Observer | None = None,
        budget: Budget | None = None,
        seed: int | None = None,
        form: str | None = None,
    ) -> Result:
        """Answer the last question of a conversation.

        budget: the request's own; it holds up to the session's. What one budget cut is not replayed under another, so
        each has its runs in a folder of its own. The usage and the seconds are those of all calls, also of those that
        make a follow-up a question of its own. A question that was answered before is replayed, whoever asks it; with
        another seed it is answered again. Raises UnknownName, Busy, or what kept the method from an answer.
        """
        offer = self.offer(name)
        question_of(turns)  # refused before it waits for a place
        model, limits = self.session.models[offer.model], _smaller(self.session.setup.budget, budget)
        limited = limits.model_dump_json(exclude_none=True) if limits != Budget() else ""
        home = self._home / f"{WITHIN}{fingerprint(limited)[:12]}" if limited else self._home
        said = (text for turn in turns for text in (turn.role, turn.content))
        key = fingerprint("served", offer.name, str(seed), str(form), limited, *said)
        async with self._place(key):
            began = time.monotonic()
            run = Run(
                run_id="follow-ups", question_id=key, journal=self._journal, budget=limits, observer=observer, seed=seed
            )
            question = await condensed(run, model, turns)
            took = run.meter.elapsed if run.usage.calls else 0.0
            # Other conversations may have come to the same question; its run is one, so it is answered once.
            async with self._lock(fingerprint("answered", offer.name, str(seed), str(form), limited, question)):
                result = await self.session.ask(
                    question,
                    offer,
                    form=form,
                    budget=_without(limits, run.usage, took),
                    seed=seed,
                    observer=observer,
                    home=home,
                    hold=in_use if self.keeping is None else self.keeping.asked,
                )
            self._seconds += 0.2 * (time.monotonic() - began - self._seconds)
        return replace(result, usage=run.usage + result.usage, seconds=took + result.seconds)

    def offer(self, name: str) -> Offer:
        """The offer of this name, or the default for an empty one. Raises UnknownName."""
        if not self.offers:
            raise UnknownName("this server answers no questions: it was started with --model none")
        if not name:
            return next(iter(self.offers.values()))
        if name not in self.offers:
            raise UnknownName(f"no model is called {name!r}; {did_you_mean(name, self.offers)}")
        return self.offers[name]

    def corpus(self, name: str | None = None) -> Retriever:
        """The documents of this name, or the first. Raises UnknownName."""
        if not self.corpora:
            raise UnknownName("there are no documents to search")
        if name is None:
            return next(iter(self.corpora.values()))
        if name not in self.corpora:
            raise UnknownName(f"no documents are called {name!r}; {did_you_mean(name, self.corpora)}")
        return self.corpora[name]

    async def aclose(self) -> None:
        """Close the journal of follow-ups. Models and documents are closed by who opened them."""
        self._journal.close()

    @asynccontextmanager
    async def _place(self, key: str) -> AsyncIterator[None]:
        """A place among the questions in work. Raises Busy where too many wait.

        Who asks what is in work already waits without taking a place.
        """
        if self.waiting >= self._most and (self._places.locked() or key in self._same):
            raise Busy(max(1.0, self._seconds * (self.waiting + 1) / self._concurrency))
        self.waiting += 1
        waits = True
        try:
            async with self._lock(key), self._places:
                self.waiting, waits = self.waiting - 1, False
                self.working += 1
                try:
                    yield
                finally:
                    self.working -= 1
        finally:
            self.waiting -= waits

    def _lock(self, key: str) -> asyncio.Lock:
        """One question is answered once: a second who asks the same at the same time waits, and gets it replayed.

        The lock is there while somebody holds it or waits for it.
        """
        return self._same.setdefault(key, asyncio.Lock())


@asynccontextmanager
async def open_engine(session: Session, options: Offering) -> AsyncIterator[Engine]:
    """The questions of an open session, and the removal of old runs, until the end of the block."""
    engine = Engine(
        session,
        concurrency=options.concurrency,
        waiting=options.waiting,
        keep=options.keep if isinstance(options, Serve) else None,
    )
    async with AsyncExitStack() as opened:
        opened.push_async_callback(engine.aclose)
        if engine.keeping is not None:
            watch = asyncio.create_task(engine.keeping.watch())
            opened.callback(watch.cancel)
        yield engine


def setup_of(options: Offering, *, located: bool = False) -> Setup:
    """What is offered; for the model none only the search of documents.

    located: whether quotes are looked up in files, of which clients over HTTP see nothing.

    Raises ConfigurationError, also for a setting, a model or a check that no question could have.
    """
    methods = [catalogue.method(each).name for each in options.method]
    return Setup(
        search=options,
        methods=tuple(methods),
        models={spec: spec for spec in options.model if options.model != ["none"]},
        sources=_sources(options, located=located),
        settings=settings_by_method(options.settings, methods),
        model_options=options.model_options,
        budget=options.budget,
        support=options.support,
        home=options.home,
    )


def _sources(options: Offering, *, located: bool) -> dict[str, Source]:
    """What is searched, by name."""
    if names_other(options):
        return {"web" if options.web is not None else "own": Source()}
    sources: dict[str, Source] = {}
    for given in options.corpus or ():
        name, equals, path = given.partition("=")
        place = expanded(Path(path if equals else given))
        name = name if equals else place.resolve().stem
        if name in sources:
            raise ConfigurationError(f"two corpora are called {name}: name them, as in --corpus other=PATH")
        sources[name] = Source(place, located=located)
    return sources


def _smaller(most: Budget | None, asked: Budget | None) -> Budget:
    """Of each limit the smaller one."""
    budgets = [budget for budget in (most, asked) if budget is not None]
    limits = {name: [getattr(budget, name) for budget in budgets] for name in Budget.model_fields}
    return Budget(
        **{name: min((each for each in given if each is not None), default=None) for name, given in limits.items()}
    )


def _without(budget: Budget, used: Usage, seconds: float) -> Budget:
    """What is left of a budget."""
    spent = {
        "tokens": used.tokens,
        "calls": used.calls,
        "seconds": seconds,
        "usd": used.usd or 0.0,
        "completion": used.completion,
    }
    limits = budget.model_dump(exclude_none=True)
    return budget.model_copy(update={name: max(0, limit - spent[name]) for name, limit in limits.items()})


def question_of(turns: Sequence[Message]) -> str:
    """The last message of the user. Raises ConfigurationError where there is none, or it is empty."""
    last = next((turn.content for turn in reversed(turns) if turn.role == "user"), "")
    if not last.strip():
        raise ConfigurationError("the conversation has no question: its last message of the user is empty")
    return last.strip()


async def condensed(run: Run, model: LanguageModel, turns: Sequence[Message]) -> str:
    """The last message of the user as a question of its own.

    The first question of a conversation stays as it is, without a call. Messages of the system are no part of the
    conversation. Where the model writes nothing, the message stays as it is too. Where it writes something that shares
    no word with the message, as small models do, the message stands behind the question before it.
    """
    last, said = question_of(turns), [turn for turn in turns if turn.role != "system"]
    place = max(number for number, turn in enumerate(said) if turn.role == "user")
    if not any(turn.content.strip() for turn in said[:place]):
        return last
    shown = "\n".join(f"{turn.role}: {turn.content.strip()[:_TURN]}" for turn in said[max(0, place - TURNS) : place])
    prompt = _PROMPT.format(conversation=shown, last=last[:_TURN])
    reply = (await run.generate(model, prompt, name="follow-up", sampling=Sampling(max_tokens=128)))[0]
    lines = [line.strip() for line in reply.text.splitlines() if line.strip()]
    if not lines or not set(terms(last)).isdisjoint(terms(lines[0])):
        return lines[0] if lines else last
    before = next((turn.content.strip() for turn in reversed(said[:place]) if turn.role == "user"), "")
    return f"{before[:_TURN]} {last}".strip()


class Keeping:
    """How long the runs under a server's home are kept. days: since they were last asked; 0 keeps all."""

    def __init__(self, home: Path, days: float) -> None:
        self._home = home
        self._days = days

    @contextmanager
    def asked(self, folder: Path) -> Iterator[None]:
        """Hold the folder of a question that is asked now, and note when that was."""
        with in_use(folder) as is_new:
            mark = folder / MARK
            with suppress(OSError):
                if is_new or mark.exists():
                    mark.touch()
            yield

    async def watch(self) -> None:
        """Remove what is too old, now and from time to time, beside the questions. Ends when it is cancelled."""
        while self._days:
            try:
                count = await in_daemon(self.sweep, name="sweep")
                if count:
                    runs = "1 run" if count == 1 else f"{count} runs"
                    _log.info("removed %s that nobody asked for in %g days (keep)", runs, self._days)
            except OSError as error:
                _log.warning("old runs in %s cannot be removed: %s", self._home, error.strerror)
            await asyncio.sleep(min(_SELDOM, max(_OFTEN, self._days * _DAY / 10)))

    def sweep(self) -> int:
        """Remove what is too old, and what an earlier removal left. Returns how many runs are gone."""
        folders = (self._home, *self._home.glob(f"{WITHIN}*"))
        for left in (left for folder in folders for left in folder.glob(f"{GONE}*")):
            shutil.rmtree(left, ignore_errors=True)
        marks = [mark for folder in folders for mark in folder.glob(f"ask-*/{MARK}") if self._is_old(mark)]
        return sum(removed(mark.parent, wanted=partial(self._is_old, mark)) for mark in marks)

    def _is_old(self, mark: Path) -> bool:
        try:
            return mark.stat().st_mtime < time.time() - self._days * _DAY
        except OSError:
            return False


class Work:
    """A question that is answered while its steps are read. Leaving the block cancels it.

    ask: answers, and tells the observer what happens.
    """

    def __init__(self, ask: Callable[[Observer], Awaitable[Result]]) -> None:
        self._news: asyncio.Queue[Event | None] = asyncio.Queue()
        self._ask = ask
        self._task: asyncio.Task[Result] | None = None
        self._first: Event | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._answered())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # it was told, or nobody is left to be told

    async def _answered(self) -> Result:
        try:
            return await self._ask(self._news.put_nowait)
        finally:
            self._news.put_nowait(None)

    async def begun(self, seconds: float) -> None:
        """Return at the first step, or after these seconds. Raises what kept the question from beginning."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                self._first = await self._news.get()
                if self._first is None:
                    self._news.put_nowait(None)
                    await self.result()

    async def events(self, heartbeat: float | None) -> AsyncIterator[Event | None]:
        """What happens, as it happens; None after that many seconds without news; never for None."""
        if self._first is not None:
            yield self._first
        while True:
            try:
                async with asyncio.timeout(heartbeat):
                    event = await self._news.get()
            except TimeoutError:
                yield None
                continue
            if event is None:
                return
            yield event

    async def result(self) -> Result:
        """The result. Raises what kept the method from an answer."""
        assert self._task is not None
        return await asyncio.shield(self._task)

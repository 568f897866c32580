"""A session that is asked again and again: its queue, follow-ups as questions of their own, removal of old runs, and
the words that tell a client of the progress."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from reground.app import catalogue
from reground.app.benchmark import settings_by_method
from reground.app.documents import Source, is_page, names_other
from reground.app.options import Offering, Serve
from reground.app.runs import AROUND, WITHIN, Hold, Keeping, Result, folder_lock
from reground.app.serving.keys import ANYONE, Holder
from reground.app.session import Offer, Session, Setup, instructions_of
from reground.core.budget import Budget
from reground.core.errors import BudgetExceeded, ConfigurationError, RegroundError, did_you_mean
from reground.core.evidence import Retriever
from reground.core.files import expanded, runs_dir
from reground.core.http import MIB
from reground.core.journal import Journal, MemoryJournal, SqliteJournal, fingerprint
from reground.core.language import LanguageModel, Message, Sampling, Usage
from reground.core.run import Event, Observer, Run
from reground.core.trajectory import ChooseStep, ExecuteStep, GenerateStep, NoteStep, RetrieveStep
from reground.text.excerpts import terms

TURNS = 8  # the last turns before the question that are shown to the model
_TITLES = 5  # titles of passages that are told of a search
TURN = 1500  # characters of a turn that are shown, from its beginning
Rewriting = Callable[[str, str, LanguageModel, Run], Awaitable[str]]
"""Puts the answer to a question into another form, by calls of a model."""
_PROMPT = """\
Below is a conversation and its last message. Write the last message as one question that can be understood without the
conversation: put the names in place of "it", "she" or "there", and change nothing else. They mean what the latest
question and answer are about, not what earlier ones were. Write the question alone.

Conversation:
{conversation}

The latest question and answer:
{latest}

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

    concurrency: questions in work at once. waiting: how many more may wait. keep: the days for which runs are kept, and
    the bytes that they may take (`Keeping`); empty for the user's own questions, which are kept.
    """

    def __init__(
        self, session: Session, *, concurrency: int = 8, waiting: int = 64, keep: Sequence[float] = ()
    ) -> None:
        self.session = session
        self.offers = session.setup.offers
        self.corpora = session.retrievers
        self.working = self.waiting = 0
        self._places, self._concurrency, self._most = asyncio.Semaphore(concurrency), concurrency, waiting
        self._seconds = 10.0  # of a question, on average
        self._same: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._home = session.setup.home or runs_dir()
        self._home.mkdir(parents=True, exist_ok=True)
        self.keeping = Keeping(self._home, *keep) if keep else None

    async def ask(
        self,
        name: str,
        turns: Sequence[Message],
        *,
        observer: Observer | None = None,
        budget: Budget | None = None,
        seed: int | None = None,
        form: str | None = None,
        holder: Holder = ANYONE,
        into_json: Rewriting | None = None,
        instructions: str = "",
        where: str | None = None,
    ) -> Result:
        """Answer the last question of a conversation. holder: of the key. into_json: puts the answer into JSON.
        instructions: how the request wants it written. where: a filter of the documents.

        budget: the request's own; it holds up to the session's. What one budget cut is not replayed under another, so
        each has its runs in a folder of its own. The usage and the seconds are those of all calls, also of those that
        make a follow-up a question of its own. A question that was answered before is replayed, whoever asks it; with
        another seed it is answered again. Raises UnknownName, Busy, or what kept the method from an answer.
        """
        offer = self.offer(name, holder)
        question_of(turns)  # refused before it waits for a place
        both = [each.model_dump(exclude_none=True) for each in (self.session.setup.budget, budget) if each is not None]
        limits = Budget(**{name: min(each.get(name, math.inf) for each in both) for each in both for name in each})
        limited = limits.model_dump_json(exclude_none=True) if limits != Budget() else ""
        home = self._home / f"{WITHIN}{fingerprint(limited)[:12]}" if limited else self._home
        texts = (text for turn in turns for text in (turn.role, turn.content))
        key = fingerprint("served", offer.name, str(seed), str(form), limited, *filter(None, [where]), *texts)
        hold = folder_lock if self.keeping is None else partial(self.keeping.hold, line=f"{holder.name}\t{offer.name}")
        around = self._home / f"{AROUND}{key[:12]}" if _before(turns) or into_json else None
        async with self._place(key), _journal(around, hold) as journal:
            began = time.monotonic()
            run = Run(
                run_id="follow-ups", question_id=key, journal=journal, budget=limits, observer=observer, seed=seed
            )
            question = await condensed(run, self.session.models[offer.model], turns)
            took = run.meter.elapsed if run.usage.calls else 0.0
            await self.session.follow(offer.corpus)
            result = await self.session.ask(
                question,
                offer,
                form=form,
                budget=_without(limits, run.usage, took),
                seed=seed,
                observer=observer,
                instructions=instructions,
                home=home,
                hold=hold,
                where=where,
            )
            result = replace(result, usage=run.usage + result.usage, seconds=took + result.seconds)
            if into_json is not None:
                remaining = _without(limits, result.usage, result.seconds)
                run = Run(run_id="json", question_id=key, journal=journal, budget=remaining, observer=observer)
                stopped = result.stopped
                try:
                    json = await into_json(question, result.text, self.session.models[offer.model], run)
                except BudgetExceeded as end:  # what was written of it, cut, is what a client of such a limit expects
                    tries = [step.replies[0].text for step in run.steps if isinstance(step, GenerateStep)]
                    json, stopped = tries[-1] if tries else "", end.limit
                usage, seconds = result.usage + run.usage, result.seconds + run.meter.elapsed
                result = replace(result, json=json, stopped=stopped, usage=usage, seconds=seconds)
            self._seconds += 0.2 * (time.monotonic() - began - self._seconds)
        return result

    def offers_to(self, holder: Holder) -> dict[str, Offer]:
        """What a holder of a key may ask."""
        return {name: offer for name, offer in self.offers.items() if holder.may_ask(offer.corpus)}

    def offer(self, name: str, holder: Holder = ANYONE) -> Offer:
        """The offer of this name, or the default for an empty one. Raises UnknownName."""
        offers = self.offers_to(holder)
        if not offers:
            raise UnknownName("this server answers no questions: it was started with --model none")
        if name and name not in offers:
            raise UnknownName(f"no model is called {name[:200]!r}; {did_you_mean(name, offers)}")
        return offers[name or next(iter(offers))]

    def documents(self, name: str | None = None, holder: Holder = ANYONE) -> str:
        """The name of documents that are searched, by default of the first. Raises UnknownName."""
        corpora = [corpus for corpus in self.corpora if holder.may_ask(corpus)]
        if not corpora:
            raise UnknownName("there are no documents to search")
        if name is not None and name not in corpora:
            raise UnknownName(f"no documents are called {name[:200]!r}; {did_you_mean(name, corpora)}")
        return corpora[0] if name is None else name

    async def corpus(self, name: str | None = None, holder: Holder = ANYONE, where: str | None = None) -> Retriever:
        """The documents of this name, or the first, as their folder holds them now; those that a filter chooses.

        Raises UnknownName, FilterError.
        """
        name = self.documents(name, holder)
        await self.session.follow(name)
        return (await self.session.narrowed(name, where)).retrievers[name]

    @asynccontextmanager
    async def _place(self, key: str) -> AsyncIterator[None]:
        """A place among the questions in work. Raises Busy where too many wait.

        A second request for what is in work waits without taking a place, and then gets the result replayed.
        """
        if self.waiting >= self._most and (self._places.locked() or key in self._same):
            raise Busy(max(1.0, self._seconds * (self.waiting + 1) / self._concurrency))
        async with AsyncExitStack() as place:
            self.waiting += 1
            try:
                await place.enter_async_context(self._same.setdefault(key, asyncio.Lock()))
                await place.enter_async_context(self._places)
            finally:
                self.waiting -= 1
            self.working += 1
            try:
                yield
            finally:
                self.working -= 1


@asynccontextmanager
async def open_engine(session: Session, options: Offering) -> AsyncIterator[Engine]:
    """The questions of an open session, and the removal of old runs, until the end of the block."""
    keep = (options.keep, options.keep_mib * MIB) if isinstance(options, Serve) else ()
    engine = Engine(session, concurrency=options.concurrency, waiting=options.waiting, keep=keep)
    watch = None if engine.keeping is None else asyncio.create_task(engine.keeping.watch())
    try:
        yield engine
    finally:
        if watch is not None:
            watch.cancel()


def setup_of(options: Offering) -> Setup:
    """What is offered; for the model none only the search of documents.

    Raises ConfigurationError, also for a setting, a model or a check that no question could have.
    """
    methods = [catalogue.method(each).name for each in options.method]
    sources: dict[str, Source] = {}
    if names_other(options):
        sources["web" if options.web is not None else "own"] = Source()
    for corpus in options.corpus or ():
        name, equals, path = ("", "", corpus) if is_page(corpus) else corpus.partition("=")
        path = path if equals else corpus
        name = name if equals else Path(os.path.realpath(path)).stem
        if name in sources:
            raise ConfigurationError(f"two corpora are called {name}: name them, as in --corpus other=PATH")
        sources[name] = Source(path if is_page(path) else expanded(path))
    return Setup(
        search=options,
        methods=tuple(methods),
        models={spec: spec for spec in options.model if options.model != ["none"]},
        sources=sources,
        settings=settings_by_method(options.settings, methods),
        model_options=options.model_options,
        budget=options.budget,
        support=options.support,
        instructions=instructions_of(options),
        home=options.home,
    )


def _without(budget: Budget, cost: Usage, seconds: float) -> Budget:
    """What is left of a budget."""
    spent = {name: getattr(cost, name) or 0 for name in ("tokens", "calls", "usd", "completion")} | {"seconds": seconds}
    limits = budget.model_dump(exclude_none=True)
    return Budget(**{name: max(0, limit - spent[name]) for name, limit in limits.items()})


def question_of(turns: Sequence[Message]) -> str:
    """The last message of the user. Raises ConfigurationError where there is none, or it is empty."""
    last = next((turn.content for turn in reversed(turns) if turn.role == "user"), "")
    if not last.strip():
        raise ConfigurationError("the conversation has no question: its last message of the user is empty")
    return last.strip()


@asynccontextmanager
async def _journal(folder: Path | None, hold: Hold) -> AsyncIterator[Journal]:
    """The journal in a folder, which is held; without a folder one that is not kept."""
    if folder is None:
        yield MemoryJournal()
        return
    async with hold(folder):
        with closing(SqliteJournal(folder / "journal.sqlite")) as journal:
            yield journal


def _before(turns: Sequence[Message]) -> list[Message]:
    """What was said before the last message of the user. Messages of the system are no part of a conversation."""
    messages = [turn for turn in turns if turn.role != "system" and turn.content.strip()]
    return messages[: max(number for number, turn in enumerate(messages) if turn.role == "user")]


async def condensed(run: Run, model: LanguageModel, turns: Sequence[Message]) -> str:
    """The last message of the user as a question of its own.

    The first question of a conversation stays as it is, without a call. Where the model writes nothing, the message
    stays as it is too. Where it writes something that shares no word with the message, as small models do, the message
    stands behind the question before it.
    """
    last, before = question_of(turns), _before(turns)
    if not before:
        return last
    shown = [f"{turn.role}: {turn.content.strip()[:TURN]}" for turn in before[-TURNS:]]
    prompt = _PROMPT.format(conversation="\n".join(shown), latest="\n".join(shown[-2:]), last=last[:TURN])
    reply = (await run.generate(model, prompt, name="follow-up", sampling=Sampling(max_tokens=128)))[0]
    line = next((line.strip() for line in reply.text.splitlines() if line.strip()), last)
    if line == last or not set(terms(last)).isdisjoint(terms(line)):
        return line
    question = next((turn.content.strip() for turn in reversed(before) if turn.role == "user"), "")
    return f"{question[:TURN]} {last}".strip()


class Telling:
    """Tells steps in words; the one that began last as it is written, until another is told."""

    _step: tuple[str, str] | None = None
    _text = ""

    def more(self, event: Event) -> str:
        """What an event adds to what was told; empty where it adds nothing."""
        step, words = (event.span, event.name), words_of(event)
        goes_on = step == self._step and words.startswith(self._text)
        if not words or (event.type == "writing" and not goes_on):
            return ""
        new = words[len(self._text) :] if goes_on else "\n\n" * bool(self._text) + words
        self._step = None if event.type == "end" else step
        self._text = words if event.type == "writing" else ""
        return new


def words_of(event: Event) -> str:
    """What a begin or an end tells, as a paragraph; empty where it tells nothing that a reader needs."""
    if event.type == "begin":
        return f"{event.name} ...\n\n"
    if event.text:
        return f"{event.name}: {event.text.strip()}"
    match event.step:
        case GenerateStep(replies=replies):
            words = replies[0].text.strip()
        case RetrieveStep(query=query, passages=passages):
            titles = list(dict.fromkeys(passage.title or passage.id for passage in passages))
            more = f" and {len(titles) - _TITLES} more" if len(titles) > _TITLES else ""
            listing = f"found: {'; '.join(titles[:_TITLES])}{more}" if titles else "nothing was found"
            words = f"{query.strip()}\n{listing}"
        case ExecuteStep(execution=execution):
            words = execution.verdict
        case ChooseStep(candidates=candidates, chosen=int(chosen)):
            words = candidates[chosen].text.strip()
        case NoteStep(data={"why": why}):
            words = str(why)
        case _:
            return ""
    return f"{event.name}: {words}\n\n"

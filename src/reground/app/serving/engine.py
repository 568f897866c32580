"""Methods over models and documents that stay open, and the questions that are asked of them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.app import catalogue
from reground.app.asking import Result, answer, close, open_critics
from reground.app.corpora import ANSWERING, check_corpus, check_reranker, corpus_retriever, reranked
from reground.app.evaluating import settings_by_method
from reground.app.options import Ask
from reground.app.options_serving import Serve
from reground.app.run_folder import in_use
from reground.app.searching import other_retriever
from reground.app.serving.conversation import condensed, question_of
from reground.app.serving.keeping import WITHIN, Keeping
from reground.app.supporting import check_support, known
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, RegroundError, did_you_mean
from reground.core.journal import SqliteJournal, fingerprint
from reground.core.language import LanguageModel, Message, Reply, Sampling, Usage
from reground.core.paths import expanded, runs_dir
from reground.core.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from reground.app.options_serving import Offering
    from reground.core.evidence import Retriever
    from reground.core.run import Observer
    from reground.retrieval.settings import IndexReport, Progress


class Busy(RegroundError):
    """Too many questions wait already. retry_after: seconds after which there is probably room."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"too many questions wait already; try again in {math.ceil(retry_after)} seconds")
        self.retry_after = retry_after


class UnknownName(ConfigurationError):
    """What was asked for is not offered."""


@dataclass(frozen=True)
class Offer:
    """A method over a model and documents, under one name: rar/gpt-4o-mini@docs."""

    name: str
    method: str
    model: str
    corpus: str | None
    settings: Mapping[str, object] = field(default_factory=dict)


class Kept:
    """A model that a question does not close."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """The model's replies."""
        return await self._model.generate(messages, sampling)

    def __getattr__(self, name: str) -> Any:
        if name == "aclose" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._model, name)


@dataclass
class _Shared:
    """A lock, and how many hold it or wait for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Engine:
    """What is offered, and its questions in work.

    offers: by name; the first is the default. models and corpora: opened, by the names in the offers. template: the
    options that all questions have in common. concurrency: questions in work at once. waiting: how many more may wait.
    keep: the days for which runs are kept (`keeping`), None for questions of one's own, which are kept.
    """

    def __init__(
        self,
        offers: Sequence[Offer],
        models: Mapping[str, LanguageModel],
        corpora: Mapping[str, Retriever],
        template: Ask,
        *,
        concurrency: int = 8,
        waiting: int = 64,
        keep: float | None = None,
    ) -> None:
        self.offers = {offer.name: offer for offer in offers}
        self.corpora = dict(corpora)
        self.working = 0
        self.waiting = 0
        self._models = {name: Kept(model) for name, model in models.items()}
        self._template = template
        self._places, self._most = asyncio.Semaphore(concurrency), waiting
        self._concurrency = concurrency
        self._seconds = 10.0
        self._same: dict[str, _Shared] = {}
        self._home = template.home if template.home is not None else runs_dir()
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

        budget: the request's own; it holds up to the template's. What one budget cut is not replayed under another, so
        each has its runs in a folder of its own. The usage and the seconds are those of all calls, also of those that
        make a follow-up a question of its own. A question that was answered before is replayed, whoever asks it; with
        another seed it is answered again. Raises UnknownName, Busy, or what kept the method from an answer.
        """
        offer = self.offer(name)
        question_of(turns)  # refused before it waits for a place
        model, limits = self._models[offer.model], _smaller(self._template.budget, budget)
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
            order = replace(
                self._template,
                question=question,
                method=offer.method,
                model=model,
                corpus=None if offer.corpus is None else self.corpora[offer.corpus],
                settings=offer.settings,
                budget=_without(limits, run.usage, took),
                observer=observer,
                seed=seed,
                form=form,
                home=home,
            )
            # Other conversations may have come to the same question; its run is one, so it is answered once.
            async with self._alone(fingerprint("answered", offer.name, str(seed), str(form), limited, question)):
                result = await answer(order, hold=in_use if self.keeping is None else self.keeping.asked)
            self._seconds += 0.2 * (time.monotonic() - began - self._seconds)
        return replace(result, usage=run.usage + result.usage, seconds=took + result.seconds)

    def offer(self, name: str) -> Offer:
        """The offer of this name, or the default for an empty one. Raises UnknownName."""
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
            async with self._alone(key), self._places:
                self.waiting, waits = self.waiting - 1, False
                self.working += 1
                try:
                    yield
                finally:
                    self.working -= 1
        finally:
            self.waiting -= waits

    @asynccontextmanager
    async def _alone(self, key: str) -> AsyncIterator[None]:
        """One question is answered once: a second who asks the same at the same time waits, and gets it replayed."""
        shared = self._same.setdefault(key, _Shared())
        shared.users += 1
        try:
            async with shared.lock:
                yield
        finally:
            shared.users -= 1
            if not shared.users:
                del self._same[key]


@asynccontextmanager
async def open_engine(
    order: Offering,
    *,
    template: Ask | None = None,
    on_index: Callable[[Progress], None] | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
) -> AsyncIterator[Engine]:
    """Open what the options offer, and close it at the end. Raises ConfigurationError for what cannot be offered.

    template: what all questions have in common beside these options, such as a trace.
    """
    methods = [catalogue.named(each) for each in order.method]
    template = replace(
        Ask(question="") if template is None else template,
        support=order.support,
        budget=order.budget,
        home=order.home,
        model_options=order.model_options,
    )
    check_support(template)
    names(order)
    by_method = settings_by_method(order.settings, methods)
    async with AsyncExitStack() as opened:
        models = {}
        for spec in order.model:
            models[spec] = catalogue.load_model(spec, order.model_options)
            opened.push_async_callback(close, models[spec])
        corpora = {}
        for name, path in _corpora(order):
            corpora[name] = await _retriever(order, path, on_index, on_report)
            opened.push_async_callback(close, corpora[name])
        offers = []
        for offer in _offers(methods, order.model, list(corpora)):
            settings = open_critics(by_method[offer.method], order.model_options, opened, models[offer.model])
            offers.append(replace(offer, settings=settings))
        keep = order.keep if isinstance(order, Serve) else None
        engine = Engine(
            offers, models, corpora, template, concurrency=order.concurrency, waiting=order.waiting, keep=keep
        )
        opened.push_async_callback(engine.aclose)
        if engine.keeping is not None:
            watch = asyncio.create_task(engine.keeping.watch())
            opened.callback(watch.cancel)
        yield engine


def names(order: Offering) -> tuple[list[str], dict[str, Path | None]]:
    """The names of what is offered, and what is searched, by name; no path for the web or a retriever of one's own.

    Nothing is opened. Raises ConfigurationError, also for a setting, a model's provider, a reranker or a check of
    support that no question could have.
    """
    check_reranker(order)
    known(order.support)
    corpora = dict(_corpora(order))
    for path in corpora.values():
        check_corpus(path)
    methods = [catalogue.named(each) for each in order.method]
    for method, settings in settings_by_method(order.settings, methods).items():
        catalogue.check_settings(method, settings)
    for spec in order.model:
        catalogue.provider_module(spec)
        catalogue.check_price(spec, order.model_options, order.budget)
    return [offer.name for offer in _offers(methods, order.model, list(corpora))], corpora


def _offers(methods: Sequence[str], models: Sequence[str], corpora: Sequence[str]) -> list[Offer]:
    """Every method over every model and corpus. A model is called by its last part, where that is clear.

    Raises ConfigurationError for a method that needs documents where there are none.
    """
    for method in methods if not corpora else ():
        if "retriever" in catalogue.needs(method):
            raise ConfigurationError(f"the method {method} needs documents: give --corpus DIR or --web ENGINE")
    short = [spec.rsplit("/", 1)[-1] for spec in models]
    called = {spec: last if short.count(last) == 1 else spec for spec, last in zip(models, short, strict=True)}
    found = []
    for corpus in corpora or (None,):
        for spec in models:
            for method in methods:
                place = "" if corpus is None else f"@{corpus}"
                found.append(Offer(f"{method}/{called[spec]}{place}", method, spec, corpus))
    return found


def _corpora(order: Offering) -> list[tuple[str, Path | None]]:
    """The names and paths of what is searched; no path for the web or a retriever of one's own."""
    if order.web is not None or order.retriever is not None:
        if order.corpus:
            raise ConfigurationError("--corpus and --web or --retriever: give one of them")
        return [("web" if order.web is not None else "own", None)]
    found: list[tuple[str, Path | None]] = []
    for given in order.corpus or ():
        name, equals, path = given.partition("=")
        place = expanded(Path(path if equals else given))
        found.append((name if equals else place.resolve().stem, place))
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"two corpora are called {name}: name them, as in --corpus other=PATH")
    return found


async def _retriever(
    order: Offering,
    path: Path | None,
    on_index: Callable[[Progress], None] | None,
    on_report: Callable[[IndexReport], None] | None,
) -> Retriever:
    if path is None:
        found = other_retriever(order)
        assert found is not None
    else:
        found = await corpus_retriever(
            path, on_index, language=order.language, retrieval=order.retrieval, on_report=on_report
        )
    return reranked(found, order, usual=ANSWERING)


def _smaller(most: object, asked: Budget | None) -> Budget:
    """Of each limit the smaller one."""
    most = most if isinstance(most, Budget) else Budget()
    if asked is None:
        return most
    pairs = {name: (getattr(most, name), getattr(asked, name)) for name in Budget.model_fields}
    return Budget(
        **{name: min((each for each in pair if each is not None), default=None) for name, pair in pairs.items()}
    )


def _without(budget: Budget, used: Usage, seconds: float) -> Budget:
    """What is left of a budget."""
    changed: dict[str, float | None] = {
        "tokens": None if budget.tokens is None else max(0, budget.tokens - used.tokens),
        "calls": None if budget.calls is None else max(0, budget.calls - used.calls),
        "seconds": None if budget.seconds is None else max(0.0, budget.seconds - seconds),
        "usd": None if budget.usd is None else max(0.0, budget.usd - (used.usd or 0.0)),
        "completion": None if budget.completion is None else max(0, budget.completion - used.completion),
    }
    return budget.model_copy(update=changed)

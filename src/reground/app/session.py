"""A session: models, documents, the web, critics, a sandbox and checks, opened once, and the questions asked of them.

`ask` is a session with one question; `chat`, `serve` and `mcp` are sessions with many; `eval`, `compare` and a worker
of Ray are sessions with tasks. What is to be opened stands in a `Setup`, which checks all of it when it is made: so
wrong names, settings and paths are refused before anything is downloaded, opened or asked, and never checked again.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import importlib.util
import json
import logging
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar

from reground.app import catalogue
from reground.app.documents import BACKGROUND, Source, check_searching, contents, names_other, open_source
from reground.app.options import Ask, Instructed, Searching, from_mapping, spread
from reground.app.options import Check as CheckOptions
from reground.app.runs import Hold, Keeping, Result, empty_answer, folder_lock, identity
from reground.app.support import Check, check_support, open_check, with_support
from reground.core.answers import FORMS, AnswerForm
from reground.core.budget import Budget
from reground.core.concurrency import close, in_daemon
from reground.core.errors import ConfigurationError, DataError, MissingExtra, RegroundError, did_you_mean
from reground.core.evidence import Retriever
from reground.core.files import expanded, regular, replace_lines, runs_dir, set_aside
from reground.core.http import MIB
from reground.core.journal import SqliteJournal
from reground.core.language import LanguageModel, storable, storable_text
from reground.core.programs import Sandbox
from reground.core.run import Event, Method, Observer, Run, Solved, solve
from reground.core.trajectory import Failure, append_trajectory, parse_trajectory, write_trajectories
from reground.critics import Critics, load, of_files, own_models
from reground.downloads import Progress as Pulled
from reground.downloads import silent
from reground.models.function import FunctionModel
from reground.models.options import ModelOptions
from reground.models.pull import pull
from reground.retrieval.documents import Scan
from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.filters import FilterError
from reground.retrieval.rerank import only
from reground.retrieval.settings import IndexReport, Progress
from reground.sandbox import find_sandbox

T = TypeVar("T")
Model = str | LanguageModel
Settings = Mapping[str, object]


@dataclass(frozen=True)
class Offer:
    """A method over a model and documents, under one name: rar/gpt-4o-mini@docs."""

    name: str
    method: str
    model: str
    corpus: str | None


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a session opens. Raises ConfigurationError or DataError for what cannot be opened or fits nothing.

    search: how documents are searched. methods: as they are listed (`catalogue.method`). models: by name, to be loaded
    or open. sources: what is searched, by name. settings: of each method. support, threshold: how the sentences of an
    answer are checked. instructions: how answers are to be written. trace: a file to which trajectories are appended.
    sandbox: its kind, where one is needed. runs_code: whether answers are programs, whatever the methods need.
    """

    search: Searching
    methods: tuple[str, ...]
    models: Mapping[str, Model]
    sources: Mapping[str, Source] = field(default_factory=dict)
    settings: Mapping[str, Settings] = field(default_factory=dict)
    rewriter: Model | None = None
    judge: str | None = None
    model_options: ModelOptions = field(default_factory=ModelOptions)
    budget: Budget | None = None
    support: str = "none"
    threshold: float | None = None
    instructions: str = ""
    trace: Path | None = None
    home: Path | None = None
    sandbox: str = "bubblewrap"
    runs_code: bool = False

    def __post_init__(self) -> None:
        check_searching(self.search, has_documents=bool(self.sources))
        check_support(self.support, self.threshold)
        for source in self.sources.values():
            source.check()
        methods = {name: catalogue.method(name) for name in self.methods}
        if self.rewriter is not None and not any("rewriter" in listed.fields for listed in methods.values()):
            names = ", ".join(methods)
            raise ConfigurationError(
                f"a rewriter is for methods such as rewrite_retrieve_read; {names} would not use it"
            )
        for method, listed in methods.items():
            if not self.sources and "retriever" in listed.needs:
                raise ConfigurationError(f"the method {method} needs documents: give --corpus DIR or --web ENGINE")
            settings = self.settings.get(method, {})
            listed.read({key: value for key, value in settings.items() if key != "critics"})  # these are open objects
        for name in self.names_of_models:
            catalogue.provider_module(name)
        for model in (*self.models.values(), self.rewriter):
            if isinstance(model, str):
                catalogue.check_budget(model, self.model_options, self.budget)
        if self.trace is not None:
            _check_trace(self.trace)

    @cached_property
    def names_of_models(self) -> tuple[str, ...]:
        """Every model that is given by its name, those of critics too."""
        critics = chain.from_iterable(critics_of(each)[1] for each in self.settings.values())
        names = (*self.models.values(), self.rewriter, self.judge, *critics)
        return tuple(dict.fromkeys(each for each in names if isinstance(each, str)))

    @cached_property
    def offers(self) -> dict[str, Offer]:
        """Every method over every model and what is searched; the first is the default.

        A model is called by its last part, where that is clear.
        """
        last = [name.rsplit("/", 1)[-1] for name in self.models]
        labels = {name: part if last.count(part) == 1 else name for name, part in zip(self.models, last, strict=True)}
        offers = [
            Offer(f"{method}/{labels[model]}{'' if corpus is None else f'@{corpus}'}", method, model, corpus)
            for corpus in self.sources or (None,)
            for model in self.models
            for method in self.methods
        ]
        return {offer.name: offer for offer in offers}


def setup_of(options: Ask) -> Setup:
    """What the options of one question, or of one conversation, open. Raises ConfigurationError, DataError."""
    model_options = options.model_options if options.model_options is not None else ModelOptions()
    if isinstance(model_options, Mapping):
        model_options = from_mapping(ModelOptions, model_options, "model_options")
    elif not isinstance(model_options, ModelOptions):
        raise ConfigurationError(f"model_options are reground.models.options.ModelOptions(...), not {model_options!r}")
    _form(options.form)
    listed, model = catalogue.method(options.method), _model(options.model, model_options)
    return Setup(
        search=options,
        methods=(listed.name,),
        models={model if isinstance(model, str) else model.name: model},
        sources=sources_of(options),
        settings={listed.name: {**(options.settings or {}), **_draft(options.draft, listed)}},
        rewriter=None if options.rewriter is None else _model(options.rewriter, model_options),
        model_options=model_options,
        budget=_budget(options.budget),
        support=options.support,
        threshold=options.support_threshold,
        instructions=instructions_of(options),
        trace=None if options.trace is None else expanded(Path(options.trace)),
        home=options.home,
    )


def _draft(path: Path | str | None, method: catalogue.Listed) -> Settings:
    """The text of a file as the setting `draft` of a method. Raises ConfigurationError, DataError."""
    if path is None:
        return {}
    check_revises(method)
    text = _text_in(path, "the draft")
    if not text.strip():
        raise DataError("the draft is empty", path=path)
    return {"draft": text}


def instructions_of(options: Instructed) -> str:
    """How answers are to be written, given as a text or as a file. Raises DataError for a file that cannot be read."""
    text = (options.instructions or "").strip()
    try:
        return _text_in(text, "the instructions").strip() if text else ""
    except DataError:
        if len(text.split()) == 1 and Path(text).suffix:
            raise
        return text


def _text_in(path: Path | str, what: str) -> str:
    try:
        return decode(regular(expanded(path)).read_bytes()).text
    except (OSError, ValueError, Unreadable, ConfigurationError) as error:
        raise DataError(f"{what} cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from None


def sources_of(options: Ask | CheckOptions) -> dict[str, Source]:
    """What is searched, by its name; nothing where the options name nothing. Raises ConfigurationError."""
    if names_other(options):
        return {"web" if options.web is not None else "own": Source()}
    return {} if options.corpus is None else {"docs": Source(options.corpus)}


def check_revises(method: catalogue.Listed) -> None:
    """Raise ConfigurationError for a method that cannot begin with a draft that it is given."""
    if "draft" not in method.fields:
        raise ConfigurationError(f"a draft is for methods that revise one, rar and rat; {method.name} would not use it")


def _form(name: str | None) -> AnswerForm | None:
    """The answer form of this name. Raises ConfigurationError for an unknown one."""
    if name is not None and name not in FORMS:
        raise ConfigurationError(f"no answer form is called {name!r}; {did_you_mean(name, FORMS)}")
    return None if name is None else FORMS[name]


def _model(model: object, options: ModelOptions) -> Model:
    """A model's name or a language model; a function from prompt to reply is wrapped. Raises ConfigurationError."""
    if isinstance(model, str | LanguageModel):
        return model
    if callable(model) and not isinstance(model, type):
        return FunctionModel(model, price=options.price)
    raise ConfigurationError(
        "a model is 'provider/model', a function from prompt to reply, "
        f"or an object with a name and generate(), not {model!r}"
    )


def _budget(limits: object) -> Budget | None:
    """A whole number means tokens, a mapping names limits. Raises ConfigurationError for anything else."""
    if limits is None or isinstance(limits, Budget):
        return limits
    if isinstance(limits, int) and not isinstance(limits, bool):
        return Budget(tokens=limits)
    if isinstance(limits, Mapping):
        return from_mapping(Budget, limits, "budget")
    raise ConfigurationError(
        f"a budget is a number of tokens or Budget(tokens=..., calls=..., seconds=..., usd=...), not {limits!r}"
    )


@dataclass(frozen=True)
class Opening:
    """Callbacks that are told how the opening of a session goes on; none by default.

    on_pull: of a model's download, with its name, the bytes so far, and all if that is known. on_index: while documents
    are indexed. on_report: of what came of it.
    """

    on_pull: Pulled = silent
    on_index: Callable[[Progress], None] | None = None
    on_report: Callable[[IndexReport], None] | None = None


_LINE_SECONDS = 3.0  # between two lines in a notebook
logger = logging.getLogger("reground")


@dataclass
class _Followed:
    """Documents that may change while they are searched. contents: of their folder, when it was looked at."""

    contents: Scan | str | None = None
    checked_at: float = -math.inf
    opened: AsyncExitStack = field(default_factory=AsyncExitStack)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class Session:
    """What a setup names, open, and the questions asked of it.

    models, retrievers: open, by their names in the setup. critics: open ones, by method and model, where names would
    say too little in a run's identity. checks: of the sentences of an answer, by model; under "" one that asks no model
    of the session. reports: of the indexing, by source. look_every: seconds between two looks at a folder of documents
    (`follow`).
    """

    setup: Setup
    models: Mapping[str, LanguageModel]
    retrievers: dict[str, Retriever] = field(default_factory=dict)
    rewriter: LanguageModel | None = None
    judge: LanguageModel | None = None
    sandbox: Sandbox | None = None
    critics: Mapping[tuple[str, str], Critics] = field(default_factory=dict)
    checks: Mapping[str, Check | None] = field(default_factory=dict)
    reports: dict[str, Sequence[IndexReport]] = field(default_factory=dict)
    look_every: float = 1.0
    _followed: dict[str, _Followed] = field(default_factory=dict, init=False)
    _built: dict[tuple[str, str | None], tuple[Method, dict[str, Any]]] = field(default_factory=dict, init=False)

    @classmethod
    @asynccontextmanager
    async def open(cls, options: Setup | Ask, opening: Opening | None = None) -> AsyncIterator[Session]:
        """Download models that are not here, open everything, and close it at the end of the block."""
        setup = options if isinstance(options, Setup) else setup_of(options)
        opening, how = opening or Opening(), setup.model_options
        async with AsyncExitStack() as opened:

            def loaded(model: Model, *, helper: bool = False) -> LanguageModel:
                open_model = catalogue.load_model(model, how, helper=helper) if isinstance(model, str) else model
                opened.push_async_callback(close, open_model)
                return open_model

            # The web needs no indexing, so what is wrong with its engine is told before a model is downloaded.
            web = any(source.place is None for source in setup.sources.values())
            searched = await _open_sources(setup, opening, opened) if web else None
            await in_daemon(partial(bring_models, setup.names_of_models, opening.on_pull), name="download")
            models = {name: loaded(each) for name, each in setup.models.items()}
            rewriter = loaded(setup.rewriter, helper=True) if setup.rewriter else None
            judge = loaded(setup.judge) if setup.judge else None
            retrievers, reports = searched or await _open_sources(setup, opening, opened)
            sandbox = None
            if setup.runs_code or any("sandbox" in catalogue.method(each).needs for each in setup.methods):
                sandbox = await asyncio.to_thread(find_sandbox, setup.sandbox, packages=setup.runs_code)
            critics = {}
            for method, name in product(setup.methods, models):
                spec, own = critics_of(setup.settings.get(method, {}))
                if own or (spec and of_files(spec)):
                    judges = {each: loaded(each, helper=True) for each in own}
                    critics[method, name] = load(spec, model=models[name], own=judges)
            # only a check by the model that wrote the answer is another for every model
            shared = None if setup.support == "model" else open_check(setup.support, setup.threshold, None, opened)
            checks = {"": shared} | {
                name: shared or open_check(setup.support, setup.threshold, model, opened)
                for name, model in models.items()
            }
            session = cls(setup, models, retrievers, rewriter, judge, sandbox, critics, checks, {**reports})
            opened.push_async_callback(session._forget)
            yield session

    async def follow(self, corpus: str | None) -> Scan | str | None:
        """Search what a folder of documents holds now, and tell that: its files, or the generation of an index; None of
        anything else. It is looked at every `look_every` seconds at most.

        Where it cannot be read, what was read before stays.
        """
        source = self.setup.sources.get(corpus or "")
        if corpus is None or source is None or source.folder is None:
            return None
        followed = self._followed.setdefault(corpus, _Followed())
        async with followed.lock:
            if time.monotonic() - followed.checked_at < self.look_every:
                return followed.contents
            try:
                current = await in_daemon(partial(contents, source.folder, self.setup.search.globs), name=BACKGROUND)
                if current != followed.contents:
                    await self._reopen(corpus, source, followed, current)
                followed.contents = current
            except (RegroundError, OSError) as error:
                logger.warning("the documents %s stay as they were read before: %s", corpus, error)
            followed.checked_at = time.monotonic()
            return followed.contents

    async def _reopen(self, corpus: str, source: Source, followed: _Followed, current: Scan | str) -> None:
        reports: list[IndexReport] = []
        async with AsyncExitStack() as opened:
            listing = current if isinstance(current, Scan) else None
            retriever = await open_source(source, self.setup.search, opened, on_report=reports.append, listing=listing)
            if retriever.name == self.retrievers[corpus].name:
                return
            await followed.opened.aclose()  # a question in work can still use what it searches
            followed.opened = opened.pop_all()
        self.retrievers[corpus], self.reports[corpus] = retriever, reports
        for key in [key for key in self._built if self.setup.offers[key[0]].corpus == corpus]:
            del self._built[key]

    async def narrowed(self, corpus: str | None, filter_: str | None) -> Session:
        """The session with those documents of a corpus that a filter chooses; itself without one. Raises as `only`."""
        if filter_ is not None and corpus is None:
            raise FilterError("a filter chooses among documents, and none are searched")
        if filter_ is None or corpus is None:
            return self
        return replace(self, retrievers={**self.retrievers, corpus: await only(self.retrievers[corpus], filter_)})

    async def _forget(self) -> None:
        for followed in self._followed.values():
            await followed.opened.aclose()

    def method(
        self,
        name: str,
        model: str,
        corpus: str | None,
        form: AnswerForm | None = None,
        defaults: Settings | None = None,
    ) -> Method:
        """Build a method over a model and what is searched. defaults: settings that give way to the setup's."""
        settings = {**(defaults or {}), **self.settings(name, model)}
        return catalogue.build_method(
            name,
            model=self.models[model],
            retriever=None if corpus is None else self.retrievers.get(corpus),
            sandbox=self.sandbox,
            rewriter=self.rewriter,
            form=form,
            settings=settings,
        )

    def settings(self, name: str, model: str) -> Settings:
        """The settings of a method with a model, with its open critics if there are any."""
        critics = self.critics.get((name, model))
        return {**self.setup.settings.get(name, {}), **({} if critics is None else {"critics": critics})}

    def identity(self, name: str, method: Method, model: str, corpus: str | None) -> dict[str, Any]:
        """What identifies the runs of a method, apart from their questions."""
        return identity(
            name,
            method,
            self.models[model],
            self.setup.model_options,
            retriever=None if corpus is None else self.retrievers.get(corpus),
            rewriter=self.rewriter,
            judge=self.setup.judge,
        )

    async def ask(
        self,
        question: str,
        offer: Offer | None = None,
        *,
        form: str | None = None,
        budget: Budget | None = None,
        seed: int | None = None,
        fresh: bool = False,
        observer: Observer | None = None,
        home: Path | None = None,
        hold: Hold = folder_lock,
        settings: Settings | None = None,
        instructions: str = "",
        where: str | None = None,
    ) -> Result:
        """Answer one question with what is offered, by default the first. hold: a block around the work in the folder.

        settings: of the method for this question, over its others; the sentences are not checked then. instructions:
        how its answer is to be written, behind those of the setup. where: a filter of the documents that are searched
        (`retrieval.filters`).

        The run's id is a hash of everything that shapes the run. The same question therefore resumes an interrupted run
        and pays for no call twice; a finished run is replayed. Raises what kept the method from an answer.
        """
        question = checked_question(question)
        offer = offer if offer is not None else next(iter(self.setup.offers.values()))
        method: Any
        narrowed = await self.narrowed(offer.corpus, where)
        method, identity = narrowed._ready(offer, form, settings)  # noqa: SLF001
        if instructions := "\n\n".join(filter(None, (self.setup.instructions, instructions.strip()))):
            if not isinstance(getattr(method, "form", None), AnswerForm):
                raise ConfigurationError(f"{offer.method} has no form of answers that instructions could change")
            method = replace(method, form=method.form.instructed(instructions))
            identity = {**identity, "instructions": instructions}
        config = {"question": question, "form": form, "seed": seed, **identity}
        run_id = "ask-" + hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]
        folder = (home or self.setup.home or runs_dir()) / run_id
        async with hold(folder):
            resolved = {**config, "budget": None if budget is None else budget.model_dump()}
            text = json.dumps(storable(resolved), indent=2, ensure_ascii=False) + "\n"
            replace_lines(folder / "config.json", [text.encode()])
            with closing(SqliteJournal(folder / "journal.sqlite")) as journal:
                if fresh:
                    journal.forget(run_id)
                run = Run(run_id=run_id, question_id="0", journal=journal, budget=budget, observer=observer, seed=seed)
                solved = await solve(method, question, run, id=run_id, name=offer.method)
                if self.setup.support != "none" and settings is None:
                    solved = await with_support(
                        solved,
                        method,
                        run,
                        spec=self.setup.support,
                        check=self.checks.get(offer.model),
                        language=self.setup.search.language,
                        folder=self._folder(offer),
                    )
            return self._result(solved, offer, folder / "trajectory.jsonl")

    def _ready(self, offer: Offer, form: str | None, settings: Settings | None = None) -> tuple[Method, dict[str, Any]]:
        """The method of an offer, and what identifies its runs. One does for all questions without own settings,
        because a method holds nothing of a question."""
        if settings is None and (offer.name, form) in self._built:
            return self._built[offer.name, form]
        method: Any = self.method(offer.method, offer.model, offer.corpus, _form(form))
        method = replace(method, **settings) if settings else method
        identity = self.identity(offer.method, method, offer.model, offer.corpus)
        identity["settings"] = identity.pop("method_settings")  # the name in the config.json of an evaluation
        if settings is None:
            self._built[offer.name, form] = method, identity
        return method, identity

    def _folder(self, offer: Offer) -> Path | None:
        """The folder or file in which the quotes of an offer's answers are looked up."""
        source = self.setup.sources.get(offer.corpus or "")
        return None if source is None else source.folder

    def _result(self, solved: Solved, offer: Offer, path: Path) -> Result:
        """Write the trajectory and return the result. Raises the error that left the question without an answer."""
        trajectory, error, trace = solved.trajectory, solved.error, self.setup.trace
        if (empty := empty_answer(trajectory)) is not None:
            error = empty
            failure = Failure(type=type(empty).__name__, message=str(empty))
            trajectory = trajectory.model_copy(update={"failure": failure})
        write_trajectories(path, [trajectory])
        if trace is not None:
            append_trajectory(trace, trajectory)
        if error is not None:
            raise error
        if (answer := trajectory.answer) is None:
            raise RegroundError("the method returned no answer")
        reports = self.reports.get(offer.corpus or "", ())
        return Result.of(
            trajectory,
            answer,
            trace if trace is not None else path,
            skipped=tuple(skipped for report in reports for skipped in report.skipped),
            notes=tuple(note for report in reports for note in report.notes),
            corpus=self._folder(offer),
        )


def checked_question(question: str) -> str:
    """The question as it can be stored. Raises ConfigurationError for an empty one."""
    question = storable_text(question)
    if not question.strip():
        raise ConfigurationError("the question is empty")
    return question


@spread(Ask)
def ask(options: Ask) -> Result:
    """Answer a question and show the steps. It also works in a notebook, where an event loop is already running.

    The same call resumes an interrupted run and replays a finished one.
    Raises `reground.core.errors.RegroundError` if there is no answer.
    """
    return finished(answer(options))


@spread(Ask)
async def aask(options: Ask) -> Result:
    """`ask` as a coroutine, with the same options."""
    return await answer(options)


async def answer(options: Ask, opening: Opening | None = None) -> Result:
    """Open a session for one question, and answer it. opening: called instead of the callbacks in the options."""
    checked_question(options.question)
    setup = setup_of(options)
    if opening is None and "ipykernel" in sys.modules:  # a cell of a notebook would show nothing for minutes
        opening, options = _print_progress(options)
    keeping = Keeping(setup.home or runs_dir(), options.keep, options.keep_mib * MIB)
    async with Session.open(
        setup, opening or Opening(on_index=options.on_index, on_report=options.on_report)
    ) as session:
        await in_daemon(keeping.sweep, name="sweep")
        return await session.ask(
            options.question,
            form=options.form,
            budget=setup.budget,
            seed=options.seed,
            fresh=options.fresh,
            observer=options.observer,
            hold=keeping.hold,
        )


def _print_progress(options: Ask) -> tuple[Opening, Ask]:
    """An opening, and options, that tell on standard error how far the work is, where the options name nobody to tell.

    Of a download and of the indexing one line in a few seconds is printed.
    """
    from reground.app.cli.console import note, plural

    last = -math.inf

    def tell(line: str, total: int | None) -> None:
        nonlocal last
        if total != 0 and time.monotonic() - last >= _LINE_SECONDS:
            last = time.monotonic()
            note(line)

    def on_event(event: Event) -> None:
        if event.type == "begin":
            note(f"{event.name}: {plural(event.usage.calls, 'call')}, {event.usage.tokens} tokens so far")

    opening = Opening(
        lambda what, done, total: tell(f"{what}: {done / 1e6:.0f} MB", total),
        options.on_index or (lambda index: tell(f"indexing: {index.files} of {index.total} files", index.total)),
        options.on_report,
    )
    return opening, replace(options, observer=options.observer or on_event)


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end: in this thread, or in a new one if this thread already runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def cancellable() -> T:
        started.append((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    with ThreadPoolExecutor(1, thread_name_prefix="reground") as pool:
        waiting = pool.submit(copy_context().run, asyncio.run, cancellable())
        try:
            return waiting.result()
        except KeyboardInterrupt:
            for loop, task in started:
                if task is not None and not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            raise


def bring_models(names: Sequence[str], on_pull: Pulled) -> None:
    """Download those of the models that are not here. Raises MissingExtra."""
    for spec in names:
        provider, _, name = spec.partition("/")
        if provider != "gguf" or expanded(name).exists():
            continue
        if importlib.util.find_spec("xllamacpp") is None:
            raise MissingExtra(spec, "local")
        pull(name, progress=on_pull)


def spare_the_collector() -> None:
    """Make the garbage collector run less often.

    Thousands of calls make many objects but few cycles. With the default thresholds, collection took a fifth of the
    client's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def _open_sources(
    setup: Setup, opening: Opening, opened: AsyncExitStack
) -> tuple[dict[str, Retriever], dict[str, list[IndexReport]]]:
    """What is searched, and the reports of its indexing, by name."""
    retrievers: dict[str, Retriever] = {}
    reports: dict[str, list[IndexReport]] = {}
    for name, source in setup.sources.items():
        reports[name] = []
        retrievers[name] = await open_source(
            source, setup.search, opened, on_index=opening.on_index, on_report=reports[name].append
        )
        if opening.on_report is not None:
            for report in reports[name]:
                opening.on_report(report)
    return retrievers, reports


def critics_of(settings: Settings) -> tuple[str, tuple[str, ...]]:
    """The names of a method's critics, "" where they are open or none is named; and the models that these names have
    for the critics only, as in prompted:openai/large."""
    spec = settings.get("critic")
    if not isinstance(spec, str) or settings.get("critics") is not None:
        return "", ()
    return spec, own_models(spec)


_TRAJECTORY = b'{"version":'
"""How the line of a trajectory begins, also of one that a crash cut short."""


def _check_trace(trace: Path) -> None:
    """Refuse a trace file that cannot be written or that holds something else, and set its damaged lines aside.

    Raises ConfigurationError, DataError.
    """
    try:
        regular(trace).parent.mkdir(parents=True, exist_ok=True)
        trace.open("a").close()
        with trace.open("rb") as file:
            line = next((line for line in iter(lambda: file.readline(1000), b"") if line.strip()), _TRAJECTORY)
    except OSError as error:
        raise ConfigurationError(f"cannot write the trace {trace}: {error.strerror}") from None
    if not line.startswith(_TRAJECTORY):  # setting its lines aside would ruin the file
        raise ConfigurationError(f"{trace} holds something else than trajectories: give --trace another file")
    for notice in set_aside(trace, parse_trajectory):
        logger.warning("%s", notice)

"""The parts of an evaluation: a session over a benchmark's documents, and the methods at their budgets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from reground.app import catalogue
from reground.app.catalogue import PARTS
from reground.app.documents import ANSWERING, Source, names_other
from reground.app.options import Benchmark
from reground.app.session import Opening, Session, Setup, spare_the_collector
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.journal import SqliteJournal
from reground.core.language import LanguageModel
from reground.core.programs import Sandbox
from reground.core.run import Method
from reground.evaluation.compare import Cell, Configured, planned
from reground.evaluation.questions import MEASURED
from reground.evaluation.runner import EvalSettings
from reground.evaluation.scaling import cost, scaled, sizes
from reground.evaluation.task import Task
from reground.evaluation.tasks.longform import Judge, JudgedTask

RUNS_CODE = frozenset({"program", "pal"})
"""The forms of answers that are run."""


def setup_of(options: Benchmark, methods: Sequence[str], tasks: Sequence[Task]) -> Setup:
    """What measuring methods on tasks opens: the documents of the options, by default each task's own.

    The user's own questions are searched as those who ask search them; a benchmark's as the options say.
    Raises ConfigurationError, DataError.
    """
    sources = {}
    for task in tasks if any("retriever" in catalogue.method(name).fields for name in methods) else ():
        place = None if names_other(options) else options.corpus or getattr(task, "corpus", None)
        if place is not None or names_other(options):
            questions = tuple(each.question for each in task.examples()) if place is None else ()
            usual = ANSWERING if task.name.startswith(f"{MEASURED}:") else None
            sources[task.name] = Source(place, questions, usual)
    return Setup(
        search=options,
        methods=tuple(methods),
        models={options.model: options.model},
        sources=sources,
        settings=settings_by_method(options.settings, methods),
        rewriter=getattr(options, "rewriter", None),
        judge=getattr(options, "judge", None),
        model_options=options.model_options,
        budget=options.budget,
        sandbox=options.sandbox,
        runs_code=any("sandbox" in catalogue.method(name).needs for name in methods)
        or any(task.form.name in RUNS_CODE for task in tasks),
    )


@asynccontextmanager
async def open_benches(
    options: Benchmark, methods: Sequence[str], tasks: Sequence[Task], out: Path, opening: Opening | None = None
) -> AsyncIterator[list[Bench]]:
    """Open a bench for each task, all in one session. out: the folder of the run, for a judge's ratings.

    These have a journal of their own, beside the run's, which is made with the first of them.
    """
    async with AsyncExitStack() as opened:
        session = await opened.enter_async_context(Session.open(setup_of(options, methods, tasks), opening))
        judge = session.judge

        @cache
        def journal() -> SqliteJournal:
            return opened.enter_context(closing(SqliteJournal(out / "judge.sqlite")))

        if judge is not None:
            tasks = [JudgedTask(task=task, judge=Judge(model=judge), journal=journal) for task in tasks]
        spare_the_collector()
        yield [Bench(task, session) for task in tasks]


@dataclass(frozen=True)
class Bench:
    """A task, and what its cells share. tuned: the index of the size that tuning chose."""

    task: Task
    session: Session
    tuned: Mapping[Cell, int] = field(default_factory=dict)

    @property
    def model(self) -> LanguageModel:
        """The model that answers."""
        return next(iter(self.session.models.values()))

    @property
    def sandbox(self) -> Sandbox | None:
        """What runs programs, where programs are run."""
        return self.session.sandbox

    @property
    def _place(self) -> tuple[str, str]:
        """The names of the model and of what is searched."""
        return next(iter(self.session.models)), self.task.name

    def method(self, cell: Cell) -> Method:
        """A cell's method, scaled up to its budget or in the size that tuning chose.

        Raises ConfigurationError if a required part is missing.
        """
        built, keep = self._built(cell)
        if cell in self.tuned:
            return sizes(built, keep=keep)[self.tuned[cell]]
        return scaled(built, cell.tokens, keep=keep)

    def candidates(self, cell: Cell, base: EvalSettings, budget: Budget) -> dict[int, Configured]:
        """The sizes of a cell's method that tuning tries, by their index."""
        built, keep = self._built(cell)
        several = [built] if cell.tokens is None else sizes(built, keep=keep)
        costs = [cost(size) for size in several]
        ready = {index: self._configured(cell, several[index], base, budget) for index in planned(costs, cell.tokens)}
        return {index: replace(each, expected=costs[index]) for index, each in ready.items()}

    def configure(self, cell: Cell, base: EvalSettings, budget: Budget) -> Configured:
        """A cell's method with the settings of its run; these record the value of every setting."""
        return self._configured(cell, self.method(cell), base, budget)

    def _built(self, cell: Cell) -> tuple[Method, set[str]]:
        """The method unscaled, and the settings that are the same in every size: the preset's and the user's."""
        kind, shots = catalogue.method(cell.method), tuple(self.task.demonstrations())
        given = {"demonstrations": shots} if shots and "demonstrations" in kind.fields else {}
        built = self.session.method(cell.method, *self._place, self.task.form, given)
        return built, {*kind.preset, *self.session.settings(cell.method, self._place[0])}

    def _configured(self, cell: Cell, method: Method, base: EvalSettings, budget: Budget) -> Configured:
        named = self.session.identity(cell.method, method, *self._place)
        limits = budget.model_copy(update={"tokens": cell.tokens})
        return Configured(method, replace(base, **named, budget=limits))


def corpus_of(task: Task, given: Path | None) -> Path:
    """The documents that are given, else the task's own. Raises ConfigurationError where there are none."""
    documents: Path | None = given if given is not None else getattr(task, "corpus", None)
    if documents is None:
        raise ConfigurationError(f"{task.name} has no corpus of its own: give the documents with --corpus")
    return documents


def settings_by_method(given: Mapping[str, object], methods: Sequence[str]) -> dict[str, dict[str, object]]:
    """Assign settings to methods: KEY goes to every method that has it, METHOD.KEY only to that method.

    Raises ConfigurationError for a key that none of the methods has.
    """
    shared: dict[str, dict[str, object]] = {name: {} for name in methods}
    settable = {name: catalogue.method(name).fields - PARTS for name in methods}
    for key, value in given.items():
        method, dot, own = key.partition(".")
        method = method.replace("-", "_") if method not in shared else method
        if dot and method in shared:
            shared[method][own] = value
            continue
        owners = [name for name in methods if key in settable[name]]
        if not owners:
            known = set().union(*settable.values())
            raise ConfigurationError(f"no method here has a setting {key!r}; {did_you_mean(key, known)}")
        for owner in owners:
            shared[owner][key] = value
    return shared

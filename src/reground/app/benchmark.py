"""The parts of an evaluation: a session over a benchmark's documents, and the methods at their budgets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

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
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.questions import MEASURED
from reground.evaluation.runner import EvalSettings
from reground.evaluation.scaling import scaled
from reground.evaluation.task import Task
from reground.evaluation.tasks.longform import Judge, JudgedTask

RUNS_CODE = frozenset({"program", "pal"})
"""The forms of answers that are run."""


def setup_of(options: Benchmark, methods: Sequence[str], task: Task) -> Setup:
    """What measuring methods on a task opens: the documents of the options, by default the task's own.

    The user's own questions are searched as those who ask search them; a benchmark's as the options say.
    Raises ConfigurationError, DataError.
    """
    sources = {}
    if any("retriever" in catalogue.method(name).fields for name in methods):
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
        runs_code=any("sandbox" in catalogue.method(name).needs for name in methods) or task.form.name in RUNS_CODE,
    )


@asynccontextmanager
async def open_bench(
    options: Benchmark, methods: Sequence[str], task: Task, out: Path, opening: Opening | None = None
) -> AsyncIterator[Bench]:
    """Open a session for a task. out: the folder of the run, for a judge's ratings.

    These have a journal of their own, beside the run's, which is made with the first of them.
    """
    async with AsyncExitStack() as opened:
        session = await opened.enter_async_context(Session.open(setup_of(options, methods, task), opening))
        judge = session.judge

        @cache
        def journal() -> SqliteJournal:
            return opened.enter_context(closing(SqliteJournal(out / "judge.sqlite")))

        if judge is not None:
            task = JudgedTask(task=task, judge=Judge(model=judge), journal=journal)
        spare_the_collector()
        yield Bench(task, session)


@dataclass(frozen=True)
class Bench:
    """A task, and what its cells share. distribute: makes workers answer a cell's questions instead of this process."""

    task: Task
    session: Session
    distribute: Callable[[Configured, Cell, Any], Configured] | None = None

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
        """A cell's method, scaled up to its budget. Settings of the preset and the user are the same in every size.

        Raises ConfigurationError if a required part is missing.
        """
        kind, shots = catalogue.method(cell.method), tuple(self.task.demonstrations())
        extra = {"demonstrations": shots} if shots and "demonstrations" in kind.fields else {}
        built = self.session.method(cell.method, *self._place, self.task.form, extra)
        return scaled(built, cell.tokens, keep={*kind.preset, *self.session.settings(cell.method, self._place[0])})

    def configure(self, cell: Cell, base: EvalSettings, budget: Budget, searching: Any = None) -> Configured:
        """A cell's method with the settings of its run; these record the value of every setting.

        searching: how its choices are searched, where workers grow trees.
        """
        method = self.method(cell)
        identity = self.session.identity(cell.method, method, *self._place)
        limits = budget.model_copy(update={"tokens": cell.tokens})
        ready = Configured(method, replace(base, **identity, budget=limits))
        return ready if self.distribute is None else self.distribute(ready, cell, searching)


def settings_by_method(settings: Mapping[str, object], methods: Sequence[str]) -> dict[str, dict[str, object]]:
    """Assign settings to methods: KEY goes to every method that has it, METHOD.KEY only to that method.

    Raises ConfigurationError for a key that none of the methods has.
    """
    shared: dict[str, dict[str, object]] = {name: {} for name in methods}
    settable = {name: catalogue.method(name).fields - PARTS for name in methods}
    for key, value in settings.items():
        method, dot, own = key.partition(".")
        method = method.replace("-", "_") if method not in shared else method
        if dot and method in shared:
            shared[method][own] = value
            continue
        owners = [name for name in methods if key in settable[name]]
        if not owners:
            names = set().union(*settable.values())
            raise ConfigurationError(f"no method here has a setting {key!r}; {did_you_mean(key, names)}")
        for owner in owners:
            shared[owner][key] = value
    return shared

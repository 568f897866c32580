"""The parts of an evaluation: a session over a benchmark's documents, and the methods at their budgets."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from reground.app import catalogue
from reground.app.catalogue import PARTS
from reground.app.documents import ANSWERING, Source, names_other
from reground.app.options import Benchmark
from reground.app.session import Opening, Session, Setup, spare_the_collector
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.evidence import Retriever
from reground.core.journal import SqliteJournal, fingerprint
from reground.core.language import LanguageModel
from reground.core.method import Method
from reground.core.programs import Sandbox
from reground.core.run import Run
from reground.core.trajectory import Trajectory
from reground.evaluation.compare import Candidate, Cell, Configured
from reground.evaluation.questions import MEASURED
from reground.evaluation.runner import EvalSettings
from reground.evaluation.scaling import cost, scaled, sizes
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks.longform import Judge, JudgedTask

JUDGE = "judge"
"""The name of the judge's run in its journal."""
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
    """Open a bench for each task, all in one session. out: the folder of the run, for a judge's ratings."""
    async with AsyncExitStack() as opened:
        session = await opened.enter_async_context(Session.open(setup_of(options, methods, tasks), opening))
        judges = (opened.enter_context(judged(task, session.judge, out)) for task in tasks)
        benches = [Bench(task, session) for task in judges]
        spare_the_collector()
        yield benches


@dataclass(frozen=True)
class Bench:
    """A task, and what its cells share. tuned: the index of the size that tuning chose."""

    task: Task
    session: Session
    tuned: Mapping[Cell, int] = dataclasses.field(default_factory=dict)

    @property
    def model(self) -> LanguageModel:
        """The model that answers."""
        return next(iter(self.session.models.values()))

    @property
    def retriever(self) -> Retriever | None:
        """What is searched."""
        return self.session.retrievers.get(self.task.name)

    @property
    def sandbox(self) -> Sandbox | None:
        """What runs programs, where programs are run."""
        return self.session.sandbox

    def method(self, cell: Cell) -> Method:
        """A cell's method, scaled up to its budget or in the size that tuning chose."""
        if cell in self.tuned:
            return self._sizes(cell)[self.tuned[cell]]
        return scaled(self._built(cell), cell.tokens, keep=self._fixed(cell))

    def candidates(self, cell: Cell, base: EvalSettings, budget: Budget) -> list[Candidate]:
        """Every size of a cell's method, as candidates for tuning."""
        return [Candidate(self._configured(cell, size, base, budget), cost(size)) for size in self._sizes(cell)]

    def _sizes(self, cell: Cell) -> list[Method]:
        """The method as it is set, and under a limit its other sizes."""
        built = self._built(cell)
        others = [] if cell.tokens is None else sizes(built, keep=self._fixed(cell))
        return [built, *(size for size in others if size != built)]

    def _fixed(self, cell: Cell) -> Mapping[str, object]:
        """The settings that are the same in every size: the preset's and the user's."""
        return {**catalogue.method(cell.method).preset, **self.session.settings(cell.method, self._place[0])}

    def _built(self, cell: Cell) -> Method:
        """A cell's method with its settings, unscaled. Raises ConfigurationError if a required part is missing."""
        shots = self.task.demonstrations()
        given = (
            {"demonstrations": tuple(shots)}
            if shots and "demonstrations" in catalogue.method(cell.method).fields
            else {}
        )
        return self.session.method(cell.method, *self._place, self.task.form, given)

    @property
    def _place(self) -> tuple[str, str]:
        """The names of the model and of what is searched."""
        return next(iter(self.session.models)), self.task.name

    def configure(self, cell: Cell, base: EvalSettings, budget: Budget) -> Configured:
        """A cell's method with the settings of its run; these record the value of every setting."""
        return self._configured(cell, self.method(cell), base, budget)

    def _configured(self, cell: Cell, method: Method, base: EvalSettings, budget: Budget) -> Configured:
        named = self.session.identity(cell.method, method, *self._place)
        limits = budget.model_copy(update={"tokens": cell.tokens})
        return Configured(method, dataclasses.replace(base, **named, budget=limits))


def corpus_of(task: Task, given: Path | None) -> Path:
    """The documents that are given, else the task's own. Raises ConfigurationError where there are none."""
    documents: Path | None = given if given is not None else getattr(task, "corpus", None)
    if documents is None:
        raise ConfigurationError(f"{task.name} has no corpus of its own: give the documents with --corpus")
    return documents


@contextmanager
def judged(task: Task, judge: LanguageModel | None, out: Path) -> Iterator[Task]:
    """The task, with answers rated by a judge model. The ratings have their own journal, beside the run's.

    Without a judge, the task itself.
    """
    opened: list[SqliteJournal] = []

    async def open_run(example: Example, trajectory: Trajectory) -> Run:
        if not opened:
            opened.append(SqliteJournal(out / "judge.sqlite"))
        said = "" if trajectory.answer is None else trajectory.answer.text
        question = fingerprint("judged", trajectory.method, trajectory.id, said)
        return Run(run_id=JUDGE, question_id=question, journal=opened[0])

    try:
        yield task if judge is None else JudgedTask(task=task, judge=Judge(model=judge), open_run=open_run)
    finally:
        for journal in opened:
            journal.close()


def settings_by_method(given: Mapping[str, object], methods: Sequence[str]) -> dict[str, dict[str, object]]:
    """Assign settings to methods: KEY goes to every method that has it, METHOD.KEY only to that method.

    Raises ConfigurationError for a key that none of the methods has.
    """
    shared: dict[str, dict[str, object]] = {name: {} for name in methods}
    for key, value in given.items():
        method, dot, own = key.partition(".")
        method = method.replace("-", "_") if method not in shared else method
        owners = (
            [method]
            if dot and method in shared
            else [name for name in methods if key in catalogue.method(name).fields - PARTS]
        )
        if not owners:
            known = {field for name in methods for field in catalogue.method(name).fields - PARTS}
            raise ConfigurationError(f"no method here has a setting {key!r}; {did_you_mean(key, known)}")
        for owner in owners:
            shared[owner][own if dot and owner == method else key] = value
    return shared

"""Builds the parts of an evaluation: the task, the model, the documents and the methods at their budgets."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reground.app import catalogue
from reground.app.corpora import ANSWERING, check_corpus, check_reranker, corpus_retriever, reranked
from reground.app.identity import PARTS, identity
from reground.app.meanings import field_names
from reground.app.options_web import Web
from reground.app.searching import other_retriever
from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.journal import SqliteJournal, fingerprint
from reground.evaluation.compare import Cell, Configured
from reground.evaluation.questions import MEASURED
from reground.evaluation.scaling import cost, scaled, sizes
from reground.evaluation.tuning import Candidate

if TYPE_CHECKING:
    from reground.app.options import Benchmark
    from reground.app.options_documents import Documents
    from reground.core.budget import Budget
    from reground.core.evidence import Retriever
    from reground.core.language import LanguageModel
    from reground.core.method import Method
    from reground.core.programs import Sandbox
    from reground.core.trajectory import Trajectory
    from reground.evaluation.runner import EvalSettings
    from reground.evaluation.task import Example, Task
    from reground.models.options import ModelOptions
    from reground.retrieval.settings import IndexReport, Progress

JUDGE = "judge"
"""The name of the judge's run in its journal."""
RUNS_CODE = frozenset({"program", "pal"})


@dataclass(frozen=True)
class Bench:
    """The parts that all cells of an evaluation share.

    settings: the settings of each method. judge: the name of a model. tuned: the index of the size that tuning chose.
    """

    task: Task
    model: LanguageModel
    options: ModelOptions
    settings: Mapping[str, Mapping[str, object]]
    retriever: Retriever | None = None
    sandbox: Sandbox | None = None
    judge: str | None = None
    rewriter: LanguageModel | None = None
    tuned: Mapping[Cell, int] = dataclasses.field(default_factory=dict)

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
        return {**catalogue.preset_settings(cell.method), **self.settings.get(cell.method, {})}

    def _built(self, cell: Cell) -> Method:
        """A cell's method with its settings, unscaled. Raises ConfigurationError if a required part is missing."""
        settings = dict(self.settings.get(cell.method, {}))
        shots = self.task.demonstrations()
        if shots and "demonstrations" in fields_of(cell.method):
            settings.setdefault("demonstrations", tuple(shots))
        return catalogue.build_method(
            cell.method,
            model=self.model,
            retriever=self.retriever,
            sandbox=self.sandbox,
            rewriter=self.rewriter,
            form=self.task.form,
            settings=settings,
        )

    def configure(self, cell: Cell, base: EvalSettings, budget: Budget) -> Configured:
        """A cell's method with the settings of its run; these record the value of every setting."""
        return self._configured(cell, self.method(cell), base, budget)

    def _configured(self, cell: Cell, method: Method, base: EvalSettings, budget: Budget) -> Configured:
        named = identity(
            cell.method, method, self.model, self.options,
            retriever=self.retriever, rewriter=self.rewriter, judge=self.judge,
        )  # fmt: skip
        limits = budget.model_copy(update={"tokens": cell.tokens})
        return Configured(method, dataclasses.replace(base, **named, budget=limits))


async def open_bench(
    task: Task,
    order: Benchmark,
    methods: Sequence[str],
    models: Mapping[str, LanguageModel],
    settings: Mapping[str, Mapping[str, object]],
    *,
    on_index: Callable[[Progress], None] | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
) -> Bench:
    """Open the documents (by default the task's own) and, if code has to run, a sandbox.

    For questions of one's own they are searched as those who ask search them; a benchmark's as the options say.

    models: the models by role (model, judge, rewriter). settings: the settings of each method.
    """
    check_corpus(order.corpus)
    check_reranker(order)
    documents = order.corpus if order.corpus is not None else getattr(task, "corpus", None)
    retriever = None
    if any(takes(name, "retriever") for name in methods):
        questions = (each.question for each in task.examples())
        usual = ANSWERING if task.name.startswith(f"{MEASURED}:") else None
        retriever = await open_search(
            documents, order, questions=questions, usual=usual, on_index=on_index, on_report=on_report
        )
    isolation = None
    if task.form.name in RUNS_CODE or any("sandbox" in catalogue.needs(name) for name in methods):
        from reground.sandbox import find_sandbox

        isolation = await asyncio.to_thread(find_sandbox, order.sandbox, packages=True)
    judge = getattr(order, "judge", None)
    return Bench(
        task, models["model"], order.model_options, settings, retriever, isolation, judge, models.get("rewriter")
    )


def corpus_of(task: Task, given: Path | None) -> Path:
    """The documents that are given, else the task's own. Raises ConfigurationError where there are none."""
    documents: Path | None = given if given is not None else getattr(task, "corpus", None)
    if documents is None:
        raise ConfigurationError(f"{task.name} has no corpus of its own: give the documents with --corpus")
    return documents


async def open_search(
    corpus: Path | None,
    order: Documents,
    *,
    questions: Iterable[str] = (),
    usual: str | None = None,
    on_index: Callable[[Progress], None] | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
) -> Retriever | None:
    """What the options say is searched: the web, a retriever of one's own, else the documents; None without any.

    questions: those of a measurement, which must not be found. usual: as in `reranked`.
    """
    other = other_retriever(order, questions=questions) if isinstance(order, Web) else None
    if other is not None:
        return reranked(other, order)
    if corpus is None:
        return None
    return await open_documents(corpus, order, usual=usual, on_index=on_index, on_report=on_report)


async def open_documents(
    corpus: Path,
    order: Documents,
    *,
    usual: str | None = None,
    on_index: Callable[[Progress], None] | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
) -> Retriever:
    """Documents that are searched in the language of the options, and reranked as they say. usual: as in `reranked`."""
    check_reranker(order)
    found = await corpus_retriever(
        corpus, on_index, language=order.language, retrieval=order.retrieval, on_report=on_report
    )
    return reranked(found, order, usual=usual)


@contextmanager
def judged(task: Task, judge: LanguageModel | None, out: Path) -> Iterator[Task]:
    """The task, with answers rated by a judge model. The ratings have their own journal, beside the run's.

    Without a judge, the task itself.
    """
    from reground.core.run import Run
    from reground.evaluation.tasks.longform import Judge, JudgedTask

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


def takes(method: str, part: str) -> bool:
    """Whether the method accepts a part, such as a retriever or a sandbox."""
    return part in fields_of(method)


def fields_of(method: str) -> frozenset[str]:
    """The names of the method's fields, both parts and settings."""
    return frozenset(field_names(catalogue.method_class(method)))


def settings_by_method(given: Mapping[str, object], methods: Sequence[str]) -> dict[str, dict[str, object]]:
    """Assign settings to methods: KEY goes to every method that has it, METHOD.KEY only to that method.

    Raises ConfigurationError for a key that none of the methods has.
    """
    shared: dict[str, dict[str, object]] = {name: {} for name in methods}
    for key, value in given.items():
        method, dot, own = key.partition(".")
        method = method.replace("-", "_") if method not in shared else method
        owners = [method] if dot and method in shared else [name for name in methods if key in fields_of(name) - PARTS]
        if not owners:
            known = {field for name in methods for field in fields_of(name) - PARTS}
            raise ConfigurationError(f"no method here has a setting {key!r}; {did_you_mean(key, known)}")
        for owner in owners:
            shared[owner][own if dot and owner == method else key] = value
    return shared

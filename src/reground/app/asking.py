"""One question from the outside: put a method together, run it durably, hand back what it found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from reground.app import catalogue
from reground.app.corpora import corpus_retriever
from reground.core.answers import FORMS, Citation, Thought
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, RegroundError
from reground.core.journal import SqliteJournal
from reground.core.language import LanguageModel, Usage
from reground.core.places import runs_dir
from reground.core.run import Observer, Run
from reground.core.solve import solve
from reground.core.trajectory import Trajectory, append_trajectory, write_trajectories

if TYPE_CHECKING:
    from reground.core.evidence import Retriever
    from reground.core.programs import Sandbox
    from reground.models.options import ModelOptions
    from reground.retrieval.settings import IndexReport, Progress, Skipped

DEFAULT_MODEL = "gguf/smollm2"
DEFAULT_METHOD = "rar"


class Options(TypedDict, total=False):
    """What can be said with a question; everything has a default.

    method: a method's name, "rar" unless said otherwise.
    model: `provider/model`, or a LanguageModel of your own.
    rewriter: a model that rewrites queries, for methods that take one; without it the model itself does.
    corpus: a folder of documents, a JSONL file, an index, or a Retriever of your own.
    form: what an answer looks like: text, phrase, choice, number, program, pal, plan; else what suits the method.
    settings: the method's own settings, e.g. {"k": 3}.
    model_options: where and how to reach the model.
    budget: the most that the question may cost.
    trace: a JSONL file to add the trajectory to.
    home: where runs are kept, instead of the user's state folder.
    seed: what the seeds of sampled calls come from, so that the same question is answered alike elsewhere; None leaves them to the model.
    fresh: forget what an earlier, interrupted or finished run of the same question has recorded.
    observer: called with every event while the method works.
    language: that of the corpus's documents, by code or English name, "en" unless said.
    on_index: called with progress while the corpus is indexed.
    on_report: called with what the indexing came to, before the method begins.
    """

    method: str
    model: str | LanguageModel
    rewriter: str | LanguageModel | None
    corpus: str | Path | Retriever | None
    form: str | None
    settings: Mapping[str, object]
    model_options: ModelOptions
    budget: Budget
    trace: str | Path | None
    home: Path
    seed: int | None
    fresh: bool
    observer: Observer
    language: str | None
    on_index: Callable[[Progress], None]
    on_report: Callable[[IndexReport], None]


@dataclass(frozen=True)
class Result:
    """An answer with everything it rests on. `stopped` names the budget limit that ended the work early.

    skipped: the corpus's files that could not be read, and why. notes: what else is to be known of its index.
    """

    text: str
    citations: tuple[Citation, ...]
    steps: tuple[Thought, ...]
    usage: Usage
    seconds: float
    stopped: str | None
    trajectory: Trajectory
    trajectory_path: Path
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, without the trajectory itself."""
        return {
            "question": self.trajectory.question,
            "answer": self.text,
            "method": self.trajectory.method,
            "citations": [citation.model_dump(mode="json") for citation in self.citations],
            "steps": [step.model_dump(mode="json") for step in self.steps],
            "usage": {**self.usage.model_dump(mode="json"), "seconds": round(self.seconds, 3)},
            "stopped": self.stopped,
            "skipped": [skipped.model_dump(mode="json") for skipped in self.skipped],
            "notes": list(self.notes),
            "trajectory": str(self.trajectory_path),
        }


async def ask_question(
    question: str,
    *,
    method: str = DEFAULT_METHOD,
    model: str | LanguageModel = DEFAULT_MODEL,
    rewriter: str | LanguageModel | None = None,
    corpus: str | Path | Retriever | None = None,
    form: str | None = None,
    settings: Mapping[str, object] | None = None,
    model_options: ModelOptions | None = None,
    budget: Budget | None = None,
    trace: str | Path | None = None,
    home: Path | None = None,
    seed: int | None = None,
    fresh: bool = False,
    observer: Observer | None = None,
    language: str | None = None,
    on_index: Callable[[Progress], None] | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
) -> Result:
    """Answer one question. See `Options`.

    The run is named by everything that shapes it, so the same call goes on where an interrupted one
    was and pays for nothing twice; a finished one is replayed.
    """
    if not question.strip():
        raise ConfigurationError("the question is empty")
    if form is not None and form not in FORMS:
        raise ConfigurationError(f"no answer form is called {form!r}; {catalogue.did_you_mean(form, FORMS)}")
    catalogue.method_class(method)
    catalogue.check_rewriter(rewriter, [method])
    for spec in (model, rewriter):
        if isinstance(spec, str):
            catalogue.check_price(spec, model_options, budget)
    reports: list[IndexReport] = []
    retriever = None
    if corpus is not None:
        retriever = await corpus_retriever(corpus, on_index, language=language, on_report=reports.append)
    if on_report is not None:
        for report in reports:
            on_report(report)
    async with AsyncExitStack() as opened:
        language_model = catalogue.load_model(model, model_options) if isinstance(model, str) else model
        opened.push_async_callback(close, language_model)
        rewriting_model = catalogue.load_rewriter(rewriter, model_options) if isinstance(rewriter, str) else rewriter
        if rewriting_model is not None:
            opened.push_async_callback(close, rewriting_model)
        solver = catalogue.build_method(
            method,
            model=language_model,
            retriever=retriever,
            sandbox=_sandbox_if_needed(method),
            rewriter=rewriting_model,
            form=None if form is None else FORMS[form],
            settings=settings,
        )
        config = {
            "question": question,
            "method": method,
            "model": language_model.name,
            "base_url": getattr(model_options, "base_url", None),
            "adapter": str(getattr(model_options, "adapter", None)),
            "corpus": None if retriever is None else retriever.name,
            "form": form,
            "settings": _plain(settings or {}),
            **({} if rewriting_model is None else {"rewriter": rewriting_model.name}),
            **({} if seed is None else {"seed": seed}),
        }
        run_id = "ask-" + hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]
        folder = (home if home is not None else runs_dir()) / run_id
        result = await _solve(solver, config, run_id, folder, budget, trace, fresh, observer)
    return replace(
        result,
        skipped=tuple(skipped for report in reports for skipped in report.skipped),
        notes=tuple(note for report in reports for note in report.notes),
    )


async def _solve(
    solver: Any,
    config: dict[str, Any],
    run_id: str,
    folder: Path,
    budget: Budget | None,
    trace: str | Path | None,
    fresh: bool,
    observer: Observer | None,
) -> Result:
    _write_config(folder, config, budget)
    journal = SqliteJournal(folder / "journal.sqlite")
    try:
        if fresh:
            journal.forget(run_id)
        run = Run(
            run_id=run_id, question_id="0", journal=journal, budget=budget, observer=observer, seed=config.get("seed")
        )
        solved = await solve(solver, config["question"], run, id=run_id, name=config["method"])
    finally:
        journal.close()
    trajectory = solved.trajectory
    path = folder / "trajectory.jsonl"
    write_trajectories(path, [trajectory])
    if trace is not None:
        append_trajectory(Path(trace), trajectory)
    if solved.error is not None:
        raise solved.error
    if trajectory.answer is None:
        raise RegroundError("the method returned no answer")
    return Result(
        text=trajectory.answer.text,
        citations=trajectory.answer.citations,
        steps=trajectory.answer.steps,
        usage=trajectory.usage,
        seconds=trajectory.seconds,
        stopped=trajectory.stopped,
        trajectory=trajectory,
        trajectory_path=Path(trace) if trace is not None else path,
    )


async def close(model: LanguageModel) -> None:
    """Give back what a model holds open, if it holds anything."""
    aclose = getattr(model, "aclose", None)
    if aclose is not None:
        await aclose()


def _sandbox_if_needed(method: str) -> Sandbox | None:
    if "sandbox" not in catalogue.needs(method):
        return None
    from reground.sandbox import find_sandbox

    return find_sandbox()


def _write_config(folder: Path, config: Mapping[str, Any], budget: Budget | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    resolved = {**config, "budget": None if budget is None else budget.model_dump()}
    part = folder / "config.json.part"
    part.write_text(json.dumps(resolved, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(folder / "config.json")


def _plain(settings: Mapping[str, object]) -> dict[str, object]:
    """Settings as JSON can hold them."""
    return json.loads(json.dumps(dict(sorted(settings.items())), default=_as_data))  # type: ignore[no-any-return]


def _as_data(value: object) -> object:
    """A part, such as a model or a critic, by its name; another object of the method's own by its fields."""
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return repr(value)

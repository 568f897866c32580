"""One question from the outside: put a method together, run it durably, hand back what it found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.app import catalogue
from reground.app.corpora import corpus_retriever
from reground.app.empty import nothing_said
from reground.app.identity import model_settings, weights_of
from reground.app.inputs import as_budget, as_corpus, as_model, as_options
from reground.core.answers import FORMS, Citation, Thought
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, RegroundError
from reground.core.journal import SqliteJournal
from reground.core.language import LanguageModel, Usage
from reground.core.lines import replace_lines
from reground.core.places import runs_dir
from reground.core.run import Observer, Run
from reground.core.solve import solve
from reground.core.storable import storable, storable_text
from reground.core.trajectory import (
    UNGROUNDED,
    Failure,
    NoteStep,
    Trajectory,
    append_trajectory,
    write_trajectories,
)
from reground.critics import load, own_model

if TYPE_CHECKING:
    from reground.core.evidence import Passage, Retriever
    from reground.core.programs import Sandbox
    from reground.models.options import ModelOptions
    from reground.retrieval.settings import IndexReport, Progress, Skipped

DEFAULT_MODEL = "gguf/smollm2"
DEFAULT_METHOD = "rar"


@dataclass(frozen=True)
class Result:
    """An answer with everything it rests on.

    citations: the passages whose markers stand in the text.
    shown: all passages that it was written from, the cited ones included.
    stopped: the budget limit that ended the work early, if one did.
    skipped: the corpus's files that could not be read, and why. notes: what else is to be known of its index.
    """

    text: str
    citations: tuple[Citation, ...]
    shown: tuple[Citation, ...]
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

    @property
    def ungrounded(self) -> str | None:
        """Why the answer rests on no document although there were some to search; None where it may rest on one."""
        notes = (step for step in self.trajectory.steps if isinstance(step, NoteStep))
        return next((str(note.data["why"]) for note in notes if note.name == UNGROUNDED), None)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, without the trajectory itself."""
        return {
            "question": self.trajectory.question,
            "answer": self.text,
            "method": self.trajectory.method,
            "citations": [citation.model_dump(mode="json") for citation in self.citations],
            "shown": [passage.model_dump(mode="json") for passage in self.shown],
            "ungrounded": self.ungrounded,
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
    model: str | LanguageModel | Callable[[str], str | Awaitable[str]] = DEFAULT_MODEL,
    rewriter: str | LanguageModel | Callable[[str], str | Awaitable[str]] | None = None,
    corpus: str | Path | Retriever | Sequence[str | Path | Passage] | None = None,
    form: str | None = None,
    settings: Mapping[str, object] | None = None,
    model_options: ModelOptions | Mapping[str, Any] | None = None,
    budget: Budget | int | Mapping[str, Any] | None = None,
    trace: str | Path | None = None,
    home: Path | None = None,
    seed: int | None = None,
    fresh: bool = False,
    observer: Observer | None = None,
    language: str | None = None,
    on_index: Callable[[Progress], None] | None = None,
    on_report: Callable[[IndexReport], None] | None = None,
) -> Result:
    """Answer one question; `reground.ask` says what the options are.

    The run is named by everything that shapes it, so the same call goes on where an interrupted one
    was and pays for nothing twice; a finished one is replayed.
    """
    question = storable_text(question)
    if not question.strip():
        raise ConfigurationError("the question is empty")
    if form is not None and form not in FORMS:
        raise ConfigurationError(f"no answer form is called {form!r}; {catalogue.did_you_mean(form, FORMS)}")
    catalogue.method_class(method)
    budget, model_options = as_budget(budget), as_options(model_options)
    model = as_model(model, model_options)
    rewriter = None if rewriter is None else as_model(rewriter, model_options)
    catalogue.check_rewriter(rewriter, [method])
    _check_trace(trace)
    for spec in (model, rewriter):
        if isinstance(spec, str):
            catalogue.check_price(spec, model_options, budget)
    corpus = await as_corpus(corpus)
    reports: list[IndexReport] = []
    retriever = None
    if corpus is not None:
        retriever = await corpus_retriever(corpus, on_index, language=language, on_report=reports.append)
    if on_report is not None:
        for report in reports:
            on_report(report)
    async with AsyncExitStack() as opened:
        if retriever is not corpus:
            opened.push_async_callback(close, retriever)
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
            settings=open_critics(settings or {}, model_options, opened),
        )
        config = {
            "question": question,
            "method": method,
            "model": language_model.name,
            "base_url": None,
            "adapter": "None",
            **_model_identity(language_model, rewriting_model, model_options),
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
        from reground.evaluation.scaling import scaled

        fitted = scaled(solver, None if budget is None else budget.tokens, keep=config["settings"])
        if fitted is not solver:
            run.note("scaled", why="the token budget", settings=_plain(_changed(solver, fitted)))
        solved = await solve(fitted, config["question"], run, id=run_id, name=config["method"])
    finally:
        journal.close()
    trajectory, error = solved.trajectory, solved.error
    empty = nothing_said(trajectory)
    if empty is not None:
        error = empty
        failure = Failure(type=type(empty).__name__, message=str(empty))
        trajectory = trajectory.model_copy(update={"failure": failure})
    path = folder / "trajectory.jsonl"
    write_trajectories(path, [trajectory])
    if trace is not None:
        append_trajectory(Path(trace), trajectory)
    if error is not None:
        raise error
    if trajectory.answer is None:
        raise RegroundError("the method returned no answer")
    return Result(
        text=trajectory.answer.text,
        citations=trajectory.answer.citations,
        shown=trajectory.answer.shown,
        steps=trajectory.answer.steps,
        usage=trajectory.usage,
        seconds=trajectory.seconds,
        stopped=trajectory.stopped,
        trajectory=trajectory,
        trajectory_path=Path(trace) if trace is not None else path,
    )


def critic_model(settings: Mapping[str, object]) -> str | None:
    """The model that the setting `critic` names for the critics alone, as in prompted:openai/large."""
    spec = settings.get("critic")
    return own_model(spec)[1] if isinstance(spec, str) and settings.get("critics") is None else None


def open_critics(
    settings: Mapping[str, object], options: ModelOptions | None, opened: AsyncExitStack
) -> dict[str, object]:
    """The settings with the critics themselves where they have a model of their own, which is closed with `opened`."""
    named = critic_model(settings)
    if named is None:
        return dict(settings)
    model = catalogue.load_rewriter(named, options)
    opened.push_async_callback(close, model)
    return {**settings, "critics": load(own_model(str(settings["critic"]))[0], model=model)}


async def close(part: object) -> None:
    """Give back what a model or a retriever holds open, if it holds anything."""
    aclose = getattr(part, "aclose", None)
    if aclose is not None:
        await aclose()


def _check_trace(trace: str | Path | None) -> None:
    """Refuse a trace file that cannot be written, before anything is spent."""
    if trace is None:
        return
    try:
        Path(trace).parent.mkdir(parents=True, exist_ok=True)
        Path(trace).open("a").close()
    except OSError as error:
        raise ConfigurationError(f"cannot write the trace {trace}: {error.strerror}") from None


def _model_identity(
    model: LanguageModel, rewriter: LanguageModel | None, options: ModelOptions | None
) -> dict[str, str | None]:
    """What changes the models' replies besides their names."""
    from reground.models.options import ModelOptions

    found: dict[str, str | None] = {**model_settings(options if options is not None else ModelOptions(), model)}
    weights = weights_of("" if rewriter is None else rewriter.name)
    return found if weights is None else {**found, "rewriter_weights": weights}


def _sandbox_if_needed(method: str) -> Sandbox | None:
    if "sandbox" not in catalogue.needs(method):
        return None
    from reground.sandbox import find_sandbox

    return find_sandbox()


def _write_config(folder: Path, config: Mapping[str, Any], budget: Budget | None) -> None:
    resolved = {**config, "budget": None if budget is None else budget.model_dump()}
    text = json.dumps(storable(resolved), indent=2, ensure_ascii=False) + "\n"
    replace_lines(folder / "config.json", [text.encode()])


def _plain(settings: Mapping[str, object]) -> dict[str, Any]:
    """Settings as JSON can hold them."""
    return json.loads(json.dumps(dict(sorted(settings.items())), default=_as_data))  # type: ignore[no-any-return]


def _changed(before: Any, after: Any) -> dict[str, object]:
    """The settings of `after` that differ from those of `before`."""
    pairs = ((field.name, getattr(before, field.name), getattr(after, field.name)) for field in fields(after))
    return {name: new for name, old, new in pairs if new != old}


def _as_data(value: object) -> object:
    """A part, such as a model or a critic, by its name; another object of the method's own by its fields."""
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return repr(value)

"""Answer one question: build the method, run it durably and return the result."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.app import catalogue
from reground.app.corpora import ANSWERING, check_corpus, check_reranker, corpus_retriever, folder_of, reranked
from reground.app.empty import nothing_said
from reground.app.identity import identity
from reground.app.inputs import as_budget, as_corpus, as_form, as_model, as_options
from reground.app.keywords import spread
from reground.app.options import Ask
from reground.app.run_folder import Hold, alone, in_use
from reground.app.searching import other_retriever
from reground.app.supporting import Check, check_support, open_check, with_support
from reground.app.traces import check_trace
from reground.core.answers import Citation, Sentence, Thought, abstains
from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, RegroundError
from reground.core.files import replace_lines
from reground.core.journal import SqliteJournal
from reground.core.language import LanguageModel, Usage, storable, storable_text
from reground.core.method import Method, Solved, solve
from reground.core.paths import expanded, runs_dir
from reground.core.run import Run
from reground.core.trajectory import (
    UNCHECKED,
    UNGROUNDED,
    Failure,
    NoteStep,
    Trajectory,
    append_trajectory,
    write_trajectories,
)
from reground.critics import load, of_files, own_models
from reground.models.options import ModelOptions

if TYPE_CHECKING:
    from reground.core.programs import Sandbox
    from reground.retrieval.settings import IndexReport, Skipped


NEAR = 0.25
"""The score of support below which, in all of its sentences, an answer is none that the documents give."""


@dataclass(frozen=True)
class Result:
    """An answer with its evidence, its steps and its cost.

    citations: the passages whose markers appear in the text.
    shown: all passages that the model saw when it wrote the answer, including the cited ones.
    sentences: the text sentence by sentence, each with the sentence of a passage that supports it; empty where nothing
        was checked.
    stopped: the budget limit that ended the work early, if one did.
    skipped: the files of the corpus that could not be read, and why. notes: other remarks on its index.
    corpus: the folder or file that was searched, if it was given as one on this machine.
    """

    text: str
    citations: tuple[Citation, ...]
    shown: tuple[Citation, ...]
    sentences: tuple[Sentence, ...]
    steps: tuple[Thought, ...]
    usage: Usage
    seconds: float
    stopped: str | None
    trajectory: Trajectory
    trajectory_path: Path
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    corpus: Path | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def ungrounded(self) -> str | None:
        """Why the answer rests on no document although there was a corpus to search; None if it may rest on one."""
        notes = (step for step in self.trajectory.steps if isinstance(step, NoteStep))
        noted = next((str(note.data["why"]) for note in notes if note.name == UNGROUNDED), None)
        if noted is None and (self.sentences or self.unchecked) and abstains(self.text):
            return "the passages do not hold the answer"
        scores = [sentence.score for sentence in self.sentences if sentence.score is not None]
        if noted is None and scores and max(scores) < NEAR:
            return "nothing that was read comes near it"
        return noted

    @property
    def unchecked(self) -> str | None:
        """Why the sentences were not checked although that was asked for: the budget ended before it; else None."""
        notes = (step for step in self.trajectory.steps if isinstance(step, NoteStep) and step.name == UNCHECKED)
        return next((str(note.data["why"]) for note in notes), None)

    @property
    def answered(self) -> bool:
        """Whether the documents, where there are any, gave the answer."""
        return self.ungrounded is None

    @property
    def quotes(self) -> list[Citation]:
        """The sentences that support the answer, each once; without a check the cited passages."""
        quotes = (quote for each in self.sentences for quote in each.supports)
        return list(dict.fromkeys(quotes)) if self.sentences else [*self.citations]

    @property
    def faithfulness(self) -> float | None:
        """The share of the answer's claiming sentences that a passage supports; None if nothing was checked."""
        return None if self.trajectory.answer is None else self.trajectory.answer.faithfulness

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, with the path of the trajectory instead of the trajectory."""
        return {
            "question": self.trajectory.question,
            "answer": self.text,
            "answered": self.answered,
            "faithfulness": self.faithfulness,
            "unchecked": self.unchecked,
            "sentences": [sentence.model_dump(mode="json") for sentence in self.sentences],
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


@spread(Ask)
def ask(order: Ask) -> Result:
    """Answer a question and show the steps. It also works in a notebook, where an event loop is already running.

    The same call resumes an interrupted run and replays a finished one.
    Raises `reground.core.errors.RegroundError` if there is no answer.
    """
    return _finish(answer(order))


@spread(Ask)
async def aask(order: Ask) -> Result:
    """`ask` as a coroutine, with the same options."""
    return await answer(order)


def _finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end: in this thread, or in a new one if this thread already runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def cancellable() -> Result:
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


async def answer(order: Ask, *, hold: Hold = in_use) -> Result:
    """Answer one question. hold: a block around all that is done in the run's folder.

    The run's id is a hash of everything that shapes the run. The same order therefore resumes an interrupted run and
    pays for no call twice; a finished run is replayed.
    """
    order, budget, options = checked(order), as_budget(order.budget), as_options(order.model_options) or ModelOptions()
    for spec in (order.model, order.rewriter):
        if isinstance(spec, str):
            catalogue.check_price(spec, options, budget)
    corpus = other_retriever(order) or await as_corpus(order.corpus)
    reports: list[IndexReport] = []
    retriever = None
    if corpus is not None:
        retriever = await corpus_retriever(
            corpus,
            order.on_index,
            language=order.language,
            retrieval=order.retrieval,
            on_report=reports.append,
        )
    for report in reports:
        if order.on_report is not None:
            order.on_report(report)
    async with AsyncExitStack() as opened:
        if retriever is not None:
            own = retriever is order.corpus
            retriever = reranked(retriever, order, closes=not own, usual=None if own else ANSWERING)
            if not own:
                opened.push_async_callback(close, retriever)
        model = _opened(order.model, options, opened, catalogue.load_model)
        rewriter = None
        if order.rewriter is not None:
            rewriter = _opened(order.rewriter, options, opened, catalogue.load_rewriter)
        check = open_check(order.support, order.support_threshold, model, opened)
        method = catalogue.build_method(
            order.method,
            model=model,
            retriever=retriever,
            sandbox=_sandbox_if_needed(order.method),
            rewriter=rewriter,
            form=as_form(order.form),
            settings=open_critics(order.settings or {}, options, opened, model),
        )
        named = identity(order.method, method, model, options, retriever=retriever, rewriter=rewriter)
        result = await _solved(order, method, named, budget, check, hold)
    return replace(
        result,
        skipped=tuple(skipped for report in reports for skipped in report.skipped),
        notes=tuple(note for report in reports for note in report.notes),
    )


def checked(order: Ask) -> Ask:
    """Return the order with its models converted. Raises ConfigurationError before anything is opened."""
    question = storable_text(order.question)
    if not question.strip():
        raise ConfigurationError("the question is empty")
    as_form(order.form)
    method = catalogue.named(order.method)
    options = as_options(order.model_options)
    as_budget(order.budget)
    rewriter = None if order.rewriter is None else as_model(order.rewriter, options)
    order = replace(order, question=question, method=method, model=as_model(order.model, options), rewriter=rewriter)
    order = order if order.trace is None else replace(order, trace=expanded(order.trace))
    catalogue.check_rewriter(rewriter, [method])
    check_reranker(order)
    check_support(order)
    check_trace(order.trace)
    check_corpus(order.corpus)
    return order


def _opened(
    model: object,
    options: ModelOptions,
    opened: AsyncExitStack,
    load: Callable[[str, ModelOptions], LanguageModel],
) -> LanguageModel:
    """Return the model, loaded if it is given by name. It is closed with `opened`."""
    found: Any = load(model, options) if isinstance(model, str) else model
    opened.push_async_callback(close, found)
    return found  # type: ignore[no-any-return]


async def _solved(
    order: Ask,
    method: Method,
    named: Mapping[str, Any],
    budget: Budget | None,
    check: Check | None,
    hold: Hold,
) -> Result:
    config = {"question": order.question, "form": order.form, "seed": order.seed, **named}
    config["settings"] = config.pop("method_settings")  # the name in the config.json of an evaluation
    run_id = "ask-" + hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]
    folder = (order.home if order.home is not None else runs_dir()) / run_id
    with hold(folder):
        async with alone(folder):
            _write_config(folder, config, budget)
            journal = SqliteJournal(folder / "journal.sqlite")
            try:
                if order.fresh:
                    journal.forget(run_id)
                run = Run(
                    run_id=run_id,
                    question_id="0",
                    journal=journal,
                    budget=budget,
                    observer=order.observer,
                    seed=order.seed,
                )
                solved = await solve(method, order.question, run, id=run_id, name=order.method)
                if order.support != "none":
                    solved = await with_support(solved, method, order, check, run)
            finally:
                journal.close()
            return _result(solved, folder / "trajectory.jsonl", order)


def _result(solved: Solved, path: Path, order: Ask) -> Result:
    """Write the trajectory and return the result. Raises the error that left the question without an answer."""
    trajectory, error = solved.trajectory, solved.error
    empty = nothing_said(trajectory)
    if empty is not None:
        error = empty
        failure = Failure(type=type(empty).__name__, message=str(empty))
        trajectory = trajectory.model_copy(update={"failure": failure})
    write_trajectories(path, [trajectory])
    if order.trace is not None:
        append_trajectory(Path(order.trace), trajectory)
    if error is not None:
        raise error
    if trajectory.answer is None:
        raise RegroundError("the method returned no answer")
    return Result(
        text=trajectory.answer.text,
        citations=trajectory.answer.citations,
        shown=trajectory.answer.shown,
        sentences=trajectory.answer.sentences,
        steps=trajectory.answer.steps,
        usage=trajectory.usage,
        seconds=trajectory.seconds,
        stopped=trajectory.stopped,
        trajectory=trajectory,
        trajectory_path=Path(order.trace) if order.trace is not None else path,
        corpus=folder_of(order.corpus),
    )


def placed(result: Result, corpus: Path) -> Result:
    """A result whose retriever was given open, with the places of its quotes in the files of the corpus."""
    from reground.app.locating import located

    answer = result.trajectory.answer
    return result if answer is None else replace(result, sentences=located(answer, corpus).sentences, corpus=corpus)


def critic_models(settings: Mapping[str, object]) -> tuple[str, ...]:
    """The models that the setting `critic` names for the critics only, as in prompted:openai/large."""
    spec = settings.get("critic")
    return own_models(spec) if isinstance(spec, str) and settings.get("critics") is None else ()


def open_critics(
    settings: Mapping[str, object], options: ModelOptions | None, opened: AsyncExitStack, model: LanguageModel
) -> dict[str, object]:
    """Return the settings, with loaded critics if their names in a run's identity would say too little.

    These have models of their own, which are closed with `opened`, or are made of files. model: the method's own, which
    the other critics are asked of.
    """
    named, spec = critic_models(settings), settings.get("critic")
    if not named and not (isinstance(spec, str) and settings.get("critics") is None and of_files(spec)):
        return dict(settings)
    judges = {name: catalogue.load_rewriter(name, options) for name in named}
    for judge in judges.values():
        opened.push_async_callback(close, judge)
    return {**settings, "critics": load(str(spec), model=model, own=judges)}


async def close(part: object) -> None:
    """Close a model or a retriever, if it can be closed."""
    aclose = getattr(part, "aclose", None)
    if aclose is not None:
        await aclose()


def _sandbox_if_needed(method: str) -> Sandbox | None:
    if "sandbox" not in catalogue.needs(method):
        return None
    from reground.sandbox import find_sandbox

    return find_sandbox()


def _write_config(folder: Path, config: Mapping[str, Any], budget: Budget | None) -> None:
    resolved = {**config, "budget": None if budget is None else budget.model_dump()}
    text = json.dumps(storable(resolved), indent=2, ensure_ascii=False) + "\n"
    replace_lines(folder / "config.json", [text.encode()])

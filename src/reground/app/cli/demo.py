"""`reground demo`: a question from the model's memory and from the articles, side by side; or all of the 20."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli.codes import EXIT_FAILED_QUESTIONS
from reground.app.cli.flags import flattened
from reground.app.cli.offering import found_words, is_model_named, offered_instead
from reground.app.options import DEFAULT_MODEL, Ask, Demo, Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from reground.app.cli.eval_job import Job
    from reground.app.result import Result
    from reground.evaluation.runner import Progress
    from reground.evaluation.task import Example

MEMORY = "direct"
"""The method that stands beside the chosen one: it retrieves nothing."""
SHOWN = "2"
"""The question asked by default. The default model has it right, as it has most; what is shown at the end says how
many."""


@flattened
def demo(context: typer.Context, order: Demo, output: Json) -> None:
    """Answer a question from the model's memory and from 36 articles that come with reground, and show every step.

    The questions need two or three articles each. An answer is right when the words of the expected one stand in it.
    The same command resumes an interrupted run, and replays a finished one.

    Example:  reground demo 7   ·   reground demo --all --method rat
    """
    from reground.app import catalogue
    from reground.app.cli.demo_display import show_list

    examples = _examples()
    out, err = common.consoles()
    if order.listed:
        return show_list(out, examples, as_json=output.as_json)
    method = catalogue.named(order.method)
    catalogue.method_class(method)  # check the name before a model is downloaded
    methods = [*dict.fromkeys((MEMORY, method))]
    named = is_model_named(context)
    with offered_instead(named=named):
        if order.every:
            _ask_all(order, methods, out, err, as_json=output.as_json)
        else:
            _ask_one(order, methods, examples, out, err, as_json=output.as_json)
    if order.model == DEFAULT_MODEL and not output.as_json:
        better = (None if named else found_words()) or "a server of yours (reground models)"
        common.say(
            err,
            "This model has 1.5 billion parameters and is often wrong. "
            f"Try {better}, or where it is too slow --model gguf/qwen2.5-coder-0.5b.",
        )


def _examples() -> Sequence[Example]:
    from reground.demo import questions_path
    from reground.evaluation.tasks.own import read_measured

    return read_measured(questions_path()).examples()


def _chosen(asked: str | None, examples: Sequence[Example]) -> tuple[str, int | None]:
    """The question, and its number if it is one of the demo's."""
    from reground.core.errors import ConfigurationError

    words = SHOWN if asked is None else asked.strip()
    for number, example in enumerate(examples, start=1):
        if words in (str(number), example.question):
            return example.question, number
    if words.isdecimal():
        raise ConfigurationError(f"the demo has the questions 1 to {len(examples)}: reground demo --list shows them")
    return words, None


def _settings(method: str) -> dict[str, object]:
    return {"max_rounds": 1} if method == "grounded" else {}  # keeps the demonstration short


def _ask_one(
    order: Demo, methods: Sequence[str], examples: Sequence[Example], out: Console, err: Console, *, as_json: bool
) -> None:
    from reground.app.cli import demo_display as display

    question, number = _chosen(order.question, examples)
    golds = None if number is None else examples[number - 1].golden_answers
    if not as_json:
        display.show_question(out, question, number, order.model)
    results: dict[str, Result] = {}
    for method in methods:
        results[method] = _answered(order, question, method, err, phrase=golds is not None, quiet=as_json)
        if not as_json:
            display.show_answer(out, method, results[method], golds)
    if as_json:
        return display.print_json(question, number, golds, results)
    display.show_end(out, order.model, results, known=golds is not None)


def _answered(order: Demo, question: str, method: str, err: Console, *, phrase: bool, quiet: bool) -> Result:
    """Ask one method. phrase: end with a short answer that can be marked, as `eval` has it."""
    from reground.app.cli.progress import AskProgress
    from reground.app.session import answer
    from reground.demo import corpus_path

    with AskProgress(err, shown=not quiet) as progress:
        asked = Ask(
            question,
            method=method,
            model=order.model,
            model_options=order.model_options,
            corpus=None if method == MEMORY else corpus_path(),
            form="phrase" if phrase else None,
            settings=_settings(method),
            fresh=order.fresh,
            observer=progress.on_event,
        )
        return asyncio.run(answer(asked, progress))


def _ask_all(order: Demo, methods: Sequence[str], out: Console, err: Console, *, as_json: bool) -> None:
    """All questions with each method, as `compare` runs them: durable, with progress and the time left."""
    from reground.app.cli.demo_display import print_json_of_all, show_all
    from reground.app.cli.eval_run import run_job, tell_what_failed
    from reground.core.errors import ConfigurationError
    from reground.evaluation.tasks import load_task

    if order.question is not None:
        raise ConfigurationError("--all asks the 20 questions: leave out the question")
    job = _job(order, methods, quiet=as_json)
    if order.fresh:
        shutil.rmtree(job.out, ignore_errors=True)
    task = load_task(job.order.task, None)
    spent: dict[str, Progress] = {}
    try:
        watch = run_job([task], job, err, lambda index, now: spent.update({methods[index]: now}))
        result = asyncio.run(watch)
    except ConfigurationError as error:
        if "contains another run" in str(error):  # of another version, or on another server
            raise ConfigurationError(f"{job.out} was begun with other settings: --fresh discards it") from error
        raise
    if as_json:
        print_json_of_all(order.model, task.examples(), result, spent)
    else:
        show_all(out, order.model, task.examples(), result, spent)
    if not tell_what_failed(err, result):
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


def _job(order: Demo, methods: Sequence[str], *, quiet: bool) -> Job:
    from reground.app.cli.eval_job import Job, slug
    from reground.app.documents import ANSWERING
    from reground.app.options_evaluation import Compare
    from reground.core.paths import runs_dir
    from reground.demo import corpus_path, questions_path
    from reground.evaluation.compare import cells_of

    settings = {f"{method}.{key}": value for method in methods for key, value in _settings(method).items()}
    measuring = Compare(
        questions=questions_path(),
        corpus=corpus_path(),
        rerank=ANSWERING,
        model=order.model,
        model_options=order.model_options,
        settings=settings,
    )
    where = filter(None, ("demo", methods[-1], order.model, order.model_options.base_url))
    return Job(measuring, cells_of(methods, [None]), runs_dir() / slug(*where), MEMORY, quiet)


def register(cli: typer.Typer) -> None:
    """Add the command of this file."""
    cli.command()(demo)

"""`reground demo`: a question from the model's memory and from the articles, side by side; or all of the 20."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from reground.app import catalogue
from reground.app.cli import _common as common
from reground.app.cli._common import human_time, human_tokens
from reground.app.cli.codes import EXIT_FAILED_QUESTIONS
from reground.app.cli.display import plain, replayed, show_read, show_said, show_steps, show_support
from reground.app.cli.eval import Job, run_job, slug, tell_what_failed
from reground.app.cli.flags import flattened
from reground.app.cli.offering import found_words, is_model_named, offered_instead
from reground.app.cli.progress import AskProgress
from reground.app.documents import ANSWERING
from reground.app.options import DEFAULT_MODEL, Ask, Demo, Json
from reground.app.options_evaluation import Compare
from reground.app.session import answer
from reground.core.answers import PHRASE
from reground.core.errors import ConfigurationError
from reground.core.paths import runs_dir
from reground.demo import corpus_path, measured, questions_path
from reground.evaluation.compare import CompareResult, cells_of
from reground.evaluation.metrics.text import cover_exact_match
from reground.evaluation.statistics import share_interval
from reground.evaluation.tasks import load_task
from reground.evaluation.tasks.own import read_measured

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.result import Result
    from reground.evaluation.results import Record
    from reground.evaluation.runner import Progress, RunResult
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
    return read_measured(questions_path()).examples()


def _chosen(asked: str | None, examples: Sequence[Example]) -> tuple[str, int | None]:
    """The question, and its number if it is one of the demo's."""
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
    question, number = _chosen(order.question, examples)
    golds = None if number is None else examples[number - 1].golden_answers
    if not as_json:
        show_question(out, question, number, order.model)
    results: dict[str, Result] = {}
    for method in methods:
        results[method] = _answered(order, question, method, err, phrase=golds is not None, quiet=as_json)
        if not as_json:
            show_answer(out, method, results[method], golds)
    if as_json:
        return print_json_of_one(question, number, golds, results)
    show_end(out, order.model, results, known=golds is not None)


def _answered(order: Demo, question: str, method: str, err: Console, *, phrase: bool, quiet: bool) -> Result:
    """Ask one method. phrase: end with a short answer that can be marked, as `eval` has it."""
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


_METRIC = "cover-EM"


def show_list(console: Console, examples: Sequence[Example], *, as_json: bool) -> None:
    """Print the questions, each with its number and the expected answer."""
    if as_json:
        return common.print_json([_about(number, example) for number, example in enumerate(examples, 1)], indent=2)
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", style="bold")
    for number, example in enumerate(examples, start=1):
        expected = f"  {' or '.join(example.golden_answers)}"
        table.add_row(str(number), Text.assemble(plain(example.question), plain(expected, "green")))
    console.print(table)


def show_question(console: Console, question: str, number: int | None, model: str) -> None:
    """Print what is asked, and of whom."""
    title = "Question" if number is None else f"Question {number} of the demo"
    console.print(Rule(title, style="dim", align="left"))
    console.print(plain(question, "bold"))
    console.print(plain(f"model {model}; 36 articles that come with reground", "dim"))


def show_answer(console: Console, method: str, result: Result, golds: Sequence[str] | None) -> None:
    """Print a method's answer with its mark, its steps and its evidence."""
    reads = bool(result.shown)
    title = f"{method}: with the articles" if reads else f"{method}: from the model's memory"
    console.print(Rule(title, style="cyan", align="left"))
    if reads and result.steps:
        show_steps(console, result)
        console.print(Rule("Answer", style="dim", align="left"))
    show_said(console, result)
    if golds is not None:
        console.print(_verdict(console, golds, right=_right(result, golds)))
    if reads:
        show_support(console, result)
        show_read(console, result)


def show_end(console: Console, model: str, results: Mapping[str, Result], *, known: bool) -> None:
    """Print what each answer cost, how it was marked, and what one question does not say."""
    console.print(Rule(style="dim"))
    console.print(Text("; ".join(_cost(method, result) for method, result in results.items()), style="dim"))
    if known:
        console.print(Text("Right: the words of the expected answer stand in the short answer.", style="dim"))
    console.print(Text(_share_words(model, [*results][-1]), style="dim"))


def print_json_of_one(
    question: str, number: int | None, golds: Sequence[str] | None, results: Mapping[str, Result]
) -> None:
    """Print one question with the answers of all methods as JSON."""
    answers = [
        {**result.to_dict(), "right": None if golds is None else _right(result, golds)} for result in results.values()
    ]
    expected = None if golds is None else [*golds]
    common.print_json({"question": question, "number": number, "expected": expected, "answers": answers}, indent=2)


def show_all(
    console: Console, model: str, examples: Sequence[Example], result: CompareResult, spent: Mapping[str, Progress]
) -> None:
    """Print a mark for every question and method, and how many were right. spent: what each method took now."""
    runs = _runs(result)
    table = Table(box=None, padding=(0, 1, 0, 0), title=f"The demo's questions with {model}", title_justify="left")
    table.add_column("", justify="right")
    for method in runs:
        table.add_column(method, justify="center")
    table.add_column("expected", overflow="fold")
    table.add_column(f"{[*runs][-1]} answered" if runs else "", overflow="fold")
    for number, example in enumerate(examples, start=1):
        found = [_record(run, example) for run in runs.values()]
        marks = [_mark(console, right=_scored(record)) for record in found]
        said = found[-1].answer if found and found[-1] is not None else ""
        table.add_row(str(number), *marks, plain(example.golden_answers[0]), plain(said))
    console.print(table)
    console.print(Rule(style="dim"))
    for method, run in runs.items():
        console.print(_tally(method, _counted(run, spent.get(method))))
    console.print(Text("Right: the words of the expected answer stand in the short answer.", style="dim"))


def print_json_of_all(
    model: str, examples: Sequence[Example], result: CompareResult, spent: Mapping[str, Progress]
) -> None:
    """Print the marks of every question and method, and how many were right, as JSON. spent: as in `show_all`."""
    methods = [
        {
            "method": method,
            **_counted(run, spent.get(method)),
            "answers": [{"id": each.example, "answer": each.answer, "right": _scored(each)} for each in run.records],
            "folder": str(run.path),
        }
        for method, run in _runs(result).items()
    ]
    questions = [_about(number, example) for number, example in enumerate(examples, start=1)]
    common.print_json({"model": model, "questions": questions, "methods": methods}, indent=2)


def _about(number: int, example: Example) -> dict[str, Any]:
    return {
        "number": number, "id": example.id, "question": example.question, "expected": [*example.golden_answers],
    }  # fmt: skip


def _right(result: Result, golds: Sequence[str]) -> bool:
    """Whether the short answer holds the words of an expected one: cover-EM, as `eval` computes it."""
    return cover_exact_match(PHRASE.extract(result.text), golds) == 1.0


def _runs(result: CompareResult) -> dict[str, RunResult]:
    return {run.config.method: run for run in result.runs.values()}


def _record(run: RunResult, example: Example) -> Record | None:
    return next((record for record in run.records if record.example == example.id), None)


def _scored(record: Record | None) -> bool | None:
    """Whether an answer is right; None if there is none."""
    score = None if record is None else record.scores.get(_METRIC)
    return None if score is None or score.value is None else score.value == 1.0


def _counted(run: RunResult, spent: Progress | None) -> dict[str, Any]:
    """How many are right, with the interval of the share, and what it cost. A failed question is not right.

    seconds: the time that passed, not the sum over questions that were in work at once. replayed: how many questions
    an earlier command had answered, which is no part of that time.
    """
    right = sum(_scored(record) is True for record in run.records)
    share = share_interval(right, len(run.records))
    return {
        "right": right,
        "of": len(run.records),
        "failed": run.summary.failed,
        "low": share.low,
        "high": share.high,
        "tokens": run.summary.usage.tokens,
        "seconds": round(spent.elapsed, 1) if spent is not None else 0.0,
        "replayed": spent.resumed if spent is not None else 0,
    }


def _tally(method: str, counted: Mapping[str, Any]) -> Text:
    text = Text.assemble((f"{method}: {counted['right']} of {counted['of']} right", "bold"))
    if counted["low"] is not None:
        text.append(f"  (95 % interval {100 * counted['low']:.0f} to {100 * counted['high']:.0f} %)")
    if counted["failed"]:
        text.append(f"  {counted['failed']} failed", "yellow")
    text.append(f"  {human_tokens(counted['tokens'])} tokens, {human_time(counted['seconds'])}", "dim")
    return text.append(f" ({counted['replayed']} replayed)" if counted["replayed"] else "", "dim")


def _verdict(console: Console, golds: Sequence[str], *, right: bool) -> Text:
    return Text.assemble(_mark(console, right=right, word=True), "; expected: ", plain(" or ".join(golds)))


def _mark(console: Console, *, right: bool | None, word: bool = False) -> Text:
    """A tick or a cross; a word too, or instead where the terminal cannot show them. No colour carries the meaning."""
    if right is None:
        return Text("-")
    sign, said, style = ("✓", "right", "green") if right else ("✗", "wrong", "red")
    signs = [] if console.options.ascii_only else [sign]
    return Text(" ".join([*signs, *([said] if word or not signs else [])]), style=f"bold {style}")


def _cost(method: str, result: Result) -> str:
    again = " (replayed)" if replayed(result.trajectory) else ""
    return f"{method}: {human_time(result.seconds)}, {human_tokens(result.usage.tokens)} tokens{again}"


def _share_words(model: str, method: str) -> str:
    found = measured(model, method)
    all_of_them = "One question says little; to ask all 20: reground demo --all"
    if found is None:
        return all_of_them
    return f"Measured: {method} with {model}: {found['right']} of {found['of']} right ({found['date']}).\n{all_of_them}"

"""`reground train reader`: a small model learns to quote, to answer, to say what to read next, and to abstain."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, cast

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import flattened
from reground.app.options import Quiet
from reground.app.options_reader import ReaderData, ReaderFit

if TYPE_CHECKING:
    from rich.console import Console

    from reground.core.evidence import Pages
    from reground.evaluation.task import Example, Task
    from reground.training.reader.data import Lessons

ROWS = "reader"

reader_app = typer.Typer(
    no_args_is_help=True,
    help="Train a small model to read for grounded+reader: data, then fit; both in one --out."
    "\n\nExample:  reground train reader data --tasks hotpotqa_train,popqa_train --rerank links --out runs/reader",
)


@reader_app.command()
@flattened
def data(order: ReaderData, voice: Quiet, config: ConfigFile = None) -> None:
    """Write demonstrations: what an ideal reader says to the prompts of grounded+reader on training questions.

    It quotes the supporting sentences and gives the gold answer, names the gold pages that it has not read, or says
    that the passages do not hold the answer. No model is needed. The rows are in OUT/data/reader.jsonl.

    Example:  reground train reader data --tasks hotpotqa_train,popqa_train --rerank links --out runs/reader
    """
    from reground.evaluation.splits import record_questions
    from reground.evaluation.tasks import load_training_task
    from reground.training.report import write_section
    from reground.training.rows import Demonstration, write_demonstrations

    console, err = common.consoles()
    tasks = [load_training_task(name, order.data) for name in filter(None, map(str.strip, order.tasks.split(",")))]
    drawn = [(task, _drawn(order, task)) for task in tasks]
    if order.dry_run:
        for task, examples in drawn:
            common.say(console, f"would search for {len(examples)} questions of {task.name}")
        return
    rows: list[Demonstration] = []
    told = []
    for task, examples in drawn:
        made = asyncio.run(_made(order, task, examples, err, quiet=voice.quiet))
        rows += made.rows
        told.append(f"{task.name}: {made.describe()}")
        common.say(console, told[-1])
    record_questions(order.out, ",".join(task.name for task in tasks), [each for _, own in drawn for each in own])
    write_demonstrations(order.out / "data" / f"{ROWS}.jsonl", rows)
    write_section(order.out, "data", "\n".join(f"- {line}" for line in told))


def _drawn(order: ReaderData, task: Task) -> list[Example]:
    from reground.evaluation.runner import EvalSettings, choose

    return choose(task, EvalSettings("grounded+reader", "oracle", limit=order.limit or None, seed=order.seed))


async def _made(order: ReaderData, task: Task, examples: list[Example], err: Console, *, quiet: bool) -> Lessons:
    from reground.app.asking import close
    from reground.app.cli.progress import AskProgress
    from reground.app.corpora import check_reranker, corpus_retriever, reranked
    from reground.app.evaluating import corpus_of
    from reground.training.reader.data import demonstrations

    def told(done: int) -> None:
        if not quiet and (done % 100 == 0 or done == len(examples)):
            common.say(err, f"{done} of {len(examples)} questions")

    check_reranker(order)
    with AskProgress(err, shown=not quiet) as progress:
        pages = await corpus_retriever(
            corpus_of(task, order.corpus), progress.on_index, language=order.language, retrieval=order.retrieval
        )
    retriever = reranked(pages, order)
    try:
        return await demonstrations(task, examples, retriever, cast("Pages", pages), order, on_question=told)
    finally:
        await close(retriever)


@reader_app.command()
@flattened
def fit(order: ReaderFit, voice: Quiet, config: ConfigFile = None) -> None:
    """Fine-tune a model on the demonstrations, on the replies only.

    The result, OUT/NAME, is used as --method grounded+reader --model hf/OUT/NAME. The same command resumes an
    interrupted fit.

    Example:  reground train reader fit --base smollm2 --out runs/reader
    """
    from reground.training.fitting import require_training

    require_training()
    from reground.app.cli.background import in_background
    from reground.app.cli.fit_progress import FitProgress
    from reground.training.demonstrate import fit_named, long_rows
    from reground.training.fitting import fitting_of
    from reground.training.rows import Demonstration, read_rows

    console, err = common.consoles()
    rows = read_rows(order.out / "data" / f"{ROWS}.jsonl", Demonstration)
    if order.dry_run:
        common.say(console, f"fit: {len(rows)} demonstrations, {order.epochs:g} passes over them")
        if told := long_rows(rows, order.base, order.max_length):
            common.say(console, f"note: {told}")
        return
    with FitProgress(err, order.name, shown=not voice.quiet) as progress:
        fitted = partial(
            fit_named, order.out, order.name, rows, order.base, fitting_of(order), fresh=order.fresh,
            keep_epochs=order.keep_epochs, on_step=progress.on_step, on_note=progress.on_note,
        )  # fmt: skip
        place = asyncio.run(in_background(fitted))
    common.say(console, f"the reader is in {place}: --method grounded+reader --model hf/{place}")


def register(train: typer.Typer) -> None:
    """Add the commands of this file."""
    train.add_typer(reader_app, name="reader")

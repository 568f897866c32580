"""`reground train reader`: a small model learns to quote, to answer, to say what to read next, and to abstain."""

from __future__ import annotations

import asyncio
from functools import partial

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.demonstrating import demonstrate
from reground.app.cli.flags import flattened
from reground.app.options import Quiet
from reground.app.options_reader import ReaderData, ReaderFit

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
    from reground.training.oracles import reader_demonstrations

    make = partial(reader_demonstrations, settings=order)
    demonstrate(order, make, method="grounded+reader", name=ROWS, questions="questions.json", quiet=voice.quiet)


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
    from reground.training.rows import Demonstration, read_rows
    from reground.training.settings import fitting_of
    from reground.training.sft import fit_named, long_rows

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

"""Estimates the cost of an evaluation in advance, prints it as a table and asks whether to continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from reground.app.cli import _common as common

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.cli.eval_job import Job
    from reground.core.language import Usage
    from reground.evaluation.compare import Cell
    from reground.evaluation.scaling import Estimate
    from reground.evaluation.task import Example, Task


CONFIRM_USD = 1.0


def estimates(task: Task, job: Job) -> list[Estimate]:
    """Estimate the remaining cost of each cell."""
    from reground.evaluation.results import read_run
    from reground.evaluation.runner import choose
    from reground.evaluation.scaling import estimate

    base, price, found = job.base, job.order.model_options.price, []
    examples = choose(task, base)
    for cell in job.cells:
        folder = job.out if job.baseline is None else job.out / cell.label
        kept = list(read_run(folder).records().values()) if (folder / "config.json").is_file() else []
        done = [record for record in kept if record.failure is None or not base.retry_failed]
        found.append(
            estimate(
                cell.label,
                examples,
                repeats=base.repeats,
                budget=cell.tokens,
                done=done,
                usual=None if done else _usual(task, job, cell, examples),
                usd=None if price is None else price.usd,
                speed=job.order.speed,
                concurrency=base.concurrency,
            )
        )
    return found


def _usual(task: Task, job: Job, cell: Cell, examples: Sequence[Example]) -> Usage | None:
    """What a question of the middle length usually takes; None for a method that needs more than stand-ins."""
    from reground.app.benchmark import Bench, setup_of
    from reground.app.session import Session
    from reground.core.errors import RegroundError
    from reground.evaluation.scaling import usual
    from reground.models.scripted import ScriptedModel
    from reground.retrieval.scripted import ScriptedRetriever

    lengths = sorted((example.question for example in examples), key=len)
    if not lengths:
        return None
    nobody, nothing = ScriptedModel([]), ScriptedRetriever([])
    nowhere: Any = object()  # a dry run executes nothing
    rewriter = nobody if job.order.rewriter else None
    try:
        setup = setup_of(job.order, job.methods, [task])
        session = Session(setup, {job.order.model: nobody}, {task.name: nothing}, rewriter=rewriter, sandbox=nowhere)
        bench = Bench(task, session)
        return usual(bench.method(cell), lengths[len(lengths) // 2])
    except RegroundError:
        return None


def estimate_table(estimates: Sequence[Estimate]) -> Any:
    """The estimates as a table for the terminal."""
    from rich.table import Table

    from reground.evaluation.scaling import total

    table = Table(title="What is left to do; nothing was called", title_justify="left")
    for header in ("run", "runs", "tokens", "at most", "USD", "at most", "time", "from"):
        table.add_column(header, justify="left" if header in {"run", "from"} else "right", overflow="fold")
    for one in [*estimates, *([total(estimates)] if len(estimates) > 1 else [])]:
        table.add_row(
            one.label,
            str(one.runs),
            _tokens(one.tokens),
            _tokens(one.most_tokens),
            _usd(one.usd),
            _usd(one.most_usd),
            "–" if one.seconds is None else common.human_time(one.seconds),
            f"{one.measured} measured" if one.measured else "a dry run",
        )
    table.caption = (
        "a dry run: replies and passages of usual length. at most: the whole budget. – is unknown: no budget, no "
        "--price or no --speed."
    )
    table.caption_justify = "left"
    return table


def _tokens(tokens: int | None) -> str:
    return "–" if tokens is None else common.human_tokens(tokens)


def _usd(usd: float | None) -> str:
    return "–" if usd is None else f"{usd:.4f}"


def confirm(err: Console, found: Sequence[Estimate], *, sure: bool) -> None:
    """Ask before an evaluation spends more than CONFIRM_USD; without a price there is nothing to ask.

    Raises ConfigurationError if nobody can be asked, typer.Exit if the answer is no.
    """
    from reground.core.errors import ConfigurationError
    from reground.evaluation.scaling import total

    whole = total(found)
    usd = whole.most_usd if whole.most_usd is not None else whole.usd
    if sure or usd is None or usd <= CONFIRM_USD:
        return
    err.print(estimate_table(found))
    if not err.is_terminal:
        raise ConfigurationError(f"this may cost {usd:.2f} USD: give --yes to continue, or --dry-run to see why")
    if not typer.confirm(f"This may cost {usd:.2f} USD. Go on?", err=True):
        raise typer.Exit(0)

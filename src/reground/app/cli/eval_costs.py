"""Estimates the cost of an evaluation in advance, prints it as a table and asks whether to continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from reground.app.cli import _common as common

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.cli.eval_job import Job
    from reground.evaluation.estimate import Estimate
    from reground.evaluation.task import Task


CONFIRM_USD = 1.0


def estimates(task: Task, job: Job) -> list[Estimate]:
    """Estimate the remaining cost of each cell."""
    from reground.evaluation.estimate import estimate
    from reground.evaluation.results import read_run
    from reground.evaluation.runner import choose

    base, price, found = job.base, job.order.model_options.price, []
    examples = choose(task, base)
    for cell in job.cells:
        folder = job.out if job.baseline is None else job.out / cell.label
        done = list(read_run(folder).records().values()) if (folder / "config.json").is_file() else []
        found.append(
            estimate(
                cell.label,
                examples,
                repeats=base.repeats,
                budget=cell.tokens,
                done=done,
                instruction=task.form.instruction,
                usd=None if price is None else price.usd,
                speed=job.order.speed,
                concurrency=base.concurrency,
            )
        )
    return found


def estimate_table(estimates: Sequence[Estimate]) -> Any:
    """The estimates as a table for the terminal."""
    from rich.table import Table

    from reground.evaluation.estimate import total

    table = Table(title="What is left to do; nothing was called", title_justify="left")
    for header in ("run", "runs", "tokens ≥", "≤", "USD ≥", "≤", "time", "from"):
        table.add_column(header, justify="left" if header in {"run", "from"} else "right")
    for one in [*estimates, *([total(estimates)] if len(estimates) > 1 else [])]:
        table.add_row(
            one.label,
            str(one.runs),
            common.human_tokens(one.low),
            "–" if one.high is None else common.human_tokens(one.high),
            "–" if one.usd_low is None else f"{one.usd_low:.4f}",
            "–" if one.usd_high is None else f"{one.usd_high:.4f}",
            "–" if one.seconds is None else common.human_time(one.seconds),
            f"{one.measured} measured" if one.measured else "bounds",
        )
    table.caption = (
        "bounds: from one short call a question to the whole budget. – is unknown: no budget, --price or --speed."
    )
    table.caption_justify = "left"
    return table


def confirm(err: Console, found: Sequence[Estimate], *, sure: bool) -> None:
    """Ask before an evaluation spends more than CONFIRM_USD; without a price there is nothing to ask.

    Raises ConfigurationError if nobody can be asked, typer.Exit if the answer is no.
    """
    from reground.core.errors import ConfigurationError
    from reground.evaluation.estimate import total

    whole = total(found)
    usd = whole.usd_high if whole.usd_high is not None else whole.usd_low
    if sure or usd is None or usd <= CONFIRM_USD:
        return
    err.print(estimate_table(found))
    if not err.is_terminal:
        raise ConfigurationError(f"this may cost {usd:.2f} USD: give --yes to continue, or --dry-run to see why")
    if not typer.confirm(f"This may cost {usd:.2f} USD. Go on?", err=True):
        raise typer.Exit(0)

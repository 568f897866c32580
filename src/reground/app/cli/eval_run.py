"""Runs an evaluation for the command line: estimate, ask, tune, run with progress, report, exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli.codes import EXIT_FAILED_QUESTIONS
from reground.app.cli.eval_job import Job

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.benchmark import Bench
    from reground.app.cluster.pool import Pool
    from reground.app.options_evaluation import Results
    from reground.evaluation.compare import Cell, CellObserver, CompareResult, Configured
    from reground.evaluation.report import Report
    from reground.evaluation.runner import Progress
    from reground.evaluation.task import Task


def go(job: Job) -> None:
    """Estimate, ask, run and report. Raises typer.Exit if questions failed or a cell was not run."""
    from reground.app.benchmark import setup_of
    from reground.app.cli.eval_costs import confirm, estimate_table, estimates
    from reground.evaluation.tasks import load_task

    order = job.order
    console, err = common.consoles()
    task = load_task(order.task, order.data)
    tasks = [task, *_tuning_task(job, task)]
    setup_of(order, job.methods, tasks)  # refuses what is wrong before the cost is estimated and asked for
    found = estimates(task, job)
    if order.dry_run:
        console.print(estimate_table(found))
        return
    confirm(err, found, sure=order.yes)
    _finish(console, err, job, asyncio.run(run_job(tasks, job, err)))


def _tuning_task(job: Job, measured: Task) -> list[Task]:
    """The training split for tuning: the named one, else the task's own, without the questions to be measured."""
    from reground.evaluation.runner import choose
    from reground.evaluation.splits import without
    from reground.evaluation.tasks import load_training_task

    if not job.tune:
        return []
    return [without(load_training_task(_training_name(job), job.order.data), choose(measured, job.base))]


def _training_name(job: Job) -> str:
    from reground.evaluation.splits import SUFFIX
    from reground.evaluation.tasks import task_names

    own = job.order.task + SUFFIX
    return job.tune_task or (own if own in task_names() else job.order.task)


async def run_job(tasks: Sequence[Task], job: Job, err: Console, observer: CellObserver | None = None) -> CompareResult:
    """Open what a job needs and run its cells.

    tasks: its own, and the one to tune on if it tunes. observer: is told the progress beside the user.
    """
    from reground.app.cli.preparing import open_benches
    from reground.app.cluster import opened_pool, placed

    async with AsyncExitStack() as opened:
        bench, *tuning = await open_benches(job.order, tasks, job.methods, job.out, err, opened, quiet=job.quiet)
        pool = await opened.enter_async_context(opened_pool(job.order, job.methods, partial(common.say, err)))
        for other in tuning:
            bench = replace(bench, tuned=await _tune(other, job, err, pool))
        ready = {
            cell: placed(bench.configure(cell, job.base, job.order.budget), pool, job.order.task, cell, bench.tuned)
            for cell in job.cells
        }
        return await _run_cells(bench, ready, job, err, observer)


async def _tune(bench: Bench, job: Job, err: Console, pool: Pool | None) -> dict[Cell, int]:
    """Find the size of each method that does best on the tuning questions, and show progress."""
    from reground.app.cli.eval_progress import EvalProgress, Work
    from reground.app.cluster import placed
    from reground.evaluation.tuning import planned, tune

    name = _training_name(job)
    candidates = {
        cell: [
            replace(each, configured=placed(each.configured, pool, name, cell, {cell: index}))
            for index, each in enumerate(bench.candidates(cell, job.base, job.order.budget))
        ]
        for cell in job.cells
    }
    plans = {cell: planned(cell, several) for cell, several in candidates.items() if len(several) > 1}
    questions = min(job.tune, len(bench.task.examples()))

    def works() -> dict[tuple[Cell, int], Work]:
        return {
            (cell, index): Work(cell, questions, candidates[cell][index].expected)
            for cell, sizes in plans.items()
            for index in sizes
        }

    def on_plan(cell: Cell, sizes: Sequence[int]) -> None:
        plans[cell] = [*sizes]
        progress.plan(works())

    with EvalProgress(err, works(), shown=not job.quiet) as progress:
        return await tune(
            bench.task,
            candidates,
            job.out,
            questions=job.tune,
            sandbox=bench.sandbox,
            observer=lambda cell, index, now: progress.on_progress((cell, index), now),
            on_plan=on_plan,
        )


async def _run_cells(
    bench: Bench, ready: Mapping[Cell, Configured], job: Job, err: Console, observer: CellObserver | None
) -> CompareResult:
    from reground.app.cli.eval_progress import EvalProgress, Work
    from reground.evaluation.compare import CompareResult, compare
    from reground.evaluation.runner import choose, evaluate

    runs = len(choose(bench.task, job.base)) * job.base.repeats

    def tell(index: int, now: Progress) -> None:
        progress.on_progress(index, now)
        if observer is not None:
            observer(index, now)

    with EvalProgress(err, dict(enumerate(Work(cell, runs) for cell in ready)), shown=not job.quiet) as progress:
        if job.baseline is not None:
            return await compare(
                bench.task,
                ready,
                job.out,
                baseline=job.baseline,
                sandbox=bench.sandbox,
                observer=tell,
            )
        ((cell, one),) = ready.items()
        run = await evaluate(
            bench.task,
            one.method,
            one.settings,
            job.out,
            sandbox=bench.sandbox,
            observer=partial(tell, 0),
            elsewhere=one.elsewhere,
        )
        return CompareResult({cell.label: run})


def _finish(console: Console, err: Console, job: Job, result: CompareResult) -> None:
    for notice in (notice for run in result.runs.values() for notice in run.notices):
        common.say(err, f"note: {notice}")
    if result.runs:
        print_report(console, [job.out], job.out, job.order, baseline=job.baseline)
    if not tell_what_failed(err, result):
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


def tell_what_failed(err: Console, result: CompareResult) -> bool:
    """Print the cells that were refused and the number of failed questions. Returns whether there were none."""
    for refusal in result.refused:
        common.say(err, f"{refusal.cell.label} was not run: {refusal.why}")
    failed = sum(run.summary.failed for run in result.runs.values())
    if failed:
        err.print(f"{failed} questions failed and are not in the means: --retry-failed runs them again", soft_wrap=True)
    return not failed and not result.refused


def print_report(
    console: Console,
    folders: Sequence[Path],
    out: Path,
    order: Results,
    *,
    baseline: str | None = None,
    by: str | None = None,
) -> None:
    """Write the report and print it in the format of the options."""
    from reground.app.cli.terminal import json_text, say
    from reground.evaluation.report import as_data, as_markdown, build_reports, write_report

    reports = build_reports(folders, baseline=baseline, by=by)
    files = write_report(reports, out)
    if order.format == "json":
        say(json_text(as_data(reports), indent=2))
    elif order.format == "md":
        say("\n\n".join(as_markdown(report) for report in reports))
    else:
        _print_tables(console, reports, files)


def _print_tables(console: Console, reports: Sequence[Report], files: Sequence[Path]) -> None:
    for one in reports:
        for table in one.tables:
            console.print(table.terminal())
        for note in one.notes:
            console.print(f"- {note}", style="dim", soft_wrap=True, markup=False)
    console.print(f"written: {', '.join(str(file) for file in files)}", soft_wrap=True, markup=False)
    for one in reports:
        if one.verdict is not None:
            console.print(f"\n{one.verdict.text}", style="bold", markup=False, soft_wrap=not console.is_terminal)

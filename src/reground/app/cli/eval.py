"""`reground eval`: one method on a benchmark; how `compare` runs its own: costs and progress; and `report`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import typer
from rich.table import Table

from reground.app.benchmark import Bench, setup_of
from reground.app.catalogue import method
from reground.app.cli.console import consoles, human_time, human_tokens, note, plural, print_json, print_tables, say
from reground.app.cli.flags import ConfigFile, Quiet, flattened
from reground.app.cli.progress import Progress, Work, opened
from reground.app.cluster.pool import opened_bench
from reground.app.options import Compare, Evaluate, Measuring, Report, field_names
from reground.app.session import Session
from reground.core.errors import EXIT_FAILED_QUESTIONS, ConfigurationError, RegroundError
from reground.core.evidence import Retriever
from reground.core.language import Usage
from reground.core.programs import Sandbox
from reground.evaluation.compare import Cell, CompareResult, cells_of, compare
from reground.evaluation.questions import Questions
from reground.evaluation.report import as_data, as_markdown, build_reports, write_report
from reground.evaluation.results import read_run
from reground.evaluation.runner import EvalSettings, choose
from reground.evaluation.scaling import Estimate, estimate, total, usual
from reground.evaluation.task import Example, Task
from reground.evaluation.tasks import load_task
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever

DEFAULT_LIMIT = 100
"""Questions of a benchmark, where nothing says how many."""
CONFIRM_USD = 1.0
"""What an evaluation may cost without being asked for."""


@dataclass(frozen=True)
class Job:
    """An evaluation to run. baseline: None if a single method is evaluated."""

    options: Measuring
    cells: list[Cell]
    out: Path
    baseline: str | None = None
    quiet: bool = False

    @property
    def methods(self) -> list[str]:
        """The methods of all cells, without duplicates."""
        return list(dict.fromkeys(cell.method for cell in self.cells))

    @property
    def base(self) -> EvalSettings:
        """The settings that the runs of all cells share."""
        options = self.options
        values = {name: getattr(options, name) for name in field_names(Questions)}
        if options.limit is None:
            values["limit"] = None if options.ids or options.questions is not None else DEFAULT_LIMIT
        return EvalSettings(self.methods[0], options.model, **{**values, "limit": values["limit"] or None})


@flattened(
    *("task", "questions", "corpus", "method", "model", "judge", "settings", "budget__tokens"),
    *("limit", "repeats", "seed", "out", "dry_run", "retry_failed"),
)
def evaluate(options: Evaluate, quiet: Quiet = False, config: ConfigFile = None) -> None:
    """Evaluate one method on a benchmark. The same command resumes an interrupted run and pays for no call twice.

    Exit code 3: finished, but some questions failed; --retry-failed runs them again.

    Example:  reground eval --task hotpotqa --method rar --limit 200 --repeats 3 --out runs/hotpotqa-rar
    """
    check_task(options)
    (cell,) = cells_of([method(options.method).name], [options.budget.tokens])
    go(Job(options, [cell], options.out or Path("runs") / slug(options.task, cell.label, options.model), quiet=quiet))


def check_task(options: Measuring) -> None:
    """Raise ConfigurationError where nothing says what to measure on."""
    if not options.task:
        presets = " (or --preset paper-claims for the papers' tables)" if isinstance(options, Compare) else ""
        raise ConfigurationError(f"name what to measure on: --task NAME, or --questions FILE of your own{presets}")


def slug(*names: str) -> str:
    """Join names into a folder's name."""
    return "-".join("".join(c if c.isalnum() or c in "@._" else "-" for c in name).strip("-") for name in names)


def go(job: Job) -> None:
    """Estimate, ask, run and report. Raises typer.Exit if questions failed or a cell was not run."""
    options = job.options
    task = load_task(options.task, options.data)
    setup_of(options, job.methods, task)  # refuses what is wrong before the cost is estimated and asked for
    costs = estimates(task, job)
    if options.dry_run:
        return consoles()[0].print(estimate_table(costs))
    confirm(costs, sure=options.yes)
    result = asyncio.run(run_job(task, job))
    for notice in (notice for run in result.runs.values() for notice in run.notices):
        note(f"note: {notice}")
    if result.runs:
        print_report([job.out], job.out, options.format, baseline=job.baseline)
    if not tell_what_failed(result):
        raise typer.Exit(EXIT_FAILED_QUESTIONS)
    return None


async def run_job(task: Task, job: Job) -> CompareResult:
    """Open what a job needs and run its cells."""
    options = job.options
    async with opened(partial(opened_bench, options, job.methods, task, job.out), quiet=job.quiet) as bench:
        ready = {cell: bench.configure(cell, job.base, options.budget) for cell in job.cells}
        runs = len(choose(bench.task, job.base)) * job.base.repeats
        with Progress(visible=not job.quiet) as progress:
            progress.plan(dict(enumerate(Work(cell, runs) for cell in ready)))
            return await compare(
                bench.task, ready, job.out, baseline=job.baseline, sandbox=bench.sandbox, observer=progress.on_run
            )


def tell_what_failed(result: CompareResult) -> bool:
    """Print the cells that were refused, and the numbers of questions that failed or whose task could not score them.
    Returns whether there were none."""
    for refusal in result.refused:
        note(f"{refusal.cell.label} was not run: {refusal.why}")
    failed = sum(run.summary.failed for run in result.runs.values())
    if failed:
        note(f"{plural(failed, 'question')} failed, and the means are of the others: --retry-failed runs them again")
    unscored = [record.scoring for run in result.runs.values() for record in run.records if record.scoring is not None]
    if unscored:
        note(f"{plural(len(unscored), 'answer')} could not be scored; the same command tries it again: {unscored[0]}")
    return not failed and not unscored and not result.refused


def estimates(task: Task, job: Job) -> list[Estimate]:
    """Estimate the remaining cost of each cell."""
    base, price, costs = job.base, job.options.model_options.price, []
    examples = choose(task, base)
    for cell in job.cells:
        folder = job.out if job.baseline is None else job.out / cell.label
        records = read_run(folder).records().values() if (folder / "config.json").is_file() else ()
        results = [record for record in records if record.failure is None or not base.retry_failed]
        cost = estimate(
            cell.label,
            examples,
            repeats=base.repeats,
            budget=cell.tokens,
            records=results,
            usual=None if results else _usual(task, job, cell, examples),
            usd=None if price is None else price.usd,
            speed=job.options.speed,
            concurrency=base.concurrency,
        )
        costs.append(cost)
    return costs


def _usual(task: Task, job: Job, cell: Cell, examples: Sequence[Example]) -> Usage | None:
    """What a question of the middle length usually takes; None for a method that needs more than stand-ins."""
    lengths = sorted((example.question for example in examples), key=len)
    model, sandbox = ScriptedModel([]), cast("Sandbox", object())  # a dry run executes nothing
    models = {job.options.model: model}
    retrievers: dict[str, Retriever] = {task.name: ScriptedRetriever([])}
    rewriter = model if job.options.rewriter else None
    try:
        setup = setup_of(job.options, job.methods, task)
        session = Session(setup, models, retrievers, rewriter=rewriter, sandbox=sandbox)
        return usual(Bench(task, session).method(cell), lengths[len(lengths) // 2])
    except RegroundError:
        return None


def estimate_table(costs: Sequence[Estimate]) -> Table:
    """The estimates as a table for the terminal."""
    headers = ("run", "runs", "tokens", "at most", "USD", "at most", "time", "from")
    table = Table(*headers, title="What is left to do; nothing was called", title_justify="left")
    for column in table.columns[1:-1]:
        column.justify = "right"
    for one in [*costs, *([total(costs)] if len(costs) > 1 else [])]:
        tokens = ("–" if count is None else human_tokens(count) for count in (one.tokens, one.most_tokens))
        usd = ("–" if amount is None else f"{amount:.4f}" for amount in (one.usd, one.most_usd))
        seconds = "–" if one.seconds is None else human_time(one.seconds)
        source = f"{one.measured} measured" if one.measured else "a dry run"
        table.add_row(one.label, str(one.runs), *tokens, *usd, seconds, source)
    table.caption = (
        "a dry run: replies and passages of usual length. at most: the whole budget. –: no budget, price or speed."
    )
    table.caption_justify = "left"
    return table


def confirm(costs: Sequence[Estimate], *, sure: bool) -> None:
    """Ask before an evaluation spends more than CONFIRM_USD; without a price there is nothing to ask.

    Raises ConfigurationError if nobody can be asked, typer.Exit if the answer is no.
    """
    whole = total(costs)
    usd = whole.most_usd if whole.most_usd is not None else whole.usd
    if sure or usd is None or usd <= CONFIRM_USD:
        return
    _, err = consoles()
    err.print(estimate_table(costs))
    if not err.is_terminal:
        raise ConfigurationError(f"this may cost {usd:.2f} USD: give --yes to continue, or --dry-run to see why")
    if not typer.confirm(f"This may cost {usd:.2f} USD. Go on?", err=True):
        raise typer.Exit(0)


@flattened()
def report(options: Report) -> None:
    """Write the report on finished or unfinished runs again, even of several models. This calls no model.

    Example:  reground report runs/small-model runs/large-model --out runs/both
    """
    out = options.out or options.folders[0]
    print_report(options.folders, out, options.format, baseline=options.baseline, by=options.by)


def print_report(
    folders: Sequence[Path], out: Path, form: str, *, baseline: str | None = None, by: str | None = None
) -> None:
    """Write the report of run folders, and print it as text, md or json."""
    reports = build_reports(folders, baseline=baseline, by=by)
    files = write_report(reports, out)
    if form == "json":
        return print_json(as_data(reports), indent=2)
    if form == "md":
        return say("\n\n".join(as_markdown(each) for each in reports))
    console, _ = consoles()
    for each in reports:
        print_tables(*each.tables)
        for text in each.notes:
            console.print(f"- {text}", style="dim", soft_wrap=True, markup=False)
    say(f"written: {', '.join(map(str, files))}")
    for each in reports:
        if each.verdict is not None:
            console.print(f"\n{each.verdict.text}", style="bold", markup=False, soft_wrap=not console.is_terminal)
    return None

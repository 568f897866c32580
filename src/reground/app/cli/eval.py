"""`reground eval`: one method on a benchmark; and how `compare` and `demo` run theirs: costs, tuning, progress."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from reground.app.cli import _common as common
from reground.app.cli.codes import EXIT_FAILED_QUESTIONS
from reground.app.cli.config import ConfigFile
from reground.app.cli.flags import everyday, flattened
from reground.app.cli.report import print_report
from reground.app.options import Quiet
from reground.app.options_evaluation import Compare, Evaluate, Measuring

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.benchmark import Bench
    from reground.app.cluster.pool import Pool
    from reground.core.language import Usage
    from reground.evaluation.compare import Cell, CellObserver, CompareResult, Configured
    from reground.evaluation.runner import EvalSettings, Progress
    from reground.evaluation.scaling import Estimate
    from reground.evaluation.task import Example, Task


DEFAULT_LIMIT = 100


CONFIRM_USD = 1.0


@dataclass(frozen=True)
class Job:
    """An evaluation to run. baseline: None if a single method is evaluated."""

    order: Measuring
    cells: list[Cell]
    out: Path
    baseline: str | None = None
    quiet: bool = False
    tune: int = 0
    tune_task: str | None = None

    @property
    def methods(self) -> list[str]:
        """The methods of all cells, without duplicates."""
        return list(dict.fromkeys(cell.method for cell in self.cells))

    @property
    def base(self) -> EvalSettings:
        """The settings that the runs of all cells share."""
        from reground.app.signature import field_names
        from reground.evaluation.questions import Questions
        from reground.evaluation.runner import EvalSettings

        order = self.order
        all_of_them = order.ids or order.questions is not None
        limit = order.limit if order.limit is not None or all_of_them else DEFAULT_LIMIT
        taken = {name: getattr(order, name) for name in field_names(Questions)}
        return EvalSettings(self.methods[0], order.model, **{**taken, "limit": limit or None})


@everyday(
    *("task", "questions", "corpus", "method", "model", "judge", "settings", "budget__tokens"),
    *("limit", "repeats", "seed", "out", "dry_run", "retry_failed"),
)
@flattened
def evaluate(order: Evaluate, voice: Quiet, config: ConfigFile = None) -> None:
    """Evaluate one method on a benchmark. The same command resumes an interrupted run and pays for no call twice.

    Exit code 3: finished, but some questions failed; --retry-failed runs them again.

    Example:  reground eval --task hotpotqa --method rar --limit 200 --repeats 3 --out runs/hotpotqa-rar
    """
    from reground.app.catalogue import named
    from reground.evaluation.compare import cells_of

    check_task(order)
    (cell,) = cells_of([named(order.method)], [order.budget.tokens])
    out = order.out or Path("runs") / slug(order.task, cell.label, order.model)
    go(Job(order, [cell], out, quiet=voice.quiet))


def check_task(order: Measuring) -> None:
    """Raise ConfigurationError where nothing says what to measure on."""
    from reground.core.errors import ConfigurationError

    if not order.task:
        presets = " (or --preset paper-claims for the papers' tables)" if isinstance(order, Compare) else ""
        raise ConfigurationError(f"name what to measure on: --task NAME, or --questions FILE of your own{presets}")


def slug(*names: str) -> str:
    """Join names into a folder's name."""
    return "-".join("".join(c if c.isalnum() or c in "@._" else "-" for c in name).strip("-") for name in names)


def go(job: Job) -> None:
    """Estimate, ask, run and report. Raises typer.Exit if questions failed or a cell was not run."""
    from reground.app.benchmark import setup_of
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
    from reground.evaluation.questions import without
    from reground.evaluation.runner import choose
    from reground.evaluation.tasks import load_training_task

    if not job.tune:
        return []
    return [without(load_training_task(_training_name(job), job.order.data), choose(measured, job.base))]


def _training_name(job: Job) -> str:
    from reground.evaluation.questions import SUFFIX
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
    from reground.evaluation.compare import planned, tune

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

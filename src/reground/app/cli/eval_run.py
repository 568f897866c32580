"""How an evaluation goes on the command line: estimate, ask, run with progress, report, exit code."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from reground.app.cli import _common as common

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.cli.progress import AskProgress
    from reground.app.evaluating import Bench
    from reground.core.budget import Budget
    from reground.core.language import LanguageModel
    from reground.evaluation.compare import Cell, CompareResult
    from reground.evaluation.estimate import Estimate
    from reground.evaluation.runner import EvalSettings
    from reground.evaluation.task import Task
    from reground.models.options import ModelOptions

EXIT_FAILED_QUESTIONS = 3
CONFIRM_USD = 1.0


@dataclass(frozen=True)
class Order:
    """What both commands ask for."""

    task: str
    cells: list[Cell]
    baseline: str
    data: Path | None
    model: str
    corpus: Path | None
    language: str | None
    sandbox: str
    judge: str | None
    rewriter: str | None
    out: Path
    single: bool
    settings: dict[str, object]
    options: ModelOptions
    budget: Budget
    base: EvalSettings
    dry_run: bool
    speed: float | None
    yes: bool
    quiet: bool
    tune: int = 0
    tune_task: str | None = None


def go(order: Order) -> None:
    """Estimate, ask, run, report, and leave with an exit code that says how it went."""
    from reground.app import catalogue
    from reground.app.evaluating import settings_by_method
    from reground.evaluation.tasks import load_task

    console, err = common.consoles()
    for spec in filter(None, (order.model, order.rewriter)):
        catalogue.check_price(spec, order.options, order.budget)
    names = list(dict.fromkeys(cell.method for cell in order.cells))
    catalogue.check_rewriter(order.rewriter, names)
    settings = settings_by_method(order.settings, names)
    task = load_task(order.task, order.data)
    tuning = _tuning_task(order)
    estimates = _estimates(task, order)
    if order.dry_run:
        console.print(_estimate_table(estimates))
        return
    _confirm(err, estimates, order)
    _spare_the_collector()
    result = asyncio.run(_run(task, tuning, order, settings, err))
    _finish(console, err, order, result)


def _tuning_task(order: Order) -> Task | None:
    """The training split that sizes are chosen on: the one named, else the task's own. Its questions are never measured."""
    from reground.evaluation.splits import SUFFIX
    from reground.evaluation.tasks import load_training_task, task_names

    if not order.tune:
        return None
    own = order.task + SUFFIX
    name = order.tune_task or (own if own in task_names() else order.task)
    return load_training_task(name, order.data)


def _spare_the_collector() -> None:
    """Thousands of calls make many objects and few cycles: with the default thresholds collecting took a fifth of the client's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def _run(
    task: Task, tuning: Task | None, order: Order, settings: dict[str, dict[str, object]], err: Console
) -> CompareResult:
    from reground.app import catalogue
    from reground.app.asking import close
    from reground.app.cli.ask import _bring_model
    from reground.app.cli.progress import AskProgress
    from reground.app.evaluating import judged, open_bench

    async with AsyncExitStack() as opened:
        with AskProgress(err, shown=not order.quiet) as preparing:
            models: dict[str, LanguageModel] = {}
            for role, name in {"model": order.model, "judge": order.judge, "rewriter": order.rewriter}.items():
                if name is not None:
                    await asyncio.to_thread(_bring_model, name, preparing.on_pull)
                    load = catalogue.load_rewriter if role == "rewriter" else catalogue.load_model
                    models[role] = load(name, order.options)
                    opened.push_async_callback(close, models[role])
            settings = await with_critics(settings, order.options, opened, preparing)
            benches = []
            for each in filter(None, (task, tuning)):
                bench = await open_bench(
                    opened.enter_context(judged(each, models.get("judge"), order.out)),
                    models["model"],
                    list(dict.fromkeys(cell.method for cell in order.cells)),
                    corpus=order.corpus,
                    options=order.options,
                    settings=settings,
                    sandbox=order.sandbox,
                    judge=order.judge,
                    rewriter=models.get("rewriter"),
                    language=order.language,
                    on_index=preparing.on_index,
                    on_report=preparing.on_report,
                )
                opened.push_async_callback(close, bench.retriever)
                benches.append(bench)
        chosen = await _tune(benches[1], order, err) if tuning is not None else {}
        return await _run_cells(replace(benches[0], tuned=chosen), order, err)


async def _tune(bench: Bench, order: Order, err: Console) -> dict[Cell, int]:
    """The size of each method that does best on the tuning questions, with progress."""
    from reground.app.cli.eval_progress import EvalProgress, Work
    from reground.evaluation.tuning import tune

    candidates = {cell: bench.candidates(cell, order.base, order.budget) for cell in order.cells}
    trials = [
        (cell, index) for cell, several in candidates.items() if len(several) > 1 for index in range(len(several))
    ]
    works = [Work(cell, min(order.tune, len(bench.task.examples()))) for cell, _ in trials]
    with EvalProgress(err, works, shown=not order.quiet) as progress:
        return await tune(
            bench.task,
            candidates,
            order.out,
            questions=order.tune,
            sandbox=bench.sandbox,
            observer=lambda cell, index, now: progress.on_progress(trials.index((cell, index)), now),
        )


async def with_critics(
    settings: Mapping[str, Mapping[str, object]], options: ModelOptions, opened: AsyncExitStack, preparing: AskProgress
) -> dict[str, dict[str, object]]:
    """Every method's settings, with critics that have a model of their own opened."""
    from reground.app.asking import critic_model, open_critics
    from reground.app.cli.ask import _bring_model

    for named in filter(None, map(critic_model, settings.values())):
        await asyncio.to_thread(_bring_model, named, preparing.on_pull)
    return {method: open_critics(own, options, opened) for method, own in settings.items()}


async def _run_cells(bench: Bench, order: Order, err: Console) -> CompareResult:
    from reground.app.cli.eval_progress import EvalProgress, Work
    from reground.evaluation.compare import CompareResult, compare
    from reground.evaluation.runner import choose, evaluate

    configured = {cell: bench.configure(cell, order.base, order.budget) for cell in order.cells}
    runs = len(choose(bench.task, order.base)) * order.base.repeats
    with EvalProgress(err, [Work(cell, runs) for cell in order.cells], shown=not order.quiet) as progress:
        if not order.single:
            return await compare(
                bench.task,
                order.cells,
                bench.method,
                configured.__getitem__,
                order.out,
                baseline=order.baseline,
                sandbox=bench.sandbox,
                observer=progress.on_progress,
            )
        (cell,) = order.cells
        run = await evaluate(
            bench.task,
            bench.method(cell),
            configured[cell],
            order.out,
            sandbox=bench.sandbox,
            observer=lambda now: progress.on_progress(0, now),
        )
        return CompareResult({cell.label: run})


def _finish(console: Console, err: Console, order: Order, result: CompareResult) -> None:
    for notice in (notice for run in result.runs.values() for notice in run.notices):
        err.print(f"note: {notice}", soft_wrap=True)
    if result.runs:
        print_report(console, [order.out], order.out, None if order.single else order.baseline, None)
    for refusal in result.refused:
        err.print(f"{refusal.cell.label} was not run: {refusal.why}", soft_wrap=True)
    failed = sum(run.summary.failed for run in result.runs.values())
    if failed:
        err.print(f"{failed} questions failed and are not in the means: --retry-failed runs them again", soft_wrap=True)
    if failed or result.refused:
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


def print_report(console: Console, folders: Sequence[Path], out: Path, baseline: str | None, by: str | None) -> None:
    """Write the report, and print its tables and notes."""
    from reground.evaluation.report import build_reports, write_report

    reports = build_reports(folders, baseline=baseline, by=by)
    files = write_report(reports, out)
    for one in reports:
        for table in one.tables:
            console.print(table.terminal())
        for note in one.notes:
            console.print(f"- {note}", style="dim", soft_wrap=True, markup=False)
    console.print(f"written: {', '.join(str(file) for file in files)}", soft_wrap=True, markup=False)


def _estimates(task: Task, order: Order) -> list[Estimate]:
    from reground.evaluation.estimate import estimate
    from reground.evaluation.results import read_run
    from reground.evaluation.runner import choose

    examples, found = choose(task, order.base), []
    price = order.options.price
    for cell in order.cells:
        folder = order.out if order.single else order.out / cell.label
        done = list(read_run(folder).records().values()) if (folder / "config.json").is_file() else []
        found.append(
            estimate(
                cell.label,
                examples,
                repeats=order.base.repeats,
                budget=cell.tokens,
                done=done,
                instruction=task.form.instruction,
                usd=None if price is None else price.usd,
                speed=order.speed,
                concurrency=order.base.concurrency,
            )
        )
    return found


def _estimate_table(estimates: Sequence[Estimate]) -> Any:
    from rich.table import Table

    from reground.app.cli.eval_progress import human_time
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
            "–" if one.seconds is None else human_time(one.seconds),
            f"{one.measured} measured" if one.measured else "bounds",
        )
    table.caption = (
        "bounds: from one short call a question to the whole budget. – is unknown: no budget, --price or --speed."
    )
    table.caption_justify = "left"
    return table


def _confirm(err: Console, estimates: Sequence[Estimate], order: Order) -> None:
    """Ask before real money is spent; only a known price can be asked about."""
    from reground.core.errors import ConfigurationError
    from reground.evaluation.estimate import total

    whole = total(estimates)
    usd = whole.usd_high if whole.usd_high is not None else whole.usd_low
    if order.yes or usd is None or usd <= CONFIRM_USD:
        return
    err.print(_estimate_table(estimates))
    if not err.is_terminal:
        raise ConfigurationError(f"this may cost {usd:.2f} USD: give --yes to go on, or --dry-run to see why")
    if not typer.confirm(f"This may cost {usd:.2f} USD. Go on?", err=True):
        raise typer.Exit(0)

"""`reground compare`: methods at the same budgets; or the papers' tables, measured with the user's model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reground.app.cli import _common as common
from reground.app.cli.codes import EXIT_FAILED_QUESTIONS
from reground.app.cli.config import ConfigFile
from reground.app.cli.eval import (
    DEFAULT_LIMIT,
    Job,
    check_task,
    confirm,
    estimate_table,
    estimates,
    go,
    run_job,
    slug,
    tell_what_failed,
)
from reground.app.cli.flags import everyday, flattened
from reground.app.options import Quiet
from reground.app.options_evaluation import Compare

if TYPE_CHECKING:
    from rich.console import Console

    from reground.evaluation.claims import Claim
    from reground.evaluation.task import Task


Experiment = tuple["Claim", "Task", Job]


BUDGETS = "1k,2k,4k"


@everyday(
    *("task", "questions", "corpus", "methods", "model", "budgets", "tune", "baseline", "settings"),
    *("limit", "repeats", "seed", "out", "dry_run"),
)
@flattened
def compare(order: Compare, voice: Quiet, config: ConfigFile = None) -> None:
    """Compare methods at the same token budgets, each scaled up to them, and write report.md with a plot.

    A method runs with its own settings or in its largest size that is expected to fit, and the budget ends what does
    not. With --tune N it runs in the size that did best on N questions of a training split, which may use less.

    A setting applies to every method that has it (--set max_tokens=2048), or to a single one: --set rar.k=3. The same
    command resumes an interrupted run. You can add methods and budgets to the same folder later. Exit code 3: some
    questions failed.

    --preset paper-claims repeats the tables of the papers with your model, and puts their figures beside yours.

    Example:  reground compare --task hotpotqa --methods direct,cot,rag,rar --budgets 1k,2k,4k --dry-run
    """
    from reground.app.catalogue import named
    from reground.core.errors import ConfigurationError
    from reground.evaluation.compare import cells_of, parse_budgets

    if order.preset is not None:
        if order.questions is not None:
            raise ConfigurationError("a preset has questions of its own: leave out --questions")
        if order.format != "text":
            raise ConfigurationError(
                "--format is for one comparison: a preset leaves report.json and report.md in the folder of each"
            )
        try_claims(order, quiet=voice.quiet)
        return
    check_task(order)
    names = [named(name) for name in common.listed(order.methods)]
    baseline = named(order.baseline) if order.baseline is not None else next(iter(names), None)
    if baseline not in names:
        raise ConfigurationError("--methods names the methods, the baseline among them")
    out = order.out or Path("runs") / slug("compare", order.task, order.model)
    cells = cells_of(names, parse_budgets(order.budgets or BUDGETS))
    go(Job(order, cells, out, baseline, voice.quiet, order.tune, order.tune_task))


def try_claims(order: Compare, *, quiet: bool) -> None:
    """Estimate, ask, run each claim's comparison, and put published figures beside the measured ones.

    A claim that cannot be tried here is named with the reason, and the others are. Raises typer.Exit if one was not
    tried, or if questions failed.
    """
    from reground.app import catalogue
    from reground.evaluation.claims import chosen
    from reground.evaluation.scaling import total

    console, err = common.consoles()
    catalogue.check_price(order.model, order.model_options, order.budget)
    with err.status("reading the benchmarks and counting what the methods ask") if not quiet else nullcontext():
        ready, lacking = _experiments(order, chosen(order.preset or ""), quiet=quiet)
        costs = [replace(total(estimates(task, job)), label=claim.name) for claim, task, job in ready]
    for line in lacking:
        common.say(err, line)
    if order.dry_run:
        console.print(estimate_table(costs))
        return
    confirm(err, costs, sure=order.yes)
    whole = not lacking
    for claim, task, job in ready:
        whole = _run_claim(claim, task, job, err) and whole
    _report_claims(console, [(claim, job) for claim, _, job in ready], _folder(order))
    if not whole:
        raise typer.Exit(EXIT_FAILED_QUESTIONS)


def _folder(order: Compare) -> Path:
    return order.out or Path("runs") / slug(order.preset or "", order.model)


def _experiments(order: Compare, claims: Sequence[Claim], *, quiet: bool) -> tuple[list[Experiment], list[str]]:
    """What can be tried, and why the rest cannot."""
    from reground.core.errors import RegroundError
    from reground.evaluation.compare import cells_of, parse_budgets
    from reground.evaluation.data import data_root
    from reground.evaluation.tasks import load_task
    from reground.evaluation.tasks.longform import METRIC

    ready: list[Experiment] = []
    lacking = []
    for claim in claims:
        try:
            own = replace(
                order,
                task=claim.task.replace("{data}", str(data_root(order.data)) if "{data}" in claim.task else ""),
                ids=claim.ids,
                limit=DEFAULT_LIMIT if order.limit is None else order.limit,
                repeats=max(order.repeats, claim.repeats),
                settings={**claim.settings, **_settings_of(order, claim)},
                judge=order.judge if METRIC in claim.metrics else None,
            )
            task = load_task(own.task, order.data)
            if getattr(task, "corpus", None) is not None:
                own = replace(own, corpus=None)
            _check_claim(claim, own, task)
        except RegroundError as error:
            lacking.append(f"{claim.name} cannot be tried: {error}")
            continue
        cells = claim.cells
        if order.budgets is not None:
            cells = cells_of([cell.method for cell in cells], parse_budgets(order.budgets))
        ready.append((claim, task, Job(own, cells, _folder(order) / claim.name, claim.baseline, quiet)))
    return ready, lacking


def _check_claim(claim: Claim, order: Compare, task: Task) -> None:
    """Raise ConfigurationError where documents or a judge are needed and not given."""
    from reground.app.catalogue import fields_of
    from reground.core.errors import ConfigurationError
    from reground.evaluation.tasks.longform import METRIC

    searching = any("retriever" in fields_of(cell.method) for cell in claim.cells)
    if searching and order.corpus is None and getattr(task, "corpus", None) is None:
        raise ConfigurationError(f"{task.name} has no documents of its own to search: --corpus DIR")
    if METRIC in claim.metrics and order.judge is None:
        raise ConfigurationError("its answers are rated by a model: --judge PROVIDER/MODEL")


def _settings_of(order: Compare, claim: Claim) -> dict[str, object]:
    """The user's settings, less those of methods that the claim does not compare."""
    methods = {cell.method for cell in claim.cells}
    return {key: value for key, value in order.settings.items() if "." not in key or key.partition(".")[0] in methods}


def _run_claim(claim: Claim, task: Task, job: Job, err: Console) -> bool:
    """Run one comparison. Returns whether all of it ran without a failed question."""
    from reground.core.errors import RegroundError

    err.print(f"{claim.name}: {'; '.join(claim.sources)}", soft_wrap=True)
    try:
        result = asyncio.run(run_job([task], job, err))
    except RegroundError as error:
        common.say(err, f"{claim.name} was not tried: {error}")
        return False
    return tell_what_failed(err, result)


def _report_claims(console: Console, tried: Sequence[tuple[Claim, Job]], out: Path) -> None:
    """Write each comparison's report and claims.md; print the claims' tables."""
    from reground.evaluation.claims import claim_tables
    from reground.evaluation.report import build_reports, write_report
    from reground.evaluation.results import write_text

    found = []
    for claim, job in tried:
        if not any(job.out.glob("*/config.json")):
            continue  # it ended before its first question
        reports = build_reports([job.out])
        write_report(reports, job.out)
        found += [(claim, report.rows) for report in reports]
    if not found:
        return
    tables = claim_tables(found)
    for table in tables:
        console.print(table.terminal())
    sources = "\n".join(f"- {claim.name}: {'; '.join(claim.sources)}" for claim, _ in found)
    write_text(out / "claims.md", "\n\n".join([
        "# Claims of the papers", *(table.markdown() for table in tables), f"## Sources\n\n{sources}",
    ]) + "\n")  # fmt: skip
    console.print(f"written: {out / 'claims.md'}", soft_wrap=True, markup=False)

"""`reground compare`: methods at the same budgets; or the papers' tables, measured with the user's model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import typer

from reground.app import catalogue
from reground.app.cli.console import consoles, listed, note, print_tables, say
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
from reground.app.cli.flags import ConfigFile, Quiet, flattened
from reground.app.options import Compare
from reground.core.errors import EXIT_FAILED_QUESTIONS, ConfigurationError, RegroundError
from reground.evaluation.claims import Claim, claim_tables, claims_of
from reground.evaluation.compare import cells_of, parse_budgets
from reground.evaluation.data import data_root
from reground.evaluation.report import build_reports, write_report
from reground.evaluation.results import write_text
from reground.evaluation.scaling import total
from reground.evaluation.task import Task
from reground.evaluation.tasks import load_task
from reground.evaluation.tasks.longform import METRIC

Experiment = tuple[Claim, Task, Job]

BUDGETS = "1k,2k,4k"


@flattened(
    *("task", "questions", "corpus", "methods", "model", "budgets", "baseline", "settings"),
    *("limit", "repeats", "seed", "out", "dry_run"),
)
def compare(options: Compare, quiet: Quiet = False, config: ConfigFile = None) -> None:
    """Compare methods at the same token budgets, each scaled up to them, and write report.md with a plot.

    A method runs with its own settings or in its largest size that is expected to fit, and the budget ends what does
    not.

    A setting applies to every method that has it (--set max_tokens=2048), or to a single one: --set rar.k=3. The same
    command resumes an interrupted run. You can add methods and budgets to the same folder later. Exit code 3: some
    questions failed.

    --preset paper-claims repeats the tables of the papers with your model, and puts their figures beside yours.

    Example:  reground compare --task hotpotqa --methods direct,cot,rag,rar --budgets 1k,2k,4k --dry-run
    """
    if options.preset is not None:
        return try_claims(options, options.preset, quiet=quiet)
    check_task(options)
    names = [catalogue.method(name).name for name in listed(options.methods)]
    baseline = catalogue.method(options.baseline).name if options.baseline is not None else next(iter(names), None)
    if baseline not in names:
        raise ConfigurationError("--methods names the methods, the baseline among them")
    out = options.out or Path("runs") / slug("compare", options.task, options.model)
    return go(Job(options, cells_of(names, parse_budgets(options.budgets or BUDGETS)), out, baseline, quiet))


def try_claims(options: Compare, preset: str, *, quiet: bool) -> None:
    """Estimate, ask, run each claim's comparison, and put published figures beside the measured ones.

    A claim that cannot be tried here is named with the reason, and the others are. Raises typer.Exit if one was not
    tried, or if questions failed.
    """
    if options.questions is not None:
        raise ConfigurationError("a preset has questions of its own: leave out --questions")
    if options.format != "text":
        raise ConfigurationError(
            "--format is for one comparison: a preset leaves report.json and report.md in the folder of each"
        )
    console, err = consoles()
    out = options.out or Path("runs") / slug(preset, options.model)
    catalogue.check_budget(options.model, options.model_options, options.budget)
    whole = True
    ready: list[Experiment] = []
    with err.status("reading the benchmarks and counting what the methods ask") if not quiet else nullcontext():
        for claim in claims_of(preset):
            try:
                ready.append(_experiment(options, claim, out / claim.name, quiet=quiet))
            except RegroundError as error:
                note(f"{claim.name} cannot be tried: {error}")
                whole = False
        costs = [replace(total(estimates(task, job)), label=claim.name) for claim, task, job in ready]
    if options.dry_run:
        return console.print(estimate_table(costs))
    confirm(costs, sure=options.yes)
    for claim, task, job in ready:
        note(f"{claim.name}: {'; '.join(claim.sources)}")
        try:
            result = asyncio.run(run_job(task, job))
        except RegroundError as error:
            note(f"{claim.name} was not tried: {error}")
            whole = False
        else:
            whole = tell_what_failed(result) and whole
    _report_claims(ready, out)
    if not whole:
        raise typer.Exit(EXIT_FAILED_QUESTIONS)
    return None


def _experiment(options: Compare, claim: Claim, out: Path, *, quiet: bool) -> Experiment:
    """A claim's comparison. Raises RegroundError where data, documents or a judge are needed and not given."""
    methods = {cell.method for cell in claim.cells}
    settings = {k: v for k, v in options.settings.items() if "." not in k or k.partition(".")[0] in methods}
    own = replace(
        options,
        task=claim.task.replace("{data}", str(data_root(options.data)) if "{data}" in claim.task else ""),
        ids=claim.ids,
        limit=DEFAULT_LIMIT if options.limit is None else options.limit,
        repeats=max(options.repeats, claim.repeats),
        settings={**claim.settings, **settings},
        judge=options.judge if METRIC in claim.metrics else None,
    )
    task = load_task(own.task, options.data)
    if getattr(task, "corpus", None) is not None:
        own = replace(own, corpus=None)
    elif own.corpus is None and any("retriever" in catalogue.method(method).fields for method in methods):
        raise ConfigurationError(f"{task.name} has no documents of its own to search: --corpus DIR")
    if METRIC in claim.metrics and own.judge is None:
        raise ConfigurationError("its answers are rated by a model: --judge PROVIDER/MODEL")
    cells = claim.cells
    if options.budgets is not None:
        cells = cells_of([cell.method for cell in cells], parse_budgets(options.budgets))
    return claim, task, Job(own, cells, out, claim.baseline, quiet)


def _report_claims(ready: Sequence[Experiment], out: Path) -> None:
    """Write each comparison's report and claims.md; print the claims' tables."""
    results = []
    for claim, _, job in ready:
        if not any(job.out.glob("*/config.json")):
            continue  # it ended before its first question
        reports = build_reports([job.out])
        write_report(reports, job.out)
        results += [(claim, report.rows) for report in reports]
    if not results:
        return
    tables = claim_tables(results)
    print_tables(*tables)
    sources = "\n".join(f"- {claim.name}: {'; '.join(claim.sources)}" for claim, _ in results)
    parts = ["# Claims of the papers", *(table.markdown() for table in tables), f"## Sources\n\n{sources}"]
    write_text(out / "claims.md", "\n\n".join(parts) + "\n")
    say(f"written: {out / 'claims.md'}")

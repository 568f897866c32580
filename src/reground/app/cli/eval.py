"""`reground eval`, `reground compare` and `reground report`: methods on benchmarks, at equal cost."""

from __future__ import annotations

from pathlib import Path

import typer

from reground.app.cli import _common as common
from reground.app.cli.config import ConfigFile
from reground.app.cli.eval_claims import try_claims
from reground.app.cli.eval_job import Job, slug
from reground.app.cli.eval_run import go, print_report
from reground.app.cli.flags import everyday, flattened
from reground.app.options import Quiet
from reground.app.options_evaluation import Compare, Evaluate, Measuring, Report

BUDGETS = "1k,2k,4k"


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

    _check_task(order)
    (cell,) = cells_of([named(order.method)], [order.budget.tokens])
    out = order.out or Path("runs") / slug(order.task, cell.label, order.model)
    go(Job(order, [cell], out, quiet=voice.quiet))


def _check_task(order: Measuring) -> None:
    from reground.core.errors import ConfigurationError

    if not order.task:
        presets = " (or --preset paper-claims for the papers' tables)" if isinstance(order, Compare) else ""
        raise ConfigurationError(f"name what to measure on: --task NAME, or --questions FILE of your own{presets}")


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
    _check_task(order)
    names = [named(name) for name in common.listed(order.methods)]
    baseline = named(order.baseline) if order.baseline is not None else next(iter(names), None)
    if baseline not in names:
        raise ConfigurationError("--methods names the methods, the baseline among them")
    out = order.out or Path("runs") / slug("compare", order.task, order.model)
    cells = cells_of(names, parse_budgets(order.budgets or BUDGETS))
    go(Job(order, cells, out, baseline, voice.quiet, order.tune, order.tune_task))


@flattened
def report(order: Report) -> None:
    """Write the report on finished or unfinished runs again, even of several models. This calls no model.

    Example:  reground report runs/small-model runs/large-model --out runs/both
    """
    console, _ = common.consoles()
    out = order.out or order.folders[0]
    print_report(console, order.folders, out, order, baseline=order.baseline, by=order.by)


def register(cli: typer.Typer) -> None:
    """Add the commands of this file."""
    cli.command("eval")(evaluate)
    cli.command()(compare)
    cli.command()(report)

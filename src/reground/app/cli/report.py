"""`reground report`: the results of runs, in tables, with a plot and in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reground.app.cli import _common as common
from reground.app.cli.flags import flattened
from reground.app.options_evaluation import Report as Options

if TYPE_CHECKING:
    from rich.console import Console

    from reground.app.options_evaluation import Results
    from reground.evaluation.report import Report


@flattened
def report(order: Options) -> None:
    """Write the report on finished or unfinished runs again, even of several models. This calls no model.

    Example:  reground report runs/small-model runs/large-model --out runs/both
    """
    console, _ = common.consoles()
    out = order.out or order.folders[0]
    print_report(console, order.folders, out, order, baseline=order.baseline, by=order.by)


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

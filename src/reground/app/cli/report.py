"""`reground report`: the results of runs, in tables, with a plot and in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reground.app.cli.console import consoles, print_json, say
from reground.app.cli.flags import flattened
from reground.app.options import Report
from reground.evaluation.report import as_data, as_markdown, build_reports, write_report


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
        for table in each.tables:
            console.print(table.terminal())
        for text in each.notes:
            console.print(f"- {text}", style="dim", soft_wrap=True, markup=False)
    say(f"written: {', '.join(map(str, files))}")
    for each in reports:
        if each.verdict is not None:
            console.print(f"\n{each.verdict.text}", style="bold", markup=False, soft_wrap=not console.is_terminal)
    return None

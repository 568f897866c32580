"""The report as one HTML page that needs no other file and no network, and is readable in light and dark."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from reground.evaluation.tables import Report, Table

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --line: #d0d0d0; --soft: #5a5a5a; --mark: #f2f6fb; }
@media (prefers-color-scheme: dark) {
  :root { --page: #121212; --line: #474747; --soft: #b0b0b0; --mark: #1d2733; }
}
:root { background: var(--page); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
.verdict { background: var(--mark); border-left: 4px solid #0072b2; padding: .8rem 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
.number { text-align: right; }
img { max-width: 100%; box-sizing: border-box; background: #fff; padding: .5rem; border-radius: 6px; }
.notes { color: var(--soft); font-size: .9rem; }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What the page may load: nothing but what stands in it."""


def as_html(reports: Sequence[Report]) -> str:
    """The reports as a page, with the plots that were drawn. All text is escaped, and the page may load nothing."""
    title = escape(", ".join(report.task for report in reports))
    parts = "\n".join(_report(report) for report in reports)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{parts}\n</body>\n</html>"
    )


def _report(report: Report) -> str:
    models = escape(", ".join(dict.fromkeys(row.config.model for row in report.rows)))
    questions = max(row.summary.questions for row in report.rows)
    head = f"<h1>{escape(report.task)}</h1>\n<p>Model: {models}. Questions: {questions}. "
    found = "" if report.verdict is None else f'<p class="verdict">{escape(report.verdict.text)}</p>'
    tables = "\n".join(_table(table) for table in report.tables)
    plots = "\n".join(_picture(file) for file in report.plots if file.suffix == ".svg")
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in report.notes)
    return (
        f"{head}Baseline: {escape(report.baseline)}.</p>\n{found}\n{tables}\n{plots}\n"
        f'<h2>Notes</h2>\n<ul class="notes">\n{notes}</ul>'
    )


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_kind(table, place)}>{escape(cell)}</th>' for place, cell in enumerate(table.headers)
    )
    rows = "\n".join(
        "<tr>" + "".join(f"<td{_kind(table, place)}>{escape(cell)}</td>" for place, cell in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    title = escape(table.title)
    return (
        f'<h2>{title}</h2>\n<div class="wide" role="region" aria-label="{title}" tabindex="0"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _kind(table: Table, place: int) -> str:
    return ' class="number"' if place >= table.words else ""


def _picture(file: Path) -> str:
    """A plot within the page. An image runs no script, whatever its file holds."""
    data = base64.b64encode(file.read_bytes()).decode()
    return f'<p><img alt="{escape(file.stem.replace("-", " "))}" src="data:image/svg+xml;base64,{data}"></p>'

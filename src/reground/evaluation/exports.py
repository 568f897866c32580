"""The report as Markdown for people, as JSON for programs, and as CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from reground.evaluation.costs import cost_of
from reground.evaluation.tables import Report, Row, run_names

FORMAT = 1


def as_markdown(report: Report, plots: Sequence[str] = ()) -> str:
    """One task's report. plots: the addresses of its pictures, none by default."""
    models = ", ".join(dict.fromkeys(row.config.model for row in report.rows))
    questions = max(row.summary.questions for row in report.rows)
    head = f"# {report.task}\n\nModel: {models}. Questions: {questions}. Baseline: {report.baseline}."
    found = "" if report.verdict is None else f"## Verdict\n\n{report.verdict.text}"
    pictures = "\n\n".join(f"![{Path(file).stem.replace('-', ' ')}]({file})" for file in plots)
    notes = "## Notes\n\n" + "\n".join(f"- {note}" for note in report.notes)
    parts = (head, found, *(table.markdown() for table in report.tables), pictures, notes)
    return "\n\n".join(part for part in parts if part)


def as_data(reports: Sequence[Report]) -> dict[str, JsonValue]:
    """The reports as one object for JSON, with every number unrounded. Costs are a question's mean."""
    return {"format": FORMAT, "reports": [_report(each) for each in reports]}


def as_json(reports: Sequence[Report]) -> str:
    """The reports as JSON text."""
    return json.dumps(as_data(reports), ensure_ascii=False, indent=2)


def as_csv(reports: Sequence[Report]) -> str:
    """A line for each run: its score, its difference from the baseline, its cost, and the means of its other metrics.

    Numbers are unrounded; what is not known is empty.
    """
    return csv_text(_line(report, name, row) for report in reports for name, row in _named(report))


def csv_text(lines: Iterable[Mapping[str, JsonValue]]) -> str:
    """Lines as CSV, with a column for every key; text that a spreadsheet would take for a formula cannot act."""
    lines = list(lines)
    headers = dict.fromkeys(header for line in lines for header in line)
    text = io.StringIO()
    writer = csv.DictWriter(text, headers, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in line.items()} for line in lines)
    return text.getvalue().rstrip("\n")


def _named(report: Report) -> list[tuple[str, Row]]:
    return list(zip(run_names(report.rows), report.rows, strict=True))


def _line(report: Report, name: str, row: Row) -> dict[str, JsonValue]:
    run, metric = _run(name, row), row.primary
    against = _against(row) or {}
    verdict = report.verdict
    return {
        "task": report.task,
        "run": name,
        **{key: run[key] for key in ("method", "budget", "model", "finished", "questions", "repeats")},
        "metric": row.summary.primary,
        **metric.model_dump(include={"mean", "low", "high", "scored", "unscored", "failed"}),
        "baseline": report.baseline,
        **{
            f"difference {key}".replace(" mean", ""): against.get(key) for key in ("mean", "low", "high", "p", "p_holm")
        },
        **{key: run[key] for key in ("calls", "prompt", "cached", "completion", "tokens", "seconds", "usd")},
        "undominated": " ".join(row.undominated),
        "choice": verdict is not None and verdict.choice == name,
        **{f"mean of {key}": each.mean for key, each in row.summary.metrics.items() if key != row.summary.primary},
    }


def _cell(value: JsonValue) -> JsonValue:
    """A cell; text that a spreadsheet would take for a formula gets an apostrophe before it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _report(report: Report) -> dict[str, JsonValue]:
    return {
        "task": report.task,
        "metric": report.rows[0].summary.primary,
        "baseline": report.baseline,
        "verdict": None if report.verdict is None else report.verdict.model_dump(mode="json"),
        "runs": [_run(name, row) for name, row in _named(report)],
        "notes": list(report.notes),
    }


def _run(name: str, row: Row) -> dict[str, JsonValue]:
    config, summary, runs = row.config, row.summary, max(1, row.summary.runs)
    cost, usage = cost_of(summary), summary.usage
    return {
        "label": name,
        "method": config.method,
        "budget": config.budget.tokens,
        "model": config.model,
        "settings": dict(config.settings),
        "finished": summary.finished,
        "questions": summary.questions,
        "repeats": summary.repeats,
        "failed": summary.failed,
        "cut_short": sum(summary.stopped.values()),
        "metrics": {key: metric.model_dump(mode="json") for key, metric in summary.metrics.items()},
        "against_baseline": _against(row),
        "calls": usage.calls / runs,
        "prompt": usage.prompt / runs,
        "cached": usage.cached / runs,
        "completion": usage.completion / runs,
        "tokens": cost.tokens,
        "seconds": cost.seconds,
        "usd": cost.usd,
        "undominated": list(row.undominated),
    }


def _against(row: Row) -> dict[str, JsonValue] | None:
    found = row.comparison
    if found is None:
        return None
    difference = found.difference.model_dump(mode="json")
    return {**difference, "p": found.p, "p_holm": row.adjusted, "questions": found.questions}

"""The report on one or more runs: tables, plots, notes and a verdict."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from reground.core.errors import ConfigurationError, MissingExtra, did_you_mean
from reground.evaluation.compare import Plan, Refusal, read_plan
from reground.evaluation.costs import MEASURES, Measure, cost_of
from reground.evaluation.exports import as_json, as_markdown
from reground.evaluation.front_plot import Dot, plot_fronts
from reground.evaluation.pareto import undominated
from reground.evaluation.plots import Point, plot
from reground.evaluation.results import RunFolder, find_runs, write_text
from reground.evaluation.statistics import bootstrap_interval, compare, holm
from reground.evaluation.summary import question_scores, summarise
from reground.evaluation.tables import (
    Report,
    Row,
    cost_table,
    difference_table,
    group_table,
    label,
    metrics_table,
    number,
    repeats_table,
    run_names,
    score_table,
    stage_table,
    without,
)
from reground.evaluation.tasks.longform import METRIC
from reground.evaluation.tuning import read_tuning
from reground.evaluation.verdict import Candidate, Verdict, verdict

DEFAULT_BASELINE = "direct"


def build_reports(paths: Sequence[Path], *, baseline: str | None = None, by: str | None = None) -> list[Report]:
    """Read run folders, or folders that contain some, and report on each task. by: a metadata field to group by.

    Raises DataError for a folder without a run or with a broken one, ConfigurationError for an unknown baseline or
    field.
    """
    rows = [_row(folder) for folder in find_runs(list(paths))]
    plans = [plan for path in paths if (plan := read_plan(path)) is not None]
    tunings = [tuning for path in paths if (tuning := read_tuning(path)) is not None]
    names = {row.config.method for row in rows}
    if baseline is not None and baseline not in names:
        baseline = baseline.replace("-", "_")
    if baseline is not None and baseline not in names:
        raise ConfigurationError(f"the baseline {baseline!r} has no run here; there are {', '.join(sorted(names))}")
    _check_field(by, rows)
    reports = [
        replace(_report(task, several, baseline, plans, by), part=part)
        for task in dict.fromkeys(row.config.task for row in rows)
        for part, several in _by_metric([row for row in rows if row.config.task == task])
    ]
    for report in reports:
        labels = {label(row.config) for row in report.rows}
        report.notes += [c.describe() for tuning in tunings for c in tuning.choices if c.cell.label in labels]
    return reports


def write_report(reports: Sequence[Report], out: Path) -> list[Path]:
    """Write report.md, report.json and plots into `out`. Returns the files; without matplotlib the report says so."""
    out.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    parts = []
    for report in reports:
        try:
            report.plots = draw(report, out)
        except MissingExtra as error:
            report.notes.append(f"No plots: {error}")
        files += report.plots
        shown = [os.path.relpath(file, out) for file in report.plots if file.suffix == ".svg"]
        parts.append(as_markdown(report, shown))
    text, data = out / "report.md", out / "report.json"
    write_text(text, "\n\n".join(parts) + "\n")
    write_text(data, as_json(reports) + "\n")
    return [text, data, *files]


def draw(report: Report, out: Path) -> list[Path]:
    """The plots: score against tokens and against USD, by method, and by model where there are several; and the runs
    that none dominates."""
    points = [point for row in report.rows if (point := _point(row)) is not None]
    files: list[Path] = []
    axes: list[Literal["tokens", "usd"]] = ["tokens"]
    if points and all(point.usd for point in points):
        axes.append("usd")
    sides: list[Literal["method", "model"]] = ["method"]
    if len({point.model for point in points}) > 1:
        sides.append("model")
    for x in axes if points else []:
        for by in sides:
            stem = out / f"{_stem(report)}-{x}-by-{by}"
            title = f"{report.task}: {report.rows[0].summary.primary} against {'tokens' if x == 'tokens' else 'USD'}"
            files += plot(points, stem, x=x, by=by, metric=report.rows[0].summary.primary, title=title)
    return [*files, *_draw_fronts(report, out)]


def _row(folder: RunFolder) -> Row:
    records = list(folder.records().values())
    summary = folder.summary()
    if summary is None or summary.runs != len(records):
        summary = summarise(folder.config, records, expected=-1)
    return Row(folder.config, summary, records)


def _check_field(by: str | None, rows: Sequence[Row]) -> None:
    """Refuse a metadata field that no question has."""
    fields = {name for row in rows for record in row.records for name in record.metadata}
    if by is not None and by not in fields and any(row.records for row in rows):
        known = did_you_mean(by, fields) if fields else "these have no fields"
        raise ConfigurationError(f"no question has a field {by!r}; {known}")


def _by_metric(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """The runs that are reported together, because one metric ranks them; with its name where others are apart.

    A run with a judge has another primary metric than one without. One of the primary metrics that all runs have ranks
    them all; without such a metric there is a report for each.
    """
    names = dict.fromkeys(row.summary.primary for row in rows)
    if len(names) == 1:
        return [("", rows)]
    shared = next((name for name in names if all(_has(row, name) for row in rows)), None)
    if shared is None:
        return [(name, [row for row in rows if row.summary.primary == name]) for name in names]
    return [("", [replace(row, summary=row.summary.model_copy(update={"primary": shared})) for row in rows])]


def _has(row: Row, metric: str) -> bool:
    found = row.summary.metrics.get(metric)
    return found is not None and found.mean is not None


def _report(task: str, rows: list[Row], baseline: str | None, plans: Sequence[Plan], by: str | None) -> Report:
    planned = [plan for plan in plans if plan.task == task]
    chosen = baseline or _default_baseline(rows, planned)
    rows = sorted(rows, key=lambda row: _order(row, chosen))
    _compare_all(rows, chosen)
    report = Report(task, rows, chosen)
    report.tables = [
        score_table(rows),
        difference_table(rows, chosen),
        cost_table(rows),
        stage_table(rows),
        metrics_table(rows),
        repeats_table(rows),
    ]
    report.tables = [table for table in report.tables if table.rows]
    if by is not None:
        report.tables.append(group_table(rows, by))
    if len({row.config.model for row in rows}) == 1:
        report.tables = [without(table, "model") for table in report.tables]
    fronts = _mark_undominated(rows)
    report.notes = _notes(rows, [refusal for plan in planned for refusal in plan.refused])
    report.notes += fronts
    report.verdict = _verdict(rows)
    left_out = [label(row.config) for row in rows if not row.summary.finished]
    if report.verdict is not None and left_out:
        report.notes.append(f"The verdict leaves out {', '.join(left_out)}, which is not finished.")
    return report


def _ready(rows: Sequence[Row]) -> list[Row]:
    """The finished runs with a score; none if they are on different questions, or rated by different judges."""
    ready = [row for row in rows if row.summary.finished and row.primary.mean is not None]
    return ready if len({(row.config.data, _judge(row)) for row in ready}) == 1 else []


def _judge(row: Row) -> JsonValue:
    """Who rated the answers, where ratings rank the runs."""
    return row.config.model_settings.get("judge") if row.summary.primary == METRIC else None


def _measures(rows: Sequence[Row]) -> list[Measure]:
    """The measures of cost that all runs have. USD of a model without a price say nothing."""
    return [each for each in MEASURES if each != "usd" or all(cost_of(row.summary).usd for row in rows)]


def _shared(rows: Sequence[Row]) -> list[list[float]]:
    """Each run's scores of the questions that all of them have a score for, as the verdict compares them."""
    scores = [question_scores(row.summary.primary, row.records) for row in rows]
    shared = set.intersection(*map(set, scores)) if scores else set()
    return [[value for question, value in own.items() if question in shared] for own in scores]


def _mark_undominated(rows: Sequence[Row]) -> list[str]:
    """Note in each run the measures of cost in which none dominates it. Returns the report's notes on them."""
    ready = _ready(rows)
    scores = _shared(ready)
    if len(ready) < 2 or not scores[0]:
        return []
    partly = len(scores[0]) < max(row.summary.questions for row in ready)
    on = f", on the {len(scores[0])} questions that all have a score for" if partly else ""
    notes = []
    for measure in _measures(ready):
        points = [(cost_of(row.summary).by(measure) or 0.0, -fsum(own)) for row, own in zip(ready, scores, strict=True)]
        on_front = undominated(points)
        for row, marked in zip(ready, on_front, strict=True):
            row.undominated += (measure,) if marked else ()
        named = [name for name, marked in zip(run_names(ready), on_front, strict=True) if marked]
        counted = "USD" if measure == "usd" else measure
        notes.append(
            f"Counted in {counted}{on}, no run is better for as much, or as good for less, than: {', '.join(named)}."
        )
    return notes


def _verdict(rows: Sequence[Row]) -> Verdict | None:
    """The verdict on the finished runs; None where they are fewer than two, or on different questions."""
    ready = _ready(rows)
    candidates = [
        Candidate(name, question_scores(row.summary.primary, row.records), cost_of(row.summary))
        for name, row in zip(run_names(ready), ready, strict=True)
    ]
    return verdict(candidates, rows[0].summary.primary)


def _draw_fronts(report: Report, out: Path) -> list[Path]:
    rows = _ready(report.rows)
    if len(rows) < 2:
        return []
    dots = []
    for name, row, scores in zip(run_names(rows), rows, _shared(rows), strict=True):
        found = bootstrap_interval(scores)
        if found.mean is None or found.low is None or found.high is None:
            return []
        own = cost_of(row.summary)
        dots.append(Dot(name, row.config.method, found.mean, found.low, found.high, own, row.undominated))
    primary = report.rows[0].summary.primary
    stem = out / f"{_stem(report)}-pareto"
    return plot_fronts(dots, stem, _measures(rows), metric=primary, title=f"{report.task}: {primary} against cost")


def _default_baseline(rows: Sequence[Row], plans: Sequence[Plan]) -> str:
    names = [row.config.method for row in rows]
    wanted = [plan.baseline for plan in plans] + [DEFAULT_BASELINE]
    return next((name for name in wanted if name in names), names[0])


def _order(row: Row, baseline: str) -> tuple[str, float, bool, str]:
    tokens = row.config.budget.tokens
    config = row.config
    return (config.model, float("inf") if tokens is None else tokens, config.method != baseline, config.method)


def _compare_all(rows: Sequence[Row], baseline: str) -> None:
    """Test every run against the baseline's run at the same budget; adjust the p-values for being several."""
    bases = {row.comparable: row for row in rows if row.config.method == baseline}
    compared = []
    for row in rows:
        base = bases.get(row.comparable)
        if base is None or base is row:
            continue
        scores, others = (question_scores(row.summary.primary, r.records) for r in (row, base))
        if scores.keys() & others.keys():
            row.comparison = compare(scores, others)
            compared.append(row)
    adjusted = holm([row.comparison.p for row in compared if row.comparison is not None])
    for row, p in zip(compared, adjusted, strict=True):
        row.adjusted = p


def _notes(rows: Sequence[Row], refused: Sequence[Refusal]) -> list[str]:
    notes = [
        "Means are over scored questions; repeats of a question are averaged first. Intervals are 95 % percentile "
        "bootstrap over questions. An interval of no width says that all questions scored alike, not that the "
        "mean is certain.",
        "Differences are paired, on the questions that both methods have a score for, with a bootstrap interval and a "
        "two-sided sign-flip permutation test; p (Holm) is adjusted for the number of comparisons in the table.",
        "Calls, tokens, USD and seconds are a question's mean, failed ones included; prompt tokens include cached "
        "ones; seconds are wall-clock with other questions in work at the same time.",
    ]
    if any(row.config.primary != row.summary.primary for row in rows):
        notes.append(
            f"Not all runs have the same primary metric: {rows[0].summary.primary}, which all have, ranks them."
        )
    for row in rows:
        notes += _row_notes(row)
    notes += [f"{refusal.cell.label} was not run: {refusal.why}" for refusal in refused]
    if any(row.summary.usage.usd is None for row in rows):
        notes.append("USD is unknown where no price was given (--price).")
    return notes


def _row_notes(row: Row) -> list[str]:
    name, summary, metric = label(row.config), row.summary, row.primary
    notes = []
    if not summary.finished:
        notes.append(f"{name} is not finished: {summary.runs} questions so far.")
    if summary.failed:
        notes.append(
            f"{name}: {summary.failed} of {summary.runs} failed ({_reasons(row)}) and are not in the mean; "
            f"counted as 0, it would be {number(metric.bound)}."
        )
    if metric.unscored:
        whys = {s.why for r in row.records if (s := r.scores.get(summary.primary)) is not None and s.value is None}
        whys |= {record.scoring for record in row.records if record.scoring is not None}
        notes.append(
            f"{name}: {metric.unscored} answered but unscored ({'; '.join(sorted(whys)[:3]) or 'no reason given'})."
        )
    if summary.stopped:
        why = ", ".join(f"{count} by {name}" for name, count in sorted(summary.stopped.items()))
        notes.append(
            f"{name}: the budget ended {sum(summary.stopped.values())} early ({why}); their best answer counts."
        )
    if summary.cut:
        notes.append(
            f"{name}: the last reply of {summary.cut} of {summary.runs} was cut at its length limit; "
            "--set max_tokens=N allows longer ones."
        )
    if summary.repeats > 1:
        notes.append(
            f"{name}: {summary.repeats} repeats gave the same short answer for {summary.same_repeats} of "
            f"{summary.questions} questions."
        )
    return notes


def _reasons(row: Row, most: int = 3) -> str:
    """Why questions failed: the number of each error. Errors that differ only in numbers count as one."""
    kinds: dict[str, list[str]] = {}
    for record in row.records:
        if record.failure is not None:
            said = f"{record.failure.type}: {' '.join(record.failure.message.split())}"
            said = "".join(c if c.isprintable() else " " for c in said)
            kinds.setdefault(re.sub(r"\d+", "0", said), []).append(said if len(said) <= 200 else said[:197] + "...")
    ranked = sorted(kinds.values(), key=len, reverse=True)
    rest = sum(map(len, ranked[most:]))
    return "; ".join(f"{len(each)} x {each[0]}" for each in ranked[:most]) + (f"; {rest} others" if rest else "")


def _point(row: Row) -> Point | None:
    metric, summary = row.primary, row.summary
    if metric.mean is None or metric.low is None or metric.high is None:
        return None
    config, cost = row.config, cost_of(summary)
    return Point(config.method, config.model, cost.tokens, cost.usd, metric.mean, metric.low, metric.high)


def _stem(report: Report) -> str:
    """The beginning of its files' names: two reports of one task have different ones."""
    return _slug(f"{report.task} {report.part}")


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")

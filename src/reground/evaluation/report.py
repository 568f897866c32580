"""The report on one or more runs: tables, a plot, notes and a verdict, as Markdown and as JSON."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import sub
from pathlib import Path
from textwrap import shorten
from typing import Any

from pydantic import JsonValue
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from reground.core.errors import ConfigurationError, MissingExtra, did_you_mean
from reground.evaluation.compare import Plan, budget_label, read_plan
from reground.evaluation.results import (
    MetricSummary,
    Record,
    RunConfig,
    RunFolder,
    Summary,
    add_stages,
    find_runs,
    group_means,
    question_scores,
    summarise,
    write_text,
)
from reground.evaluation.statistics import Candidate, Comparison, Verdict, compare, holm, verdict
from reground.evaluation.tasks.longform import METRIC

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A titled table of text; the first `words` columns are words, the others numbers."""

    title: str
    headers: list[str]
    rows: list[list[str]]
    words: int = 3

    def markdown(self) -> str:
        """The table in GitHub's Markdown, with numbers aligned right."""
        marks = ["---" if i < self.words else "---:" for i in range(len(self.headers))]
        lines = [self.headers, marks, *([cell.replace("|", "\\|") for cell in row] for row in self.rows)]
        return f"## {self.title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def terminal(self, width: int) -> RichTable:
        """The table for rich to print: the columns, from the left, that fit into `width`, each number on one line.

        It has two columns of numbers at least; a caption names those that are left out.
        """
        table = RichTable(title=self.title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=0)
        room = width + 1
        for i, header in enumerate(self.headers):
            word = i < self.words
            header = header if word else header.replace(" ", "\n").replace("95\n%", "95 %").replace("=\n0", "= 0")
            most = width * 3 // 10 if word else width
            lines = "\n".join([header, *(row[i] for row in self.rows)]).split("\n")
            room -= 1 + min(most, max(map(cell_len, lines)))
            if room < 0 and i >= self.words + 2:
                table.caption, table.caption_justify = f"no room for: {', '.join(self.headers[i:])}", "left"
                break
            table.add_column(
                header, justify="left" if word else "right", no_wrap=not word, max_width=most, overflow="fold"
            )
        for row in self.rows:
            table.add_row(*map(Text, row[: len(table.columns)]))
        return table


def label(config: RunConfig) -> str:
    """A run's short name, e.g. rar@4k."""
    return f"{config.method}@{budget_label(config.budget.tokens)}"


def number(value: float | None, *, sign: bool = False) -> str:
    """Three decimals, or a dash for nothing."""
    return NOTHING if value is None else f"{value + 0.0:{'+' if sign else ''}.3f}"


def interval(low: float | None, high: float | None) -> str:
    """Both ends, or a dash for nothing."""
    return NOTHING if low is None else f"{number(low)}–{number(high)}"


def p_value(value: float | None) -> str:
    """Three decimals, "< 0.001", or a dash for nothing."""
    return NOTHING if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Distinct for any colour vision (Okabe & Ito 2008, without yellow, which is faint on white)."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")
DEFAULT_BASELINE = "direct"
FORMAT = 2
"""Of report.json."""

_ABOUT = (
    "Means are over scored questions; repeats of a question are averaged first. Intervals are 95 % percentile "
    "bootstrap over questions. An interval of no width says that all questions scored alike, not that the mean is "
    "certain.",
    "Differences are paired, on the questions that both methods have a score for, with a bootstrap interval and a "
    "two-sided sign-flip permutation test; p (Holm) is adjusted for the number of comparisons in the table.",
    "Calls, tokens, USD and seconds are a question's mean, failed ones included; seconds are wall-clock with other "
    "questions in work at the same time.",
)


@dataclass
class Row:
    """One run, and how it compares with the baseline at the same budget, task, data and model."""

    config: RunConfig
    summary: Summary
    records: list[Record]
    comparison: Comparison | None = None
    adjusted: float | None = None

    @property
    def primary(self) -> MetricSummary:
        """The metric that ranks methods."""
        return self.summary.metrics[self.summary.primary]

    @property
    def comparable(self) -> tuple[object, ...]:
        """The values that two runs must share to be compared."""
        config = self.config
        return (config.task, config.data, config.model, repr(sorted(config.model_settings.items())), config.budget)


@dataclass
class Report:
    """Everything that the report says about one task.

    part: the metric, where runs of the task have no metric in common and so a report each; else empty. verdict: None
    where there is nothing to choose between. plots: the files that were drawn.
    """

    task: str
    rows: list[Row]
    baseline: str
    tables: list[Table]
    notes: list[str]
    verdict: Verdict | None
    plots: list[Path] = field(default_factory=list)
    part: str = ""


def build_reports(paths: Sequence[Path], *, baseline: str | None = None, by: str | None = None) -> list[Report]:
    """Read run folders, or folders that contain some, and report on each task. by: a metadata field to group by.

    Raises DataError for a folder without a run or with a broken one, ConfigurationError for an unknown baseline or
    field.
    """
    rows = [_row(folder) for folder in find_runs(list(paths))]
    plans = [plan for path in paths if (plan := read_plan(path)) is not None]
    methods = {row.config.method for row in rows}
    if baseline is not None and baseline not in methods:
        baseline = baseline.replace("-", "_")
        if baseline not in methods:
            choices = ", ".join(sorted(methods))
            raise ConfigurationError(f"the baseline {baseline!r} has no run here; there are {choices}")
    fields = {name for row in rows for record in row.records for name in record.metadata}
    if by is not None and by not in fields and any(row.records for row in rows):
        choices = did_you_mean(by, fields) if fields else "these have no fields"
        raise ConfigurationError(f"no question has a field {by!r}; {choices}")
    reports = []
    for task in dict.fromkeys(row.config.task for row in rows):
        planned = [plan for plan in plans if plan.task == task]
        for part, several in _by_metric([row for row in rows if row.config.task == task]):
            reports.append(replace(_report(task, several, baseline, planned, by), part=part))
    return reports


def _row(folder: RunFolder) -> Row:
    records = list(folder.records().values())
    summary = folder.summary()
    if summary is None or summary.runs != len(records):
        summary = summarise(folder.config, records, expected=-1)
    return Row(folder.config, summary, records)


def _by_metric(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """The runs that are reported together, because one metric ranks them; with its name where others are apart.

    A run with a judge has another primary metric than one without. One of the primary metrics that all runs have ranks
    them all; without such a metric there is a report for each.
    """
    names = dict.fromkeys(row.summary.primary for row in rows)
    if len(names) == 1:
        return [("", rows)]
    means = [{name for name, metric in row.summary.metrics.items() if metric.mean is not None} for row in rows]
    shared = next((name for name in names if all(name in each for each in means)), None)
    if shared is None:
        return [(name, [row for row in rows if row.summary.primary == name]) for name in names]
    return [("", [replace(row, summary=row.summary.model_copy(update={"primary": shared})) for row in rows])]


def _report(task: str, rows: list[Row], baseline: str | None, plans: Sequence[Plan], by: str | None) -> Report:
    methods = [row.config.method for row in rows]
    baselines = [baseline, *(plan.baseline for plan in plans), DEFAULT_BASELINE]
    base = next((name for name in baselines if name in methods), None) or methods[0]

    def order(row: Row) -> tuple[str, float, bool, str]:
        config, tokens = row.config, row.config.budget.tokens
        return (config.model, float("inf") if tokens is None else tokens, config.method != base, config.method)

    rows = sorted(rows, key=order)
    _compare_all(rows, base)
    report = Report(task, rows, base, _tables(rows, base, by), _notes(rows, plans), _verdict(rows))
    unfinished = [label(row.config) for row in rows if not row.summary.finished]
    if report.verdict is not None and unfinished:
        report.notes.append(f"The verdict leaves out {', '.join(unfinished)}, which is not finished.")
    return report


def _compare_all(rows: Sequence[Row], baseline: str) -> None:
    """Test every run against the baseline's run at the same budget; adjust the p-values for being several."""
    bases = {row.comparable: row for row in rows if row.config.method == baseline}
    compared = []
    for row in rows:
        base = bases.get(row.comparable)
        if base is None or base is row:
            continue
        scores, others = (question_scores(row.summary.primary, each.records) for each in (row, base))
        if scores.keys() & others.keys():
            row.comparison = compare(scores, others)
            compared.append(row)
    adjusted = holm([row.comparison.p for row in compared if row.comparison is not None])
    for row, p in zip(compared, adjusted, strict=True):
        row.adjusted = p


def _verdict(rows: Sequence[Row]) -> Verdict | None:
    """The verdict on the finished runs with a score.

    None if they are fewer than two, on different questions, or rated by different judges.
    """
    ready = [row for row in rows if row.summary.finished and row.primary.mean is not None]
    primary = rows[0].summary.primary
    judges = {row.config.model_settings.get("judge") if primary == METRIC else None for row in ready}
    if len({row.config.data for row in ready}) != 1 or len(judges) != 1:
        return None
    candidates = [
        Candidate(name, question_scores(primary, row.records), row.summary.cost)
        for name, row in zip(run_names(ready), ready, strict=True)
    ]
    return verdict(candidates, primary)


def _tables(rows: Sequence[Row], baseline: str, by: str | None) -> list[Table]:
    """The primary metric of every run, with its difference from the baseline, its cost and its counts; every metric;
    and the primary metric within each value of a metadata field.

    Lines begin with the run's method and budget, and with its model where there are several. Without runs that can be
    compared there are no columns of differences.
    """
    primary, models = rows[0].summary.primary, {row.config.model for row in rows}
    leading = ["method", "budget", *(["model"] if len(models) > 1 else [])]

    def name(row: Row) -> list[str]:
        config = row.config
        return [config.method, budget_label(config.budget.tokens), *([config.model] if len(models) > 1 else [])]

    def table(title: str, words: list[str], headers: list[str], lines: list[list[str]]) -> Table:
        return Table(f"{rows[0].config.task}: {title}", [*leading, *words, *headers], lines, len(leading) + len(words))

    compared = any(row.comparison is not None for row in rows)
    differences = [f"minus {baseline}", "95 % interval", "p (Holm)"] if compared else []
    headers = [primary, "95 % interval", *differences, "calls", "tokens", "USD", "seconds", *_COUNTS]
    tables = [table(primary, [], headers, [[*name(row), *_result(row, compared=compared)] for row in rows])]
    headers = ["mean", "95 % interval", "if failed = 0", "std of repeats", *_COUNTS]
    lines = [[*name(row), each, *_cells(metric)] for row in rows for each, metric in row.summary.metrics.items()]
    tables.append(table("every metric", ["metric"], headers, lines))
    if by is not None:
        lines = [
            [*name(row), group, *_cells(metric)]
            for row in rows
            for group, metric in group_means(primary, by, row.records).items()
        ]
        tables.append(table(f"{primary} by {by}", [by], headers, lines))
    return tables


_COUNTS = ["scored", "unscored", "failed"]


def _result(row: Row, *, compared: bool) -> list[str]:
    metric, summary, cost = row.primary, row.summary, row.summary.cost
    cells = [number(metric.mean), interval(metric.low, metric.high)]
    if compared and row.comparison is not None:
        difference = row.comparison.difference
        mean, low, high = (number(value, sign=True) for value in (difference.mean, difference.low, difference.high))
        cells += [mean, f"{low} to {high}", p_value(row.adjusted)]
    elif compared:
        cells += [NOTHING] * 3
    cells += [f"{summary.usage.calls / max(1, summary.runs):.1f}", f"{cost.tokens:.0f}"]
    cells += [NOTHING if cost.usd is None else f"{cost.usd:.5f}", f"{cost.seconds:.1f}"]
    return cells + [str(getattr(metric, count)) for count in _COUNTS]


def _cells(metric: MetricSummary) -> list[str]:
    means = [number(metric.mean), interval(metric.low, metric.high), number(metric.bound), number(metric.std)]
    return means + [str(getattr(metric, count)) for count in _COUNTS]


def write_report(reports: Sequence[Report], out: Path) -> list[Path]:
    """Write report.md, report.json and plots into `out`. Returns the files; without matplotlib the report says so."""
    out.mkdir(parents=True, exist_ok=True)
    parts = []
    for report in reports:
        try:
            report.plots = draw(report, out)
        except MissingExtra as error:
            report.notes.append(f"No plot: {error}")
        pictures = [os.path.relpath(file, out) for file in report.plots if file.suffix == ".svg"]
        parts.append(as_markdown(report, pictures))
    text, data = out / "report.md", out / "report.json"
    write_text(text, "\n\n".join(parts) + "\n")
    write_text(data, json.dumps(as_data(reports), ensure_ascii=False, indent=2) + "\n")
    return [text, data, *(file for report in reports for file in report.plots)]


def as_markdown(report: Report, plots: Sequence[str] = ()) -> str:
    """One task's report. plots: the addresses of its pictures, none by default."""
    models = ", ".join(dict.fromkeys(row.config.model for row in report.rows))
    questions = max(row.summary.questions for row in report.rows)
    head = f"# {report.task}\n\nModel: {models}. Questions: {questions}. Baseline: {report.baseline}."
    verdict = "" if report.verdict is None else f"## Verdict\n\n{report.verdict.text}"
    pictures = "\n\n".join(f"![{Path(file).stem.replace('-', ' ')}]({file})" for file in plots)
    notes = "## Notes\n\n" + "\n".join(f"- {note}" for note in report.notes)
    parts = (head, verdict, *(table.markdown() for table in report.tables), pictures, notes)
    return "\n\n".join(part for part in parts if part)


def as_data(reports: Sequence[Report]) -> dict[str, JsonValue]:
    """The reports as one object for JSON, with every number unrounded. Costs are a question's mean."""
    return {
        "format": FORMAT,
        "reports": [
            {
                "task": report.task,
                "metric": report.rows[0].summary.primary,
                "baseline": report.baseline,
                "verdict": None if report.verdict is None else report.verdict.model_dump(mode="json"),
                "runs": [_run_data(name, row) for name, row in zip(run_names(report.rows), report.rows, strict=True)],
                "notes": list(report.notes),
            }
            for report in reports
        ],
    }


def _run_data(name: str, row: Row) -> dict[str, JsonValue]:
    config, summary, runs = row.config, row.summary, max(1, row.summary.runs)
    against: dict[str, JsonValue] | None = None
    if row.comparison is not None:
        difference = row.comparison.difference.model_dump(mode="json")
        against = {**difference, "p": row.comparison.p, "p_holm": row.adjusted, "questions": row.comparison.questions}
    stages = add_stages(record.stages for record in row.records)
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
        "against_baseline": against,
        **{key: getattr(summary.usage, key) / runs for key in ("calls", "prompt", "cached", "completion")},
        **summary.cost.model_dump(mode="json"),
        "stages": {
            key: {field: value / runs for field, value in stage.model_dump().items()} for key, stage in stages.items()
        },
    }


def run_names(rows: Sequence[Row]) -> list[str]:
    """A name for each run, all different: with the model, and a number, where these are needed."""
    several = len({row.config.model for row in rows}) > 1
    counts: Counter[str] = Counter()
    names = []
    for row in rows:
        name = f"{label(row.config)} {row.config.model}" if several else label(row.config)
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return names


def draw(report: Report, out: Path) -> list[Path]:
    """Draw scores against tokens, a line for each method and model.

    Returns the files; none where no run has a score. The same runs give the same bytes. Raises MissingExtra without
    matplotlib.
    """
    rows = sorted(
        (row for row in report.rows if row.primary.mean is not None),
        key=lambda row: (row.config.method, row.config.model, row.summary.cost.tokens),
    )
    if not rows:
        return []
    metric, several = rows[0].summary.primary, len({row.config.model for row in rows}) > 1
    name = "".join(c if c.isalnum() else "-" for c in f"{report.task} {report.part}".lower()).strip("-")
    files = [out / f"{name}-tokens.svg", out / f"{name}-tokens.png"]
    with drawing(files[0], (7.2, 4.4)) as figure:
        from matplotlib import ticker

        axes = figure.add_subplot()
        lines = groupby(rows, key=lambda row: (row.config.method, row.config.model))
        for i, ((method, model), line) in enumerate(lines):
            _draw_line(axes, list(line), i, f"{method}, {model}" if several else method)
        tokens = [row.summary.cost.tokens for row in rows]
        if min(tokens) > 0 and max(tokens) / min(tokens) > 3:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5)))
            axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.set_xlabel("tokens a question (prompt + completion)")
        axes.grid(True, linewidth=0.4, alpha=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel(f"{metric} (mean, 95 % interval)")
        axes.set_title(f"{report.task}: {metric} against tokens", fontsize=11)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    return files


@contextmanager
def drawing(file: Path, size: tuple[float, float]) -> Iterator[Any]:
    """A figure of this size in inches, written as an SVG file and a PNG file beside it when the block ends.

    What is the same gives the same bytes. Raises MissingExtra without matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("plots", "eval") from error
    with mpl.rc_context({"svg.hashsalt": "reground", "svg.fonttype": "path", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        figure.savefig(file, metadata={"Date": None})
        figure.savefig(file.with_suffix(".png"), dpi=160, metadata={"Software": None})


def _draw_line(axes: Any, rows: Sequence[Row], number: int, name: str) -> None:
    """The runs of one method with one model."""
    means, lows, highs = ([getattr(row.primary, end) for row in rows] for end in ("mean", "low", "high"))
    colour = COLOURS[number % len(COLOURS)]
    axes.errorbar(
        [row.summary.cost.tokens for row in rows],
        means,
        yerr=[list(map(sub, means, lows)), list(map(sub, highs, means))],
        color=colour,
        ecolor=f"{colour}73",
        linestyle="-" if number < len(COLOURS) else "--",
        marker=MARKERS[number % len(MARKERS)],
        label=name,
        linewidth=1.4,
        markersize=6,
        elinewidth=1,
        capsize=3,
    )


def _notes(rows: Sequence[Row], plans: Sequence[Plan]) -> list[str]:
    notes = [*_ABOUT]
    if any(row.config.primary != row.summary.primary for row in rows):
        notes.append(
            f"Not all runs have the same primary metric: {rows[0].summary.primary}, which all have, ranks them."
        )
    notes += [f"{label(row.config)}{note}" for row in rows for note in _row_notes(row)]
    notes += [f"{refusal.cell.label} was not run: {refusal.why}" for plan in plans for refusal in plan.refused]
    if any(row.summary.usage.usd is None for row in rows):
        notes.append("USD is unknown where no price was given (--price).")
    return notes


def _row_notes(row: Row) -> list[str]:
    """What a reader has to know of a run; to stand behind its name."""
    summary, metric = row.summary, row.primary
    notes = []
    if not summary.finished:
        notes.append(f" is not finished: {summary.runs} questions so far.")
    if summary.failed:
        notes.append(
            f": {summary.failed} of {summary.runs} failed ({_reasons(row.records)}) and are not in the mean; "
            f"counted as 0, it would be {number(metric.bound)}."
        )
    if metric.unscored:
        scores = (record.scores.get(summary.primary) for record in row.records)
        whys = {score.why for score in scores if score is not None and score.value is None}
        whys |= {record.scoring for record in row.records if record.scoring is not None}
        notes.append(f": {metric.unscored} answered but unscored ({'; '.join(sorted(whys)[:3]) or 'no reason given'}).")
    if summary.stopped:
        why = ", ".join(f"{count} by {limit}" for limit, count in sorted(summary.stopped.items()))
        notes.append(f": the budget ended {sum(summary.stopped.values())} early ({why}); their best answer counts.")
    if summary.cut:
        notes.append(
            f": the last reply of {summary.cut} of {summary.runs} was cut at its length limit; "
            "--set max_tokens=N allows longer ones."
        )
    if summary.repeats > 1:
        notes.append(
            f": {summary.repeats} repeats gave the same short answer for {summary.same_repeats} of "
            f"{summary.questions} questions."
        )
    return notes


def _reasons(records: Iterable[Record], most: int = 3) -> str:
    """Why questions failed: the number of each error. Errors that differ only in numbers count as one."""
    kinds: dict[str, list[str]] = {}
    for failure in (record.failure for record in records if record.failure is not None):
        text = shorten(f"{failure.type}: {failure.message}", 200, placeholder="...")
        printable = "".join(c if c.isprintable() else " " for c in text)
        kinds.setdefault(re.sub(r"\d+", "0", text), []).append(printable)
    texts = sorted(kinds.values(), key=len, reverse=True)
    rest = sum(map(len, texts[most:]))
    return "; ".join([*(f"{len(each)} x {each[0]}" for each in texts[:most]), *([f"{rest} others"] if rest else [])])

"""The report's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from reground.evaluation.compare import budget_label
from reground.evaluation.costs import Measure
from reground.evaluation.records import MetricSummary, Record, RunConfig, Summary
from reground.evaluation.stages import add_stages
from reground.evaluation.statistics import Comparison
from reground.evaluation.summary import group_means
from reground.evaluation.verdict import Verdict

if TYPE_CHECKING:
    from rich.table import Table as RichTable

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

    def terminal(self) -> RichTable:
        """The table for rich to print."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=self.title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=0)
        for i, header in enumerate(self.headers):
            word = i < self.words
            header = header if word else header.replace(" ", "\n").replace("95\n%", "95 %").replace("=\n0", "= 0")
            table.add_column(header, justify="left" if word else "right", no_wrap=word, overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table


@dataclass
class Row:
    """One run, and how it compares with the baseline at the same budget, task, data and model.

    undominated: the measures of cost in which no other run is better for as much, or as good for less.
    """

    config: RunConfig
    summary: Summary
    records: list[Record]
    comparison: Comparison | None = None
    adjusted: float | None = None
    undominated: tuple[Measure, ...] = ()

    @property
    def primary(self) -> MetricSummary:
        """The metric that ranks methods."""
        return self.summary.metrics[self.summary.primary]

    @property
    def comparable(self) -> tuple[object, ...]:
        """The values that two runs must share to be compared."""
        config = self.config
        return (config.task, config.data, config.model, _plain(config.model_settings), config.budget)


@dataclass
class Report:
    """Everything that the report says about one task.

    part: the metric, where runs of the task have no metric in common and so a report each; else empty. verdict: None
    where there is nothing to choose between. plots: the files that were drawn.
    """

    task: str
    rows: list[Row]
    baseline: str
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    verdict: Verdict | None = None
    plots: list[Path] = field(default_factory=list)
    part: str = ""


def score_table(rows: Sequence[Row]) -> Table:
    """The primary metric's means, and the numbers of scored, unscored and failed questions."""
    primary = rows[0].summary.primary
    lines = []
    for row in rows:
        metric = row.primary
        counts = [str(metric.scored), str(metric.unscored), str(row.summary.failed)]
        lines.append([*_name_cells(row.config), number(metric.mean), interval(metric.low, metric.high), *counts])
    headers = ["method", "budget", "model", primary, "95 % interval", "scored", "unscored", "failed"]
    return Table(f"{rows[0].config.task}: {primary}", headers, lines)


def difference_table(rows: Sequence[Row], baseline: str) -> Table:
    """Each method against the baseline; empty if nothing can be compared."""
    lines = []
    for row in rows:
        if row.comparison is not None and row.adjusted is not None:
            found = row.comparison
            low, high = (number(end, sign=True) for end in (found.difference.low, found.difference.high))
            cells = [
                number(found.difference.mean, sign=True),
                f"{low} to {high}",
                p_value(found.p),
                p_value(row.adjusted),
            ]
            lines.append([*_name_cells(row.config), *cells, str(found.questions)])
    headers = ["method", "budget", "model", f"minus {baseline}", "95 % interval", "p", "p (Holm)", "questions"]
    return Table(f"{rows[0].config.task}: {rows[0].summary.primary} against {baseline}", headers, lines)


def cost_table(rows: Sequence[Row]) -> Table:
    """The mean cost per question."""
    headers = ["method", "budget", "model", "calls", "prompt", "cached", "completion", "USD", "seconds", "cut short"]
    lines = []
    for row in rows:
        summary, usage, runs = row.summary, row.summary.usage, max(1, row.summary.runs)
        tokens = [f"{n / runs:.0f}" for n in (usage.prompt, usage.cached, usage.completion)]
        usd = NOTHING if usage.usd is None else f"{usage.usd / runs:.5f}"
        cells = [*_name_cells(row.config), f"{usage.calls / runs:.1f}", *tokens, usd, f"{summary.seconds / runs:.1f}"]
        lines.append([*cells, str(sum(summary.stopped.values()))])
    return Table(f"{rows[0].config.task}: cost a question", headers, lines)


def stage_table(rows: Sequence[Row]) -> Table:
    """The mean cost per question of each stage of a method (RaR, table 7); empty if no run recorded it."""
    lines = []
    for row in rows:
        runs = max(1, row.summary.runs)
        for name, stage in add_stages(record.stages for record in row.records).items():
            means = [f"{stage.calls / runs:.1f}", f"{stage.prompt / runs:.0f}", f"{stage.completion / runs:.0f}"]
            lines.append([*_name_cells(row.config), name, *means, f"{stage.seconds / runs:.1f}"])
    headers = ["method", "budget", "model", "stage", "calls", "prompt", "completion", "seconds"]
    return Table(f"{rows[0].config.task}: cost a question by stage", headers, lines, 4)


def without(table: Table, header: str) -> Table:
    """The table without one column of words."""
    at = table.headers.index(header)
    rows = [row[:at] + row[at + 1 :] for row in table.rows]
    return Table(table.title, table.headers[:at] + table.headers[at + 1 :], rows, table.words - 1)


def _name_cells(config: RunConfig) -> list[str]:
    return [config.method, budget_label(config.budget.tokens), config.model]


def metrics_table(rows: Sequence[Row]) -> Table:
    """Every metric of every run."""
    lines = [
        [*_name_cells(row.config), name, *_metric_cells(metric)]
        for row in rows
        for name, metric in row.summary.metrics.items()
    ]
    headers = ["method", "budget", "model", "metric", *_METRIC_HEADERS]
    return Table(f"{rows[0].config.task}: every metric", headers, lines, 4)


def repeats_table(rows: Sequence[Row]) -> Table:
    """Every metric's mean and standard deviation over the repeats, each as a run; empty for single repeats."""
    lines = [
        [
            *_name_cells(row.config),
            name,
            str(len(metric.by_repeat)),
            number(fmean(metric.by_repeat)),
            number(metric.std),
        ]
        for row in rows
        for name, metric in row.summary.metrics.items()
        if metric.by_repeat
    ]
    headers = ["method", "budget", "model", "metric", "runs", "mean", "std between runs"]
    return Table(f"{rows[0].config.task}: over the repeats", headers, lines, 4)


def group_table(rows: Sequence[Row], by: str) -> Table:
    """The primary metric within each value of a metadata field."""
    lines = [
        [*_name_cells(row.config), group, *_metric_cells(metric)]
        for row in rows
        for group, metric in group_means(row.summary.primary, by, row.records).items()
    ]
    headers = ["method", "budget", "model", by, *_METRIC_HEADERS]
    return Table(f"{rows[0].config.task}: {rows[0].summary.primary} by {by}", headers, lines, 4)


_METRIC_HEADERS = ["mean", "95 % interval", "if failed = 0", "scored", "unscored", "failed"]


def _metric_cells(metric: MetricSummary) -> list[str]:
    counts = [str(metric.scored), str(metric.unscored), str(metric.failed)]
    return [number(metric.mean), interval(metric.low, metric.high), number(metric.bound), *counts]


def label(config: RunConfig) -> str:
    """A run's short name, e.g. rar@4k."""
    return f"{config.method}@{budget_label(config.budget.tokens)}"


def run_names(rows: Sequence[Row]) -> list[str]:
    """A name for each run, all different: with the model, and a number, where these are needed."""
    several = len({row.config.model for row in rows}) > 1
    seen: Counter[str] = Counter()
    found = []
    for row in rows:
        name = f"{label(row.config)} {row.config.model}" if several else label(row.config)
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def number(value: float | None, *, sign: bool = False) -> str:
    """Three decimals, or a dash for nothing."""
    return NOTHING if value is None else f"{value + 0.0:{'+' if sign else ''}.3f}"


def interval(low: float | None, high: float | None) -> str:
    """Both ends, or a dash for nothing."""
    return NOTHING if low is None else f"{number(low)}–{number(high)}"


def p_value(value: float | None) -> str:
    """Three decimals, "< 0.001", or a dash for nothing."""
    return NOTHING if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _plain(settings: Mapping[str, object]) -> str:
    return repr(sorted(settings.items()))

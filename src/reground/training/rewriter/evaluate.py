"""What rewriters find, and what a reader makes of it, question by question, against the question itself as the query.

Each rewriter is measured by an ordinary run of the method, so an interrupted measuring goes on, and nothing is paid
twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from reground.evaluation.report import NOTHING, Table
from reground.evaluation.runner import EvalSettings, Progress, choose, evaluate
from reground.evaluation.statistics import Comparison, Interval, bootstrap_interval, compare
from reground.evaluation.task import Task
from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
from reground.training.rewriter.reward import RANK, RECALL, searches, values_of
from reground.training.rows import scored

QUESTION, PROMPTED = "the question", "prompted"
FOUND = ("hit", RANK, RECALL)
"""The metrics that need no reader."""
SHOWN = 20
"""Questions whose rewritings the report shows."""


@dataclass(frozen=True)
class Row:
    """A measured question. queries: what was searched for; the question itself where nothing rewrites."""

    question: str
    queries: Sequence[str]
    values: Mapping[str, float | None]

    @property
    def text(self) -> str:
        """The rewriting in one line."""
        return " ".join("; ".join(self.queries).split())


@dataclass(frozen=True)
class Rewriter:
    """A rewriter, measured: its rows by the question's id."""

    name: str
    rows: Mapping[str, Row]

    def scores(self, metric: str) -> dict[str, float]:
        """The metric's value of each question that has one."""
        values = {name: row.values.get(metric) for name, row in self.rows.items()}
        return {name: value for name, value in values.items() if value is not None}

    def interval(self, metric: str) -> Interval:
        """The mean over the questions."""
        return bootstrap_interval(list(self.scores(metric).values()))

    def against(self, other: Rewriter, metric: str) -> Comparison:
        """The paired difference to another one."""
        return compare(self.scores(metric), other.scores(metric))


async def measure_rewriter(
    name: str,
    task: Task,
    method: RewriteRetrieveRead,
    settings: EvalSettings,
    run: Path,
    *,
    observer: Callable[[Progress], None] | None = None,
) -> Rewriter:
    """Measure a rewriter in the run folder `run`. method: with its rewriter, or in mode "retrieve" without one.

    Questions that the pipeline failed at have no metrics of an answer.
    """
    await evaluate(task, method, settings, run, observer=observer)
    solved = {record.example: (record, trajectory) for record, trajectory in scored(run)}
    rows = {}
    for example in choose(task, settings):
        record, trajectory = solved[example.id]
        values = {metric: score.value for metric, score in record.scores.items()}
        queries = [step.query for step in searches(trajectory)]
        rows[example.id] = Row(example.question, queries, values_of(task, method, example, trajectory, values))
    return Rewriter(name, rows)


def measurable(rewriters: Sequence[Rewriter], metrics: Sequence[str]) -> list[str]:
    """The metrics that some question has."""
    return [metric for metric in metrics if any(each.scores(metric) for each in rewriters)]


def record(rewriters: Sequence[Rewriter], metrics: Sequence[str]) -> dict[str, JsonValue]:
    """All rewriters as plain data: means with intervals, differences to those before, and what they wrote."""
    data: dict[str, JsonValue] = {}
    for place, each in enumerate(rewriters):
        own: dict[str, JsonValue] = {"rewritings": {name: row.text for name, row in each.rows.items()}}
        for metric in metrics:
            own[metric] = each.interval(metric).model_dump(mode="json")
            for other in rewriters[:place]:
                comparison = each.against(other, metric)
                difference = comparison.difference.model_dump(mode="json")
                own[f"{metric} against {other.name}"] = {
                    **difference,
                    "p": comparison.p,
                    "questions": comparison.questions,
                }
        data[each.name] = own
    return data


def _labels(rewriters: Sequence[Rewriter]) -> dict[str, str]:
    """Their names in tables: folders and files by their last part, where that is enough to tell them apart."""
    short = {each.name: " ".join(word.rpartition("/")[2] for word in each.name.split(" ")) for each in rewriters}
    count = Counter(short.values())
    return {name: label if count[label] == 1 else name for name, label in short.items()}


def tables(rewriters: Sequence[Rewriter], metrics: Sequence[str], title: str) -> list[Table]:
    """A rewriter a line, with the mean of each metric and its interval; then each against those before it."""
    labels = _labels(rewriters)
    means, differences = [], []
    for place, each in enumerate(rewriters):
        rows = each.rows.values()
        means.append(
            [
                labels[each.name],
                str(len(rows)),
                *(_mean(each.interval(metric)) for metric in metrics),
                f"{sum(len(row.queries) for row in rows) / max(1, len(rows)):.2f}",
                f"{sum(row.text == row.question for row in rows) / max(1, len(rows)):.0%}",
            ]
        )
        for other in rewriters[:place]:
            against = (each.against(other, metric) for metric in metrics)
            differences.append([labels[each.name], labels[other.name], *map(_difference, against)])
    headers = ["query", "questions", *metrics, "queries", "left as it is"]
    return [
        Table(title, headers, means, words=1),
        Table("Paired differences, with 95 % intervals", ["query", "minus", *metrics], differences, words=2),
    ]


def _mean(interval: Interval) -> str:
    return NOTHING if interval.mean is None else f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _difference(comparison: Comparison) -> str:
    difference = comparison.difference
    if difference.mean is None:
        return ""
    return f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}], p {comparison.p:.3f}"


def rewritings_table(rewriters: Sequence[Rewriter]) -> Table:
    """What each wrote for the first questions, and the place of the first passage that holds the answer."""
    labels = _labels(rewriters)
    headers = [header for each in rewriters for header in (labels[each.name], "place")]
    rows = []
    for name in [*rewriters[0].rows][:SHOWN]:
        cells = []
        for row in (each.rows[name] for each in rewriters):
            rank = row.values.get(RANK)
            cells += [row.text, f"{1 / rank:.0f}" if rank else NOTHING]
        rows.append(cells)
    title = "Rewritings, and the place of the first passage with the answer"
    return Table(title, ["question", *headers[1:]], rows, words=2 * len(rewriters))

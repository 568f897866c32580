"""What rewriters find, and what a reader makes of it, question by question, against the question itself as the query.

Every question's measurement is kept as it is made, so an interrupted measuring goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from pydantic import JsonValue, ValidationError

from reground.core.concurrency import gather
from reground.core.files import append_line, read_lines, without_sum
from reground.core.language import LanguageModel, Text, Value
from reground.core.method import solve
from reground.core.run import Run
from reground.evaluation.report import NOTHING, Table
from reground.evaluation.statistics import Comparison, Interval, bootstrap_interval, compare
from reground.evaluation.task import Example, Task, hidden_documents
from reground.methods.rewrite_retrieve_read import RewriteRetrieveRead
from reground.training.rewriter.reward import RANK, RECALL, PipelineReward, without_reader
from reground.training.rewriter.warmup import queries_of

QUESTION, PROMPTED = "the question", "prompted"
FOUND = ("hit", RANK, RECALL)
"""The metrics that need no reader."""
SHOWN = 20
"""Questions whose rewritings the report shows."""
_AT_ONCE = 16

Write = Callable[[Sequence[Example]], Awaitable[Sequence[str]]]
"""What a rewriter writes for some questions."""


class Row(Value):
    """A measured question. text: what was written; the question itself where nothing rewrites."""

    id: Text
    question: Text
    text: Text
    queries: tuple[Text, ...]
    values: dict[str, float | None]


@dataclass(frozen=True)
class Rewriter:
    """A rewriter, measured: its rows by the question's id."""

    name: str
    rows: Mapping[str, Row]

    def scores(self, metric: str) -> dict[str, float]:
        """The metric's value of each question that has one."""
        found = {name: row.values.get(metric) for name, row in self.rows.items()}
        return {name: value for name, value in found.items() if value is not None}

    def interval(self, metric: str) -> Interval:
        """The mean over the questions."""
        return bootstrap_interval(list(self.scores(metric).values()))

    def against(self, other: Rewriter, metric: str) -> Comparison:
        """The paired difference to another one."""
        return compare(self.scores(metric), other.scores(metric))


async def measure_rewriter(
    name: str,
    examples: Sequence[Example],
    write: Write | None,
    reward: PipelineReward,
    kept: Path,
    *,
    on_question: Callable[[int], None] = lambda done: None,
) -> Rewriter:
    """Measure what a rewriter wrote for each question; without one, the questions themselves are the queries.

    kept: the file of rows; questions in it are not measured again. Those that the pipeline failed at have no metrics of
    an answer, and are not kept.
    """
    rows = {row.id: row for row in _kept(kept)}
    left = [example for example in examples if example.id not in rows]
    for start in range(0, len(left), _AT_ONCE):
        some = left[start : start + _AT_ONCE]
        texts: Sequence[str | None] = [None] * len(some) if write is None else await write(some)
        for example, text, found in zip(some, texts, await gather(*map(reward.measure, some, texts)), strict=True):
            said = example.question if text is None else text
            row = Row(
                id=example.id,
                question=example.question,
                text=said,
                queries=tuple(found.queries),
                values=dict(found.values),
            )
            rows[row.id] = row
            if found.error is None:
                append_line(kept, row.model_dump_json())
        on_question(len(rows))
    return Rewriter(name, {example.id: rows[example.id] for example in examples})


def prompted(method: RewriteRetrieveRead, model: LanguageModel, task: Task) -> Write:
    """The rewritings of a prompted model, as one text each. task: whose questions they are."""
    rewriting = replace(without_reader(method), mode="rewrite", rewriter=model, rewriter_style="prompted")

    async def one(example: Example) -> str:
        run = Run(hidden=hidden_documents(task, example))
        solved = await solve(rewriting, example.question, run, id=example.id, name=PROMPTED)
        if solved.error is not None:
            raise solved.error
        return "; ".join(queries_of(solved.trajectory))

    async def write(examples: Sequence[Example]) -> Sequence[str]:
        return await gather(*map(one, examples))

    return write


def measurable(rewriters: Sequence[Rewriter], metrics: Sequence[str]) -> list[str]:
    """The metrics that some question has."""
    return [metric for metric in metrics if any(each.scores(metric) for each in rewriters)]


def record(rewriters: Sequence[Rewriter], metrics: Sequence[str]) -> dict[str, JsonValue]:
    """All rewriters as plain data: means with intervals, differences to those before, and what they wrote."""
    said: dict[str, JsonValue] = {}
    for place, each in enumerate(rewriters):
        differences: dict[str, JsonValue] = {
            f"{metric} against {other.name}": _recorded(each.against(other, metric))
            for other in rewriters[:place]
            for metric in metrics
        }
        means: dict[str, JsonValue] = {metric: each.interval(metric).model_dump(mode="json") for metric in metrics}
        said[each.name] = {
            "rewritings": {name: row.text for name, row in each.rows.items()}, **means, **differences
        }  # fmt: skip
    return said


def _labels(rewriters: Sequence[Rewriter]) -> dict[str, str]:
    """Their names in tables: folders and files by their last part, where that is enough to tell them apart."""
    short = {each.name: " ".join(word.rpartition("/")[2] for word in each.name.split(" ")) for each in rewriters}
    count = Counter(short.values())
    return {name: label if count[label] == 1 else name for name, label in short.items()}


def table(rewriters: Sequence[Rewriter], metrics: Sequence[str], title: str) -> Table:
    """A rewriter a line, with the mean of each metric and its interval."""
    labels = _labels(rewriters)
    return Table(
        title=title,
        headers=["query", "questions", *metrics, "queries", "left as it is"],
        rows=[[labels[each.name], *_row(each, metrics)] for each in rewriters],
        words=1,
    )


def _recorded(comparison: Comparison) -> dict[str, JsonValue]:
    """A difference as plain data."""
    return {**comparison.difference.model_dump(mode="json"), "p": comparison.p, "questions": comparison.questions}


def difference_table(rewriters: Sequence[Rewriter], metrics: Sequence[str]) -> Table:
    """Every rewriter against each of those before it, on the same questions."""
    labels = _labels(rewriters)
    return Table(
        title="Paired differences, with 95 % intervals",
        headers=["query", "minus", *metrics],
        rows=[
            [labels[each.name], labels[other.name], *(_difference(each.against(other, metric)) for metric in metrics)]
            for other, each in sorted(combinations(rewriters, 2), key=lambda pair: rewriters.index(pair[1]))
        ],
        words=2,
    )


def _difference(comparison: Comparison) -> str:
    """A difference as a table shows it: its mean, interval and p."""
    found = comparison.difference
    if found.mean is None:
        return ""
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}], p {comparison.p:.3f}"


def rewritings_table(rewriters: Sequence[Rewriter], count: int = SHOWN) -> Table:
    """What each wrote for the first questions, and the place of the first passage that holds the answer."""
    first, *others = rewriters
    labels = _labels(rewriters)
    return Table(
        title="Rewritings, and the place of the first passage with the answer",
        headers=["question", "place", *(header for each in others for header in (labels[each.name], "place"))],
        rows=[
            [cell for each in rewriters for cell in (_one_line(each.rows[name].text), _place(each.rows[name]))]
            for name in [*first.rows][:count]
        ],
        words=2 * len(rewriters),
    )


def _kept(file: Path) -> Iterator[Row]:
    """The rows of a file; one that a kill cut short is left out."""
    if not file.is_file():
        return
    for _, line in read_lines(file, "measured questions"):
        try:
            yield Row.model_validate_json(without_sum(line))
        except (ValidationError, ValueError):
            continue


def _row(each: Rewriter, metrics: Sequence[str]) -> list[str]:
    total = max(1, len(each.rows))
    same = sum(row.text == row.question for row in each.rows.values())
    return [
        str(len(each.rows)),
        *(_mean(each.interval(metric)) for metric in metrics),
        f"{sum(len(row.queries) for row in each.rows.values()) / total:.2f}",
        f"{same / total:.0%}",
    ]


def _mean(found: Interval) -> str:
    return NOTHING if found.mean is None else f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _place(row: Row) -> str:
    rank = row.values.get(RANK)
    return NOTHING if not rank else f"{1 / rank:.0f}"

"""What rewriters find, question by question, against the question itself as the query. No reader is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from reground.core.branches import gather
from reground.evaluation.tables import Table
from reground.evaluation.task import Example
from reground.training.measured import Measured, difference, figure, recorded
from reground.training.rewriter.reward import RANK, PipelineReward

QUESTION = "the question"
METRICS = ("hit", RANK, "gold recall")
_AT_ONCE = 16


@dataclass(frozen=True)
class Rewriter(Measured):
    """A rewriter, measured. texts: what it wrote; queries: how many queries that made; both by the question's id."""

    texts: Mapping[str, str]
    queries: Mapping[str, int]


async def measure_rewriter(
    name: str, examples: Sequence[Example], texts: Sequence[str] | None, reward: PipelineReward
) -> Rewriter:
    """Search with what a rewriter wrote for each question; None searches with the questions themselves."""
    written = [None] * len(examples) if texts is None else texts
    left = iter(zip(examples, written, strict=True))
    queries: dict[str, int] = {}
    scores: dict[str, dict[str, float]] = {metric: {} for metric in METRICS}

    async def work() -> None:
        for example, text in left:
            measured = await reward.measure(example, text)
            queries[example.id] = len(measured.queries)
            for metric in METRICS:
                if (value := measured.values.get(metric)) is not None:
                    scores[metric][example.id] = value

    await gather(*(work() for _ in range(_AT_ONCE)))
    said = {each.id: each.question if text is None else text for each, text in zip(examples, written, strict=True)}
    return Rewriter(name, scores, said, queries)


def record(rewriters: Sequence[Rewriter]) -> dict[str, JsonValue]:
    """All rewriters as plain data: means with intervals, differences to the first, and what they wrote."""
    first = rewriters[0]
    return {
        each.name: {
            "rewritings": dict(each.texts),
            **{metric: each.interval(metric).model_dump(mode="json") for metric in METRICS},
            **(
                {}
                if each is first
                else {f"{metric} against {first.name}": recorded(each.against(first, metric)) for metric in METRICS}
            ),
        }
        for each in rewriters
    }


def table(rewriters: Sequence[Rewriter], passages: int) -> Table:
    """A rewriter a line, with its difference to the first one."""
    first = rewriters[0]
    return Table(
        title=f"What the queries find, {passages} passages",
        headers=["query", "questions", *METRICS, "queries", "left as it is", f"hit against {first.name}"],
        rows=[_row(each, first) for each in rewriters],
        words=1,
    )


def _row(each: Rewriter, first: Rewriter) -> list[str]:
    total = max(1, len(each.texts))
    same = sum(each.texts[name] == first.texts[name] for name in each.texts)
    return [
        each.name,
        str(len(each.scores["hit"])),
        *(figure(each.interval(metric).mean) for metric in METRICS),
        f"{sum(each.queries.values()) / total:.2f}",
        f"{same / total:.0%}",
        "" if each is first else difference(each.against(first, "hit")),
    ]

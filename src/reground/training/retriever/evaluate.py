"""What retrievers find of the gold passages, question by question, each alone and fused with the first.

Rankings are of documents: of a document's pieces the best one counts. Intervals are bootstrapped over questions, and
differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from reground.core.branches import gather
from reground.core.evidence import Retriever
from reground.evaluation.metrics.ranking import recall, reciprocal_rank
from reground.evaluation.statistics import Comparison, Interval, bootstrap_interval, compare
from reground.retrieval.fusion import reciprocal_rank_fusion
from reground.retrieval.pages import document_ids
from reground.training.retriever.data import Question

DEPTH = 100
"""Passages of each ranking that are looked at and fused."""
CUTOFFS = (1, 3, 5, 10, 20)
ALL_AT = 3
METRICS = (*(f"recall@{k}" for k in CUTOFFS), f"all@{ALL_AT}", "MRR")
_AT_ONCE = 8

Ranking = Sequence[str]


@dataclass(frozen=True)
class System:
    """A way to search, measured. scores: for each metric, the value of each question by its id."""

    name: str
    scores: Mapping[str, Mapping[str, float]]

    def interval(self, metric: str) -> Interval:
        """The mean over the questions."""
        return bootstrap_interval(list(self.scores[metric].values()))

    def against(self, baseline: System, metric: str) -> Comparison:
        """The difference to another system on the same questions."""
        return compare(self.scores[metric], baseline.scores[metric])


async def rank(
    questions: Sequence[Question], retriever: Retriever, on_question: Callable[[], None] = lambda: None
) -> dict[str, Ranking]:
    """The ranking of documents for each question, by the question's id."""
    left = iter(questions)
    ranked: dict[str, Ranking] = {}

    async def work() -> None:
        for question in left:
            found = await retriever.retrieve(question.text, k=DEPTH)
            ranked[question.id] = list(dict.fromkeys(_document(passage.id, question) for passage in found))
            on_question()

    await gather(*(work() for _ in range(_AT_ONCE)))
    return ranked


def fused(first: Mapping[str, Ranking], second: Mapping[str, Ranking]) -> dict[str, Ranking]:
    """Two rankings of each question, joined by reciprocal rank."""
    return {id_: [each for each, _ in reciprocal_rank_fusion([first[id_], second[id_]])] for id_ in first}


def measured(name: str, questions: Sequence[Question], rankings: Mapping[str, Ranking]) -> System:
    """Score rankings. Questions with more than three gold documents are left out of `all@3`, which they cannot meet."""
    scores: dict[str, dict[str, float]] = {metric: {} for metric in METRICS}
    for question in questions:
        ranking, relevance = rankings[question.id], dict.fromkeys(question.gold, 1)
        for k in CUTOFFS:
            scores[f"recall@{k}"][question.id] = recall(ranking, relevance, k)
        if len(relevance) <= ALL_AT:
            scores[f"all@{ALL_AT}"][question.id] = float(relevance.keys() <= set(ranking[:ALL_AT]))
        scores["MRR"][question.id] = reciprocal_rank(ranking, relevance)
    return System(name, scores)


def record(systems: Sequence[System]) -> dict[str, JsonValue]:
    """All systems as plain data: means with intervals, and differences to the first one."""
    first = systems[0]
    return {
        system.name: {
            metric: {
                "questions": len(system.scores[metric]),
                **system.interval(metric).model_dump(mode="json"),
                **({} if system is first else {"difference": _difference(system.against(first, metric))}),
            }
            for metric in METRICS
        }
        for system in systems
    }


def table(systems: Sequence[System]) -> str:
    """A Markdown table: a system a line, and behind it its difference to the first one at three passages."""
    first = systems[0]
    lines = [
        f"| search | {' | '.join(METRICS)} | recall@{ALL_AT} against {first.name} |",
        f"|---|{'---|' * len(METRICS)}---|",
    ]
    for system in systems:
        means = [system.interval(metric).mean for metric in METRICS]
        said = " | ".join("-" if mean is None else f"{mean:.3f}" for mean in means)
        lines.append(f"| {system.name} | {said} | {'' if system is first else _against(system, first)} |")
    return "\n".join(lines) + "\n"


def _against(system: System, first: System) -> str:
    difference = system.against(first, f"recall@{ALL_AT}").difference
    if difference.mean is None:
        return ""
    return f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"


def _difference(comparison: Comparison) -> dict[str, JsonValue]:
    return {**comparison.difference.model_dump(mode="json"), "p": comparison.p}


def _document(passage_id: str, question: Question) -> str:
    """The document of a passage; an id that is gold as it is stays."""
    own, *rest = document_ids(passage_id)
    return own if own in question.gold or not rest else rest[0]

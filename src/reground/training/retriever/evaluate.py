"""What retrievers find of the gold passages, question by question, each alone and fused with the first.

Rankings are of documents: of a document's pieces the best one counts. Intervals are bootstrapped over questions, and
differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from reground.core.branches import gather
from reground.core.evidence import Retriever
from reground.evaluation.metrics.ranking import recall, reciprocal_rank
from reground.retrieval.fusion import reciprocal_rank_fusion
from reground.retrieval.pages import document_ids
from reground.training.measured import Measured, difference, figure, recorded
from reground.training.retriever.data import Question

DEPTH = 100
"""Passages of each ranking that are looked at and fused."""
CUTOFFS = (1, 3, 5, 10, 20)
ALL_AT = 3
METRICS = (*(f"recall@{k}" for k in CUTOFFS), f"all@{ALL_AT}", "MRR")
_AT_ONCE = 8

Ranking = Sequence[str]


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


def measured(name: str, questions: Sequence[Question], rankings: Mapping[str, Ranking]) -> Measured:
    """Score rankings. Questions with more than three gold documents are left out of `all@3`, which they cannot meet."""
    scores: dict[str, dict[str, float]] = {metric: {} for metric in METRICS}
    for question in questions:
        ranking, relevance = rankings[question.id], dict.fromkeys(question.gold, 1)
        for k in CUTOFFS:
            scores[f"recall@{k}"][question.id] = recall(ranking, relevance, k)
        if len(relevance) <= ALL_AT:
            scores[f"all@{ALL_AT}"][question.id] = float(relevance.keys() <= set(ranking[:ALL_AT]))
        scores["MRR"][question.id] = reciprocal_rank(ranking, relevance)
    return Measured(name, scores)


def record(systems: Sequence[Measured]) -> dict[str, JsonValue]:
    """All systems as plain data: means with intervals, and differences to the first one."""
    first = systems[0]
    return {
        system.name: {
            metric: {
                "questions": len(system.scores[metric]),
                **system.interval(metric).model_dump(mode="json"),
                **({} if system is first else {"difference": recorded(system.against(first, metric))}),
            }
            for metric in METRICS
        }
        for system in systems
    }


def table(systems: Sequence[Measured]) -> str:
    """A Markdown table: a system a line, and behind it its difference to the first one at three passages."""
    first = systems[0]
    lines = [
        f"| search | {' | '.join(METRICS)} | recall@{ALL_AT} against {first.name} |",
        f"|---|{'---|' * len(METRICS)}---|",
    ]
    for system in systems:
        said = " | ".join(figure(system.interval(metric).mean) for metric in METRICS)
        against = "" if system is first else difference(system.against(first, f"recall@{ALL_AT}"))
        lines.append(f"| {system.name} | {said} | {against} |")
    return "\n".join(lines) + "\n"


def _document(passage_id: str, question: Question) -> str:
    """The document of a passage; an id that is gold as it is stays."""
    own, *rest = document_ids(passage_id)
    return own if own in question.gold or not rest else rest[0]

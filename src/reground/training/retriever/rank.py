"""Fitting the few weights of `links` reranking: gold passages against all that was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reground.core.errors import DataError
from reground.retrieval.rerank.links import FEATURES, Linked, Weights
from reground.training.listwise import CandidateList, newton
from reground.training.retriever.data import Question, is_gold


async def candidate_lists(
    questions: Sequence[Question], search: Linked, on_question: Callable[[], None] = lambda: None
) -> list[CandidateList]:
    """What is found for each question that finds gold passages and others; the weights of `search` do not matter."""
    import numpy as np

    lists: list[CandidateList] = []
    for question in questions:
        found = await search.candidates(question.text)
        gold = np.array([float(is_gold(each.passage, question.gold)) for each in found])
        if 0 < gold.sum() < len(gold):
            lists.append((np.array([each.features for each in found]), gold / gold.sum()))
        on_question()
    return lists


def fit_weights(lists: Sequence[CandidateList]) -> Weights:
    """The weights that rank gold passages best. Raises DataError without a list."""
    if not lists:
        raise DataError("no gold passage was found for any question: there is nothing to fit the weights to")
    return Weights(**dict(zip(FEATURES, newton(lists).tolist(), strict=True)))

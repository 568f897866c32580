"""Fitting the few weights of `links` reranking.

The loss is the cross-entropy between the gold passages of a question and a softmax over all that was found (ListNet;
Cao et al. 2007, section 4.2). It is convex, and Newton's method finds its minimum in a few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reground.core.errors import DataError
from reground.retrieval.rerank.links import FEATURES, Linked, Weights
from reground.training.retriever.data import Question, is_gold

if TYPE_CHECKING:
    import numpy as np

CandidateList = tuple[Any, Any]
"""Arrays of a question's candidates: their features, and their target shares, which sum to 1."""

_STEPS = 50
_RIDGE = 1e-3
"""Keeps weights finite where the training questions are all answered right."""
_ENOUGH = 1e-9


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


def newton(lists: Sequence[CandidateList]) -> np.ndarray[Any, Any]:
    """The weights with the least mean cross-entropy."""
    import numpy as np

    weights = np.zeros(lists[0][0].shape[1])
    for _ in range(_STEPS):
        loss, gradient, hessian = _loss(lists, weights)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > _ENOUGH and _loss(lists, weights - size * step)[0] > loss:
            size /= 2
        weights = weights - size * step
        if float(np.abs(size * step).max()) < _ENOUGH:
            break
    return weights


def _loss(lists: Sequence[CandidateList], weights: Any) -> tuple[float, Any, Any]:
    """The mean cross-entropy with a ridge, its gradient and its Hessian."""
    import numpy as np

    loss = _RIDGE * float(weights @ weights)
    gradient, hessian = 2 * _RIDGE * weights, 2 * _RIDGE * np.eye(len(weights))
    for features, target in lists:
        logits = features @ weights
        highest = logits.max()
        shares = np.exp(logits - highest)
        total = shares.sum()
        shares /= total
        mean = shares @ features
        loss += float(np.log(total) + highest - target @ logits) / len(lists)
        gradient = gradient + (mean - target @ features) / len(lists)
        hessian = hessian + ((features * shares[:, None]).T @ features - np.outer(mean, mean)) / len(lists)
    return loss, gradient, hessian

"""Linear weights that put the right ones of a list first.

The loss is the cross-entropy between the right ones and a softmax over the list (ListNet; Cao et al. 2007, section
4.2); for lists of two it is the pairwise logistic loss. It is convex, and Newton's method finds its minimum in a few
steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

CandidateList = tuple[Any, Any]
"""Arrays of a list's candidates: their features, and their target shares, which sum to 1."""

_STEPS = 50
_ENOUGH = 1e-9


def newton(lists: Sequence[CandidateList], *, ridge: float = 1e-3) -> np.ndarray[Any, Any]:
    """The weights with the least mean cross-entropy.

    ridge: what their squares cost; it keeps weights finite where all lists can be ordered right.
    """
    import numpy as np

    weights = np.zeros(lists[0][0].shape[1])
    for _ in range(_STEPS):
        loss, gradient, hessian = _loss(lists, weights, ridge)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > _ENOUGH and _loss(lists, weights - size * step, ridge)[0] > loss:
            size /= 2
        weights = weights - size * step
        if float(np.abs(size * step).max()) < _ENOUGH:
            break
    return weights


def _loss(lists: Sequence[CandidateList], weights: Any, ridge: float) -> tuple[float, Any, Any]:
    """The mean cross-entropy with a ridge, its gradient and its Hessian."""
    import numpy as np

    loss = ridge * float(weights @ weights)
    gradient, hessian = 2 * ridge * weights, 2 * ridge * np.eye(len(weights))
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

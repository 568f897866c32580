"""How much a model's score of a text counts beside what else is known: a search's score and rank, a log-probability.

The weights minimise the pairwise logistic loss over held-out pairs. Over the pairs that the model was fitted to they
would trust it too much. For the same reason held-out pairs are measured by weights that were fitted to other questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reground.critics._features import FEATURES, TEXT
from reground.critics._scorers import Scorer
from reground.training.critics._items import gaps
from reground.training.rows import Preference

if TYPE_CHECKING:
    import numpy as np

    Columns = dict[str, np.ndarray[Any, Any]]

FOLDS = 5
"""Parts of the questions; each is judged by weights that were fitted to the others. Fewer questions get no weights."""
_STEPS, _ENOUGH = 50, 1e-9


def fit_mix(rows: Sequence[Preference], scorer: Scorer) -> dict[str, float]:
    """The weights for a kind's held-out pairs; none where the score of the text alone foretells their order as well."""
    return mix_of_gaps(rows, gaps(rows, scorer)) if rows else {}


def mix_of_gaps(rows: Sequence[Preference], text: Sequence[float]) -> dict[str, float]:
    """The same for known scores. text: by how much the better text of each pair scores higher."""
    import numpy as np

    columns = _columns(rows, text)
    if len(columns) < 2 or len({row.question for row in rows}) < FOLDS:
        return {}
    alone = {TEXT: columns.get(TEXT, np.zeros(len(rows)))}
    if _loss(_judged_by_others(rows, columns)) >= _loss(_judged_by_others(rows, alone)):
        return {}
    return _weights(columns)


def mixed_gaps(rows: Sequence[Preference], text: Sequence[float]) -> list[float]:
    """By how much the better one of each pair is better, by weights that were fitted to other questions."""
    return [float(gap) for gap in _judged_by_others(rows, _columns(rows, text))]


def features_gaps(rows: Sequence[Preference]) -> list[float]:
    """The same for what else is known, without a model."""
    columns = _columns(rows, [0.0] * len(rows))
    return [float(gap) for gap in _judged_by_others(rows, columns)] if columns else [0.0] * len(rows)


def _columns(rows: Sequence[Preference], text: Sequence[float]) -> Columns:
    """The difference of each pair in every number that differs anywhere."""
    import numpy as np

    found = {TEXT: np.array(text, dtype=float)}
    for name in FEATURES[rows[0].kind]:  # type: ignore[index]
        found[name] = np.array([_known(row, "chosen", name) - _known(row, "rejected", name) for row in rows])
    return {name: column for name, column in found.items() if column.any()}


def _known(row: Preference, side: str, name: str) -> float:
    about = row.extra.get(side)
    known = about.get("known") if isinstance(about, dict) else None
    value = known.get(name) if isinstance(known, dict) else None
    return float(value) if isinstance(value, int | float) else 0.0


def _weights(columns: Columns) -> dict[str, float]:
    """The best weights; a model is never trusted the other way round."""
    import numpy as np

    scales = {name: float(np.sqrt((column**2).mean())) or 1.0 for name, column in columns.items()}
    scaled = np.stack([column / scales[name] for name, column in columns.items()], axis=1)
    found = _newton(scaled, ridge=1 / (2 * len(scaled)))
    weights = {name: float(each) / scales[name] for name, each in zip(columns, found, strict=True)}
    if weights.get(TEXT, 0.0) < 0:
        rest = {name: column for name, column in columns.items() if name != TEXT}
        return {TEXT: 0.0, **(_weights(rest) if rest else {})}
    return weights


def _newton(gaps: np.ndarray[Any, Any], *, ridge: float) -> np.ndarray[Any, Any]:
    """The weights with the least loss of the weighted gaps. The loss is convex: Newton's method takes a few steps.

    gaps: a row a pair. ridge: what squared weights cost; it keeps them finite where all pairs can be ordered right.
    """
    import numpy as np

    def cost(weights: np.ndarray[Any, Any]) -> float:
        return _loss(gaps @ weights) + ridge * float(weights @ weights)

    weights = np.zeros(gaps.shape[1])
    for _ in range(_STEPS):
        wrong = np.exp(-np.logaddexp(0.0, gaps @ weights))  # the probability of the wrong order
        gradient = 2 * ridge * weights - wrong @ gaps / len(gaps)
        hessian = 2 * ridge * np.eye(len(weights)) + (gaps.T * (wrong * (1 - wrong))) @ gaps / len(gaps)
        step = np.linalg.solve(hessian, gradient)
        while cost(weights - step) > cost(weights) and np.abs(step).max() > _ENOUGH:
            step = step / 2
        weights = weights - step
        if np.abs(step).max() < _ENOUGH:
            break
    return weights


def _judged_by_others(rows: Sequence[Preference], columns: Columns) -> np.ndarray[Any, Any]:
    import numpy as np

    questions = sorted({row.question for row in rows})
    fold = {question: place % FOLDS for place, question in enumerate(questions)}
    folds = np.array([fold[row.question] for row in rows])
    gap = np.zeros(len(rows))
    for number in range(min(FOLDS, len(questions))):
        own = folds == number
        if own.all():
            continue
        weights = _weights({name: column[~own] for name, column in columns.items()})
        gap[own] = sum(weights[name] * column[own] for name, column in columns.items())
    return gap


def _loss(gap: np.ndarray[Any, Any]) -> float:
    """The mean of -log sigmoid."""
    import numpy as np

    return float(np.logaddexp(0.0, -gap).mean())

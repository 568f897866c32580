"""What is known of a candidate besides its text, and how a trained critic weighs it against the score of the text.

One function makes these numbers of siblings in training, planning and reranking. Each is taken less its mean over the
siblings that have it, so that one which is missing counts as 0: like that of an average sibling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reground.critics import Kind

STAGES = ("ROOT", "RATIONALE", "QUERY", "DOC")
GOALS = ("REASON", "GENQUERY", "RETRIEVE")

FEATURES: dict[Kind, tuple[str, ...]] = {
    "subgoal": ("rank", *(f"{stage}>{goal}" for stage in STAGES for goal in GOALS)),
    "rationale": ("logprob",),
    "query": ("logprob",),
    "doc": ("score", "rank"),
}
"""The numbers of each kind.

score: the retriever's score as a share of the best sibling's. rank: one over the place in the planner's or the
retriever's order. logprob: the generator's mean log-probability of a token. ROOT>REASON and so on: whether this is the
sub-goal, in this state; a critic of sub-goals then begins with the best constant ones, which texts improve on.
"""
TEXT = "text"
"""The name of the weight of the text's own score."""


def features(kind: Kind, candidates: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """The numbers of siblings, in the order in which they were offered.

    candidates: what their data say: `score`, `logprob`, or `stage` and `goal`. Without a positive score there is no
    share of the best.
    """
    best = max((_number(each, "score") or 0.0 for each in candidates), default=0.0)
    known: list[dict[str, float]] = []
    for place, each in enumerate(candidates):
        score = _number(each, "score")
        told = {
            "rank": 1 / (1 + place),
            "logprob": _number(each, "logprob"),
            "score": max(0.0, score / best) if score is not None and best > 0 else None,
            **{f"{each.get('stage')}>{goal}": float(goal == each.get("goal")) for goal in GOALS},
        }
        known.append({name: value for name in FEATURES[kind] if (value := told.get(name)) is not None})
    return _centred(known)


def weighed(weights: Mapping[str, float], scores: Sequence[float], known: Sequence[Mapping[str, float]]) -> list[float]:
    """The scores of texts joined with what else is known of them; without weights the scores as they are."""
    if not weights:
        return list(scores)
    return [
        weights.get(TEXT, 1.0) * score + sum(weights.get(name, 0.0) * value for name, value in each.items())
        for score, each in zip(scores, known, strict=True)
    ]


def _number(data: Mapping[str, Any], name: str) -> float | None:
    value = data.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _centred(known: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    names = {name for each in known for name in each}
    held = {name: [each[name] for each in known if name in each] for name in names}
    means = {name: sum(values) / len(values) for name, values in held.items()}
    return [{name: value - means[name] for name, value in each.items()} for each in known]

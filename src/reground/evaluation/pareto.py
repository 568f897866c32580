"""Which runs no other one dominates: none scores as well for less, or better for as much."""

from __future__ import annotations

from collections.abc import Sequence


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether a point is nowhere worse than another one and somewhere better. Less is better in every coordinate."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and any(a < b for a, b in zip(one, other, strict=True))


def undominated(points: Sequence[Sequence[float]]) -> list[bool]:
    """For each point, whether no other point dominates it (Pareto's optimum). Less is better in every coordinate.

    Equal points do not dominate each other. Raises ValueError for points of different length.
    """
    return [not any(dominates(other, point) for other in points) for point in points]

"""The settings of a tree search."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one search. Raises ValueError, naming the setting, for an invalid value.

    CR-Planner's paper gives neither the number of simulations nor c.
    """

    simulations: int = 100
    """Number of simulations: the paper's N steps."""

    c: float = math.sqrt(2)
    """Weight of exploration in UCB1, in units of the reward; sqrt(2) is UCB1's own for rewards between 0 and 1."""

    in_flight: int = 1
    """Maximum number of unfinished simulations. One is the serial algorithm; the tree depends on this number,
    never on timing. Keep it well below `simulations`: a selection does not see the last `in_flight` rewards. Where
    calls take uneven time, twice the model's slots keeps them full, with the model's own limit on calls at once."""

    virtual_loss: float = 0.0
    """How far below the mean so far an unfinished simulation is counted, in units of the reward. 0 expects it to bring
    that mean, which comes nearest to the serial search; more spreads simulations in flight over more branches."""

    max_depth: int | None = None
    """Nodes this deep are not expanded (the root has depth 0); None is no limit."""

    seed: int = 0
    """Seed for the order in which new siblings are tried and ties are broken. Nothing else is random."""

    def __post_init__(self) -> None:
        for name in ("simulations", "in_flight"):
            _require(_whole(getattr(self, name)), name, "a whole number, at least 1", getattr(self, name))
        for name in ("c", "virtual_loss"):
            _require(_weight(getattr(self, name)), name, "a finite number, not negative", getattr(self, name))
        deep = self.max_depth is None or _whole(self.max_depth)
        _require(deep, "max_depth", "a whole number, at least 1, or None for no limit", self.max_depth)
        _require(isinstance(self.seed, int), "seed", "a whole number", self.seed)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _weight(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _require(holds: bool, name: str, what: str, got: object) -> None:
    if not holds:
        raise ValueError(f"{name} must be {what}, not {got!r}")

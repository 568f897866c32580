"""Settings of the stages; the command line's options descend from them."""

from __future__ import annotations

from dataclasses import dataclass, field

from reground.core.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """Which pairs of siblings are kept."""

    min_visits: int = field(default=2, metadata={"min": 1})
    """The fewest simulations through each of the two. The mean of one is mostly noise."""

    min_margin: float = field(default=0.0, metadata={"min": 0})
    """The smallest difference of their mean rewards. Equal means never make a pair."""

    held_out: float = field(default=0.2, metadata={"min": 0})
    """The share of the questions whose pairs measure the critics and are not trained on."""

    gold_documents: bool = False
    """Also put a gold passage above a sibling that is none, where the task knows the gold passages."""

    seed: int = 0
    """Draws the held-out questions."""

    def __post_init__(self) -> None:
        if self.min_visits < 1:
            raise ConfigurationError(f"min_visits must be at least 1, not {self.min_visits}")
        if not 0 <= self.held_out < 1:
            raise ConfigurationError(f"held_out is a share from 0 to below 1, not {self.held_out}")

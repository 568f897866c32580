"""The settings of a rewriter's warm-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reground.core.errors import ConfigurationError

Proof = Literal["answer", "passages", "either"]


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """Which rewritings are kept."""

    proof: Proof = "either"
    """What shows that a rewriting is good: answer (the final answer was right, as in the paper), passages (what was
    read holds the answer), or either."""

    copies: float = 0.3
    """The largest share of questions that are their own rewriting."""

    seed: int = 0
    """Draws which copies are kept, and the order of the rows."""

    def __post_init__(self) -> None:
        if not 0 <= self.copies < 1:
            raise ConfigurationError(f"copies is a share from 0 to below 1, not {self.copies}")

"""What demonstrations for the Search Agent are made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from reground.core.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Demonstrating:
    """How the demonstrations are made."""

    max_searches: int = field(default=3, metadata={"min": 1})
    """Searches a question, at most."""

    k: int = field(default=3, metadata={"min": 1})
    """Results of a search."""

    snippet_tokens: int = field(default=160, metadata={"min": 16})
    """The most tokens of a result."""

    complete: float = field(default=0.0, metadata={"min": 0})
    """The share of questions whose gold passages are put among those found, so that more of them can be answered."""

    seed: int = 0
    """Draws the questions and what is done with each."""

    def __post_init__(self) -> None:
        if not 0 <= self.complete <= 1:
            raise ConfigurationError(f"complete is a share between 0 and 1, not {self.complete}")

"""What demonstrations for a reader are made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from reground.core.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the demonstrations are made."""

    repeats: int = field(default=1, metadata={"min": 1})
    """How often each question is asked, each time with another draw."""

    unanswerable: float = field(default=0.25, metadata={"min": 0})
    """The share of questions whose gold passages are hidden, so that the model learns to say so."""

    most_passages: int = field(default=4, metadata={"min": 2})
    """Passages in a search, at most; from 2 on, drawn for each question."""

    passage_tokens: int = field(default=300, metadata={"min": 16})
    """The most tokens of a passage, as in the preset grounded+reader."""

    seed: int = 0
    """Draws the questions and what is done with each."""

    def __post_init__(self) -> None:
        if not 0 <= self.unanswerable <= 1:
            raise ConfigurationError(f"unanswerable is a share between 0 and 1, not {self.unanswerable}")

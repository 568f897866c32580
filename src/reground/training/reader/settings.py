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

    complete: float = field(default=0.0, metadata={"min": 0})
    """The share of questions whose gold passages are put among those found, so that more of them can be answered."""

    most_passages: int = field(default=4, metadata={"min": 2})
    """Passages in a search, at most; from 2 on, drawn for each question."""

    passage_tokens: int = field(default=300, metadata={"min": 16})
    """The most tokens of a passage, as in the preset grounded+reader."""

    seed: int = 0
    """Draws the questions and what is done with each."""

    def __post_init__(self) -> None:
        if min(self.unanswerable, self.complete) < 0 or self.unanswerable + self.complete > 1:
            raise ConfigurationError(
                f"unanswerable and complete are shares of the same questions: {self.unanswerable} and {self.complete} "
                "must be 0 or more, and together at most 1"
            )

"""The options of `questions`; see `reground.app.options`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from reground.app.options import DEFAULT_MODEL, Fresh
from reground.app.options_documents import Language
from reground.core.budget import Budget
from reground.models.options import ModelOptions

_MODEL, _BUDGET = ({"panel": title} for title in ("Model", "Budget"))


@dataclass(frozen=True, kw_only=True)
class Propose(Language, Fresh):
    """The options of `questions`."""

    corpus: Path = field(metadata={"short": "-c"})
    """A folder of documents or a JSONL file."""

    out: Path = field(default=Path("questions.jsonl"), metadata={"short": "-o"})
    """The file for the questions, one a line. A file that was edited is never replaced."""

    count: int = field(default=50, metadata={"short": "-n", "min": 1})
    """How many questions to propose."""

    tries: int | None = field(default=None, metadata={"min": 1})
    """The most pairs of passages to try; ten for each question by default."""

    seed: int = 0
    """Draws the pairs of passages."""

    concurrency: int = field(default=4, metadata={"short": "-j", "min": 1})
    """Pairs in work at once."""

    model: str = DEFAULT_MODEL
    """provider/model; see `reground models`."""

    model_options: ModelOptions = field(default_factory=ModelOptions, metadata=_MODEL)
    """Where and how to reach the model."""

    budget: Budget = field(default_factory=Budget, metadata={"prefix": "budget_", "min": 1, **_BUDGET})
    """The most that all questions together may cost."""

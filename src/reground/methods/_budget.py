"""How a method keeps room for what it still has to do."""

from __future__ import annotations

from reground.core.budget import estimate_tokens
from reground.core.language import as_messages
from reground.core.run import Run

INSTRUCTIONS = 160
"""Tokens reckoned for the fixed words of a prompt and a question, when a method is scaled to a budget."""

PASSAGE = 250
"""Tokens reckoned for a passage when a method is scaled to a budget; retrieved pieces are often shorter."""

SHORT = 100
"""Tokens reckoned for a passage where a limit of tokens cuts those that are too many."""

FENCE = 24
"""Tokens reckoned for the lines around a passage: its number and its title."""

QUESTION = 40
"""Tokens reckoned for a question where the fixed words of a prompt are counted."""

LEAST_PASSAGE = 64
"""No budget cuts a passage shorter than this."""


def tokens_of(text: str) -> int:
    """A text's length in tokens as budgets estimate it."""
    return estimate_tokens(as_messages(text))


def affords(run: Run, *, calls: int, tokens: int) -> bool:
    """Whether the run's budget still covers so many calls and tokens. Time and money are not foreseen."""
    budget, left = run.meter.budget, run.meter.room()
    enough_calls = budget.calls is None or budget.calls - run.usage.calls >= calls
    return enough_calls and (left is None or left >= tokens)

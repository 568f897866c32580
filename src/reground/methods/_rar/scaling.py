"""How RaR grows with a token budget: as in the paper, and grounded."""

from __future__ import annotations

from typing import TypedDict

from reground.methods._budget import INSTRUCTIONS, LEAST_PASSAGE, PASSAGE, QUESTION, tokens_of
from reground.methods._rar.prompts import Prompts
from reground.methods._rar.reading import ROUND, SHARES


class PaperScale(TypedDict):
    """The settings of the paper's RaR that grow with a budget."""

    max_steps: int
    max_rounds: int
    passage_tokens: int


def paper_at(tokens: int, prompts: Prompts, *, k: int, most_steps: int, longest: int, max_tokens: int) -> PaperScale:
    """As many steps as fit, each a cycle of three calls; rounds that the budget or convergence ends; passages cut so that one
    cycle fits, and never longer than `longest`."""
    text = max_tokens // 4
    step = 3 * INSTRUCTIONS + 2 * k * PASSAGE + 2 * text
    steps = min(most_steps, max(1, (tokens - INSTRUCTIONS - text) // step))
    return {
        "max_steps": steps,
        "max_rounds": max(1, tokens // step),
        "passage_tokens": min(longest, _passage_in_one_cycle(tokens - 2 * text, prompts, k=k, text=text)),
    }


def _passage_in_one_cycle(tokens: int, prompts: Prompts, *, k: int, text: int) -> int:
    """The longest passage with which a draft, a query, a reflection and a refinement fit: a budget that ends between
    a reflection and its refinement has bought nothing."""
    asked = (prompts.draft, prompts.query, prompts.reflect, prompts.refine_last)
    fixed = sum(tokens_of(prompt) + QUESTION + text for prompt in asked) + text
    return max(LEAST_PASSAGE, (tokens - fixed) // (2 * k))


class GroundedScale(TypedDict):
    """The settings of a grounded RaR that grow with a budget."""

    ground: int
    k: int
    max_rounds: int
    context_tokens: int


def grounded_at(tokens: int, most_rounds: int, max_tokens: int) -> GroundedScale:
    """A draft and one round up to 4,000 tokens, another round for every 4,000 more.

    A draft and a round ask for as many passages as a call's share holds of usual length: a small model answers worse from many.
    How many of all those found a prompt then holds, and how long each is, follows from what the run's budget has left when it is
    asked (`reading.py`), and is half of it at the most.
    """
    rounds = max(1, min(most_rounds, tokens // 4000))
    share = tokens // (SHARES["draft"] + ROUND * rounds)
    whole = max(LEAST_PASSAGE, SHARES["draft"] * share - INSTRUCTIONS - max_tokens // 8)
    return {
        "ground": max(1, whole // PASSAGE),
        "k": max(1, whole // PASSAGE),
        "max_rounds": rounds,
        "context_tokens": max(LEAST_PASSAGE, tokens // 2),
    }

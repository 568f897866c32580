"""How RaR grows with a token budget: as in the paper, and grounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from reground.core.run import Run
from reground.methods._budget import FENCE, INSTRUCTIONS, LEAST_PASSAGE, PASSAGE, QUESTION, affords, tokens_of
from reground.methods._rar.prompts import Prompts
from reground.methods._rar.reading import READABLE, shares_from


class PaperScale(TypedDict):
    """The settings of the paper's RaR that grow with a budget."""

    max_steps: int
    max_rounds: int
    max_contents: int
    passage_tokens: int


def paper_at(tokens: int, prompts: Prompts, *, k: int, most_steps: int, longest: int, max_tokens: int) -> PaperScale:
    """As many steps as fit, each a cycle of three calls; rounds that the budget or convergence ends; as many passages
    as both retrieve (section 3.3: n iterations, n * top-k documents), cut so that one cycle fits, and never longer than
    `longest`."""
    text = max_tokens // 4
    step = 3 * INSTRUCTIONS + 2 * k * PASSAGE + 2 * text
    steps = min(most_steps, max(1, (tokens - INSTRUCTIONS - text) // step))
    rounds = max(1, tokens // step)
    return {
        "max_steps": steps,
        "max_rounds": rounds,
        "max_contents": k * (steps + rounds),
        "passage_tokens": min(longest, _passage_in_one_cycle(tokens - 2 * text, prompts, k=k, text=text)),
    }


def _passage_in_one_cycle(tokens: int, prompts: Prompts, *, k: int, text: int) -> int:
    """The longest passage with which a draft, a query, a reflection and a refinement fit: a budget that ends between
    a reflection and its refinement has bought nothing."""
    asked = (prompts.draft, prompts.query, prompts.reflect, prompts.refine_last)
    fixed = sum(tokens_of(prompt) + QUESTION + text for prompt in asked) + text
    return max(LEAST_PASSAGE, (tokens - fixed) // (2 * k))


def affordable_steps(run: Run, question: str, drafts: Sequence[str], *, calls: int) -> int:
    """How many whole cycles of phase 1, of so many calls each, the run's budget covers, at least one if there is a
    step: queries that no refinement can follow are not worth asking."""
    size = INSTRUCTIONS + tokens_of(question)
    for count in range(len(drafts), 0, -1):
        read = sum(tokens_of(draft) for draft in drafts[:count])
        if affords(run, calls=calls * count, tokens=count * calls * size + 3 * read):
            return count
    return min(1, len(drafts))


class GroundedScale(TypedDict):
    """The settings of a grounded RaR that grow with a budget."""

    ground: int
    k: int
    max_rounds: int
    max_contents: None
    context_tokens: int


def grounded_at(tokens: int, most_rounds: int, max_tokens: int) -> GroundedScale:
    """A draft and one round up to 4,000 tokens, another round for every 4,000 more.

    A draft and a round ask for as many passages as a share (`reading.py`) holds of the least length: a small model
    answers worse from many. How many of them a prompt then holds, and how long each is, follows from what the run's
    budget has left when it is asked, and is half of it at the most; so no number of passages bounds it besides.
    """
    rounds = max(1, min(most_rounds, tokens // 4000))
    share = tokens // shares_from("draft", 0, rounds)
    passages = max(1, (share - INSTRUCTIONS - max_tokens // 8) // (READABLE + FENCE))
    return {
        "ground": passages,
        "k": passages,
        "max_rounds": rounds,
        "max_contents": None,
        "context_tokens": max(LEAST_PASSAGE, tokens // 2),
    }

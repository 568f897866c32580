"""RaR for small models: drafted from evidence, and revised in one call (docs/reproduction shows what it is worth)."""

from __future__ import annotations

from typing import TypedDict

from reground.methods._budget import INSTRUCTIONS, SHORT

GROUNDED: dict[str, object] = {
    "ground": 3,
    "k": 3,
    "max_steps": 0,
    "max_rounds": 2,
    "m": 2,
    "query_from": "names",
    "reflect": False,
    "reasoned": False,
    "revise": "afresh",
    "accept": "surer",
    "evidence": "all",
}
"""A draft from memory misleads the queries of a model that knows little, its reflections find no errors, and a refinement clings
to what it refines. So the draft rests on what the question finds, the model names what to read next, one call answers again from
everything, without the answer before, and of both answers the surer one stays."""


class Scale(TypedDict):
    """The settings that grow with a budget."""

    ground: int
    k: int
    max_rounds: int
    context_tokens: int


def grounded_at(tokens: int, most_rounds: int, max_tokens: int) -> Scale:
    """A draft and one round up to 4,000 tokens, another round for every 4,000 more.

    A draft's call and a query's read a share of the budget each, the call that revises twice as much: the
    difference is what its new passages fill.
    """
    rounds = max(1, min(most_rounds, tokens // 4000))
    share = tokens / (1 + 3 * rounds)
    draft = max(1, int(share) - INSTRUCTIONS - max_tokens // 8)
    whole = max(1, int(2 * share) - INSTRUCTIONS - max_tokens // 4)
    return {
        "ground": max(1, draft // SHORT),
        "k": max(1, (whole - draft) // SHORT),
        "max_rounds": rounds,
        "context_tokens": whole,
    }

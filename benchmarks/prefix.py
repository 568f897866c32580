"""How much of its prompts a server could have reused: the beginning that each call shares with an earlier one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

Tokens = list[int]


@dataclass(frozen=True)
class Read:
    """A call as a server read it.

    tokens: those of the prompt and of the reply. prompt: how many of them are the prompt's. began, ended: seconds.
    """

    tokens: Tokens
    prompt: int
    began: float
    ended: float


def reusable(calls: Sequence[Read], *, answered: bool) -> list[int]:
    """For each call, the tokens at the beginning of its prompt that any earlier call's prompt and reply begin with.

    This is what a server with an unbounded cache would not read again. At least one token of a prompt is always read.

    answered: True counts a call as earlier once its reply is there, False from the moment when it is sent. What is sent
    at the same time can only be shared by a server that lets calls wait for each other.
    """
    measure, enter = 1, 0 if answered else 2
    marks = [(call.began, measure, i) for i, call in enumerate(calls)]
    marks += [(call.ended if answered else call.began, enter, i) for i, call in enumerate(calls)]
    known: list[Tokens] = []
    found = [0] * len(calls)
    for _, what, i in sorted(marks):
        call = calls[i]
        if what == enter:
            insort(known, call.tokens)
        else:
            found[i] = max(0, min(_longest(known, call.tokens[: call.prompt]), call.prompt - 1))
    return found


def _longest(known: Sequence[Tokens], tokens: Tokens) -> int:
    """The longest beginning shared with any of these, which are sorted: with a neighbour of its place among them."""
    at = bisect_left(known, tokens)
    return max((_common(tokens, other) for other in known[max(0, at - 1) : at + 1]), default=0)


def _common(a: Tokens, b: Tokens) -> int:
    return next((i for i, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))

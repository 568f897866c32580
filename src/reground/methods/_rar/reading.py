"""What the calls of a RaR read: the passages that are held, cut to what the budget leaves each call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from reground.core.run import Run
from reground.methods._budget import INSTRUCTIONS, tokens_of
from reground.methods._evidence import Evidence

if TYPE_CHECKING:
    from reground.methods.rar import RaR

Call = Literal["draft", "query", "refine"]

SHARES: dict[Call, int] = {"draft": 2, "query": 1, "refine": 2}
"""How the calls of a grounded RaR share what a budget has left: naming what to read next takes less than answering."""

ROUND = SHARES["query"] + SHARES["refine"]

READABLE = 128
"""A passage is cut no shorter while another one can be left out instead; its first sentences say what it is about."""


class Reading:
    """All passages of a question, and which of them are held to be read again."""

    def __init__(self, config: RaR, question: str) -> None:
        self.config = config
        self.question = question
        self.evidence = Evidence()
        self.held: list[int] = []

    def hold(self, markers: Sequence[int]) -> None:
        """Keep passages for the calls to come."""
        self.held += [marker for marker in markers if marker not in self.held]

    def shown(self, markers: Sequence[int], run: Run, *, call: Call, number: int) -> str:
        """The passages of a prompt: the new ones, and those held from before where all are to be read; in round `number`, 0 the draft."""
        config = self.config
        held = [marker for marker in self.held if marker not in markers]
        wanted = [*markers, *held] if config.evidence == "all" or not markers else list(markers)
        longest = config.passage_tokens
        most = self._room(run, call, number) if config.ground else config.context_tokens
        least = min(READABLE, longest) if config.ground else longest
        kept, tokens = self.evidence.cut(wanted, tokens=longest, most=most, least=least)
        return self.evidence.show(sorted(kept), tokens=tokens)

    def _room(self, run: Run, call: Call, number: int) -> int | None:
        """The tokens of passages that a call may read: its share of what the budget has left, and `context_tokens` at most."""
        left, most = run.meter.room(), self.config.context_tokens
        if left is None:
            return most
        own = SHARES[call]
        after = SHARES["refine"] if call == "query" else 0
        share = left * own // (own + after + ROUND * (self.config.max_rounds - number))
        room = max(1, share - INSTRUCTIONS - tokens_of(self.question) - self.config.max_tokens // 8)
        return room if most is None else min(room, most)

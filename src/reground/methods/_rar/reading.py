"""What the calls of a RaR read: the passages that are held, each cut once, so that a prompt only grows at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from reground.core.run import Run
from reground.methods._budget import INSTRUCTIONS, tokens_of
from reground.methods._evidence import Evidence

if TYPE_CHECKING:
    from reground.methods.rar import RaR

Call = Literal["draft", "query", "refine"]

READABLE = 128
"""A passage is cut no shorter while another one can be left out instead; its first sentences say what it is about."""


def shares(call: Call, number: int) -> int:
    """How many shares of a budget a call reads in round `number`, 0 the draft: every round brings as much as the draft
    read and is read behind it; naming what to read next takes the first share alone."""
    return number + 1 if call == "refine" else 1


def shares_from(call: Call, number: int, rounds: int) -> int:
    """The shares of this call and of all that follow it."""
    later = sum(shares("query", n) + shares("refine", n) for n in range(number + 1, rounds + 1))
    return shares(call, number) + (shares("refine", number) if call == "query" else 0) + later


class Reading:
    """All passages of a question, which of them are held to be read again, and where each is cut.

    A passage keeps the cut and the place that it was first shown with: the passages of a prompt are then a beginning of
    those that the next one shows, which a server has read already.
    """

    def __init__(self, config: RaR, question: str) -> None:
        self.config = config
        self.question = question
        self.evidence = Evidence()
        self.held: list[int] = []
        self._cuts: dict[int, int] = {}

    def shown(self, markers: Sequence[int], run: Run, *, call: Call, number: int) -> str:
        """The passages of a prompt: those held, where all are to be read, and the new ones behind them; in round
        `number`, 0 the draft.

        Where not all fit, the new ones come first, as they are why the call is made; then those found first. One stays,
        if there is one. What a draft or a refinement has no room for is held no longer: shown again later, it would
        stand between others.
        """
        config = self.config
        room = self._room(run, call, number) if config.ground else config.context_tokens
        held = self.held if config.evidence == "all" or not markers else []
        new = [marker for marker in markers if marker not in held]
        kept = self._fitting(held, room, beside=self._new(new, room, least=True))
        for marker, cut in self._new(new, room, beside=kept).items():
            kept[marker] = self._cuts.setdefault(marker, cut)
        if call != "query":
            self.held = [*(marker for marker in self.held if not held and marker not in kept), *kept]
        return self._show(kept)

    def _new(
        self, markers: Sequence[int], room: int | None, *, beside: dict[int, int] | None = None, least: bool = False
    ) -> dict[int, int]:
        """The cuts of new passages: as long as the room beside the others allows, or as short as they are ever cut."""
        longest = self.config.passage_tokens
        shortest = min(READABLE, longest) if self.config.ground else longest
        left = None if room is None else room - self._size(beside or {})
        kept, cut = self.evidence.cut(markers, tokens=longest, most=left, least=shortest)
        return dict.fromkeys(kept, shortest if least else cut)

    def _fitting(self, held: Sequence[int], room: int | None, *, beside: dict[int, int]) -> dict[int, int]:
        """The first of the passages held, cut as they were, that fit beside the others; one at least if there are no
        others."""
        kept: dict[int, int] = {}
        for marker in held:
            more = kept | {marker: self._cuts.get(marker, self.config.passage_tokens)}
            if room is not None and (kept or beside) and self._size(more) + self._size(beside) > room:
                break
            kept = more
        return kept

    def _size(self, cuts: dict[int, int]) -> int:
        return tokens_of(self._show(cuts)) if cuts else 0

    def _show(self, cuts: dict[int, int]) -> str:
        """The fenced passages, each with its cut, in the order in which they were first shown."""
        return "\n".join(self.evidence.show([marker], tokens=cut) for marker, cut in cuts.items())

    def _room(self, run: Run, call: Call, number: int) -> int | None:
        """The tokens of passages that a call may read: its share of what the budget has left, and `context_tokens` at
        most."""
        left, most = run.meter.room(), self.config.context_tokens
        if left is None:
            return most
        share = left * shares(call, number) // shares_from(call, number, self.config.max_rounds)
        room = max(1, share - INSTRUCTIONS - tokens_of(self.question) - self.config.max_tokens // 8)
        return room if most is None else min(room, most)

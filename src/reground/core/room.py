"""How much room a reasoning model's thoughts need beyond the length that a method allows for a text.

Methods limit their replies to what the text needs: a query, a sentence, a verdict. A thought would use that up. What a
model needs is learnt from its replies; a model that shows no thoughts never gets any room.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from reground.core.language import LanguageModel, Reply, Sampling, tokens_of

LEAST, MOST = 256, 16384
FIRST, TIMES = 4096, 15
"""The second call gets this many tokens, or this many times its limit, beyond the limit."""
_rooms: dict[int, int] = {}
"""What has been learnt, by the id of each model that lives."""


def is_all_thought(reply: Reply) -> bool:
    """Whether a reply has no text beside its thought. Of a hidden thought only the cut is seen."""
    if reply.reasoning is not None:
        return not reply.text.strip()
    return reply.finish_reason == "length" and not reply.text


def lacks_room(reply: Reply, sampling: Sampling) -> bool:
    """Whether a reply ended in its thought, or before its text could have as many tokens as the sampling allows.

    The length limit may have cut it, or a stop string in the thought. Where a model that thinks shows no end of the
    thought, all may be thought, because the opening stood in the prompt.
    """
    if reply.finish_reason != "length":
        return bool(sampling.stop) and reply.finish_reason == "stop" and is_all_thought(reply)
    if is_all_thought(reply):
        return True
    return tokens_of(reply.text) < sampling.max_tokens if reply.reasoning else reply.room > 0


def ended_at(reply: Reply, stop: Sequence[str]) -> Reply:
    """The reply up to the first stop string in its text, as a server ends it."""
    ends = [at for at in (reply.text.find(string) for string in stop) if at >= 0]
    return reply.upto(min(ends)).model_copy(update={"finish_reason": "stop"}) if ends else reply


def room_of(model: LanguageModel) -> int:
    """The tokens that a model gets beyond a call's limit, for its thought: 0 until one has been seen."""
    return _rooms.get(id(model), 0)


def more_room(limit: int, before: int) -> int:
    """The tokens beyond its limit that a call gets whose thought found no end with `before`."""
    return min(MOST, max(FIRST, TIMES * limit, 4 * before))


def less_room(room: int) -> int:
    """What is tried next where a model's context has no place for this much."""
    return room // 2 if room >= 2 * LEAST else 0


def learn(model: LanguageModel, replies: Sequence[Reply]) -> None:
    """Remember how much room a model's thoughts need, as long as the model lives.

    It is twice the longest thought, as a power of two. Of a hidden thought only the room that it got is known.
    """
    thought = max((tokens_of(reply.reasoning) for reply in replies if reply.reasoning), default=0)
    room = max(LEAST, 1 << (2 * thought).bit_length()) if thought else _room_used(replies)
    room = min(room, MOST)
    if room <= room_of(model):
        return
    if id(model) not in _rooms:
        try:
            weakref.finalize(model, _rooms.pop, id(model), None).atexit = False
        except TypeError:  # nobody would tell when another model gets its id
            return
    _rooms[id(model)] = room


def _room_used(replies: Sequence[Reply]) -> int:
    wrote = any(reply.text or reply.usage.completion for reply in replies)
    return max((reply.room for reply in replies), default=0) if wrote else 0

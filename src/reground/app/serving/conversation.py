"""A follow-up as a question of its own: retrieval needs what "and when did she die?" leaves out."""

from __future__ import annotations

from collections.abc import Sequence

from reground.core.errors import ConfigurationError
from reground.core.language import LanguageModel, Message, Sampling
from reground.core.run import Run
from reground.text.excerpts import terms

TURNS = 8
"""The last turns before the question that are shown to the model."""

_TURN = 1500
"""Characters of a turn that are shown, from its beginning."""

_PROMPT = """\
Below is a conversation and its last message. Write the last message as one question that can be understood without the
conversation: put the names in place of "it", "she" or "there", and change nothing else. Write the question alone.

Conversation:
{conversation}

Last message: {last}

Question:"""


def question_of(turns: Sequence[Message]) -> str:
    """The last message of the user. Raises ConfigurationError where there is none, or it is empty."""
    last = next((turn.content for turn in reversed(turns) if turn.role == "user"), "")
    if not last.strip():
        raise ConfigurationError("the conversation has no question: its last message of the user is empty")
    return last.strip()


async def condensed(run: Run, model: LanguageModel, turns: Sequence[Message]) -> str:
    """The last message of the user as a question of its own.

    The first question of a conversation stays as it is, without a call. Messages of the system are no part of the
    conversation. Where the model writes nothing, the message stays as it is too. Where it writes something that shares
    no word with the message, as small models do, the message stands behind the question before it.
    """
    last, said = question_of(turns), [turn for turn in turns if turn.role != "system"]
    place = max(number for number, turn in enumerate(said) if turn.role == "user")
    if not any(turn.content.strip() for turn in said[:place]):
        return last
    shown = "\n".join(f"{turn.role}: {turn.content.strip()[:_TURN]}" for turn in said[max(0, place - TURNS) : place])
    prompt = _PROMPT.format(conversation=shown, last=last[:_TURN])
    reply = (await run.generate(model, prompt, name="follow-up", sampling=Sampling(max_tokens=128)))[0]
    lines = [line.strip() for line in reply.text.splitlines() if line.strip()]
    if not lines or not set(terms(last)).isdisjoint(terms(lines[0])):
        return lines[0] if lines else last
    before = next((turn.content.strip() for turn in reversed(said[:place]) if turn.role == "user"), "")
    return f"{before[:_TURN]} {last}".strip()

"""Reads the one step in a reply of the generator. Nothing here raises, whatever the text."""

from __future__ import annotations

import re

from reground.core.answers import AnswerForm
from reground.methods.shared.steps import split_answer, squeezed

END = "[END]"
"""Ends a step; generation stops there."""

_STEP = re.compile(r"^[\s>*_#-]*+(?:next\s++)?+step\b\s*+\d*+\s*+[*_]*+\s*+[.:)][\s*_]*+", re.IGNORECASE)
_LATER = re.compile(
    r"(?im)^[ \t>*_#-]*+(?:next\s++)?+step\s*+\d++\s*+[*_]*+\s*+[.:)]|^[ \t]*+(?:<passage\b|search query:)"
)


def read_step(reply: str, form: AnswerForm) -> str:
    """The first step in a reply, without its label and without later steps. Empty if it says nothing."""
    text = _STEP.sub("", reply.partition(END)[0].strip(), count=1)
    _, answer = split_answer(text, form)
    text = text[: _later(text, text.rindex(answer) if answer else len(text))].strip()
    return text if any(char.isalnum() for char in text) else ""


def _later(text: str, answer: int) -> int:
    """Where a later step begins. Lines of the answer or of a code block do not count, even if they look like steps."""
    fences = seen = 0
    for found in _LATER.finditer(text, 0, answer):
        fences += text.count("```", seen, found.start())
        seen = found.start()
        if fences % 2 == 0:
            return seen
    return len(text)


def key(text: str) -> str:
    """The text without differences of case and white space, to find repeated ones."""
    return squeezed(text).casefold()

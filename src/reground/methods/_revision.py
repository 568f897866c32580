"""When a revision may take the place of what it revises, and what is left of a reply that never came to an end."""

from __future__ import annotations

import re
from collections import Counter

from reground.core.answers import AnswerForm
from reground.core.language import Reply
from reground.core.run import Run

_SENTENCE = re.compile(r"[^.!?\n]*[.!?\n]+\s*|[^.!?\n]+$")
_LABEL = re.compile(r"^[A-Z][^.!?]{2,60}:$")
_NUMBER = re.compile(r"^\W*(?:step\s*)?\d+\s*[.:)]\s*")
_LOOP = 3


def accepted(reply: Reply, run: Run, form: AnswerForm, *, prompt: str = "") -> str | None:
    """The revision, or None if it is empty or was cut before its end: then what was there before stands, and a note says why."""
    text = without_echo(readable(reply, form), prompt)
    if not text:
        run.note("revision empty", kept="the text before")
        return None
    if reply.finish_reason == "length":
        if text == reply.text.strip():
            run.note("revision cut", kept="the text before", written=text)
            return None
        run.note("loop cut", kept=text)
    return text


def readable(reply: Reply, form: AnswerForm) -> str:
    """The reply's text. One that the length limit cut while it said the same again and again, as small models do, ends before that.

    Code is left as it is: there lines may well repeat.
    """
    if reply.finish_reason == "length" and not form.draft_is_query:
        return unlooped(reply.text)
    return reply.text.strip()


def without_echo(text: str, prompt: str) -> str:
    """The text without what a small model repeats of its prompt: labels that it begins with, and all from a later label
    or from the last instruction on. A label is a line of the prompt that ends in a colon."""
    labels = {line.strip() for line in prompt.splitlines() if _LABEL.match(line)}
    task = prompt.rstrip().rpartition("\n")[2].strip()
    lines = text.splitlines()
    while lines and (not lines[0].strip() or lines[0].strip() in labels):
        lines.pop(0)
    end = next((i for i, line in enumerate(lines) if line.strip() in labels or line.strip() == task != ""), len(lines))
    return "\n".join(lines[:end]).strip()


def unlooped(text: str) -> str:
    """The text up to where a sentence that stands in it three times or more comes for the second time.

    A step's number before it makes no new sentence.
    """
    sentences = _SENTENCE.findall(text)
    keys = [_NUMBER.sub("", " ".join(sentence.split()).casefold()) for sentence in sentences]
    looping = {key for key, count in Counter(keys).items() if key and count >= _LOOP}
    seen: set[str] = set()
    for i, key in enumerate(keys):
        if key in looping and key in seen:
            return "".join(sentences[:i]).strip()
        seen.add(key)
    return text.strip()


def sound(reflection: str) -> bool:
    """Whether a reflection found no error: it is a bare OK."""
    return reflection.strip().strip("*_`\"'.! ").casefold() == "ok"


def errors_of(reflection: str) -> str:
    """The errors as a refinement's prompt lists them: a bare OK, shown there, was copied by small models as a part of the text."""
    return "none" if sound(reflection) else reflection

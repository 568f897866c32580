"""When a revision may take the place of what it revises, and what is left of a reply that never came to an end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.answers import AnswerForm
from reground.core.language import Reply
from reground.core.run import Run
from reground.methods.shared.sentences import sentences
from reground.methods.shared.steps import dropped_steps, join_steps, restore_steps, split_answer, split_steps, squeezed

_NUMBER = re.compile(r"^\W*+(?:step\s*+)?+\d++\s*+[.:)]\s*+")
_LOOP = 3
_TASK = 20
"""The fewest characters by which a template's last line is known again in a reply."""


def accepted(reply: Reply, run: Run, form: AnswerForm, *, template: str, before: str) -> str | None:
    """The revision, or None if it is empty or was cut before its end: then the text before stands. A note says why.

    template: the template of the prompt, whose labels a small model repeats. before: the text under revision, whose own
    lines are never taken for the template's.
    """
    said = readable(reply, form)
    found = without_echo(said, template, before)
    if not found.text:
        run.note("revision empty", kept="the text before")
        return None
    if found.behind:
        run.note("echo cut", kept=found.text, left_out=found.behind)
    elif reply.finish_reason == "length":
        if said == reply.text.strip():
            run.note("revision cut", kept="the text before", written=found.text)
            return None
        run.note("loop cut", kept=found.text)
    return found.text


def readable(reply: Reply, form: AnswerForm) -> str:
    """The reply's text; one that the length limit cut in a loop, as small models fall into, ends before that.

    Code is left as it is: there lines may well repeat.
    """
    if reply.finish_reason == "length" and not form.draft_is_query:
        return unlooped(reply.text)
    return reply.text.strip()


@dataclass(frozen=True)
class Unechoed:
    """A reply's own text, and what stood behind it from the first repeated line of the prompt on; mostly empty."""

    text: str
    behind: str = ""


def without_echo(text: str, template: str, before: str = "") -> Unechoed:
    """The text without what a small model repeats of its prompt: labels or the task that it begins with, and all from a
    later one on. Only the template's own lines count, and none that also stands in the text under revision."""
    own = {line.strip() for line in before.split("\n")}
    labels, task = labels_of(template) - own, task_of(template)
    lines = text.strip().split("\n")
    echoes = [
        line in labels or (bool(task) and line.startswith(task) and line not in own) for line in map(str.strip, lines)
    ]
    start = next((i for i, line in enumerate(lines) if line.strip() and not echoes[i]), len(lines))
    end = next((i for i in range(start, len(lines)) if echoes[i]), len(lines))
    return Unechoed("\n".join(lines[start:end]).strip(), "\n".join(lines[end:]).strip())


def labels_of(template: str) -> frozenset[str]:
    """The template's lines that end in a colon and have no place, such as "Step to check:"."""
    lines = (line.strip() for line in template.split("\n"))
    return frozenset(line for line in lines if len(line) > 1 and line.endswith(":") and "{" not in line)


def task_of(template: str) -> str:
    """How the template's last line begins, up to its first place; empty where that is too short to be known again."""
    fixed = template.rstrip().rpartition("\n")[2].partition("{")[0].strip()
    return fixed if len(fixed) >= _TASK else ""


def unlooped(text: str) -> str:
    """The text up to where a sentence that stands in it three times or more comes for the second time.

    A step's number before it makes no new sentence.
    """
    parts = sentences(text)
    keys = [_NUMBER.sub("", " ".join(part.split()).casefold()) for part in parts]
    looping = {key for key, count in Counter(keys).items() if key and count >= _LOOP}
    seen: set[str] = set()
    for i, key in enumerate(keys):
        if key in looping and key in seen:
            return "".join(parts[:i]).strip()
        seen.add(key)
    return text.strip()


def kept_whole(before: str, after: str, form: AnswerForm, run: Run) -> str:
    """The revision with the steps of the text before that it lost put back in their places, and a note in the trace.

    An answer that stands apart is no step: it is the revision's. Where only the revision sets one apart, the last step
    before was the answer (RaR's y^raw), if the form has one.
    """
    old, old_answer = split_answer(before, form)
    new, answer = split_answer(after, form)
    parts, revised = split_steps(old), split_steps(new)
    if answer and not old_answer and form.final_pass:
        parts = parts[:-1]
    whole = with_lost_steps(parts, revised, run)
    return join_steps([whole, answer]) if whole else after


def with_lost_steps(before: Sequence[str], after: Sequence[str], run: Run) -> str | None:
    """The revised steps with those that were lost put back in their places, and a note; None where none was lost."""
    lost = dropped_steps(before, after)
    if not lost:
        return None
    run.note("step dropped", steps=[before[i] for i in lost], repair="put back in place")
    return join_steps(restore_steps(before, after, lost))


def with_answer(revised: str, before: str, form: AnswerForm, run: Run) -> str:
    """The revision, with the answer that stood apart in the text before put behind it if it states none itself.

    One that repeats the reasoning word for word states none, even if an answer stood inside that reasoning.
    """
    reasoning, answer = split_answer(before, form)
    states_own = split_answer(revised, form)[1] and squeezed(revised) != squeezed(reasoning)
    if not answer or states_own:
        return revised
    run.note("answer missing", repair="the answer before put behind it")
    return join_steps([revised, answer])


def sound(reflection: str) -> bool:
    """Whether a reflection found no error: it is a bare OK."""
    return reflection.strip().strip("*_`\"'.! ").casefold() == "ok"


def errors_of(reflection: str) -> str:
    """The errors as a refinement's prompt lists them: small models copied a bare OK as a part of the text."""
    return "none" if sound(reflection) else reflection

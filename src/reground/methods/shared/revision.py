"""Accepts or rejects revisions, and repairs replies that echo the prompt, loop, or lose steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reground.core.answers import AnswerForm
from reground.core.language import Reply
from reground.core.run import Run
from reground.methods.shared.steps import dropped_steps, join_steps, restore_steps, split_answer, split_steps, squeezed
from reground.text.sentences import sentences

_NUMBER = re.compile(r"^\W*+(?:step\s*+)?+\d++\s*+[.:)]\s*+")
_LOOP = 3
_TASK = 20
"""Minimum length in characters of a template's last line for recognising it in a reply."""


def accepted(reply: Reply, run: Run, form: AnswerForm, *, template: str, before: str) -> str | None:
    """The revision, or None if it is empty or was cut; the earlier text then stays. A note says why.

    template: the template of the prompt, whose labels small models repeat. before: the text under revision; its lines
    never count as the template's.
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
    """The reply's text. If the length limit cut it, a loop at its end is removed, as small models fall into.

    Code stays unchanged, because its lines may repeat.
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
    """Remove parts of the prompt that a small model repeats: labels and the task at the start, and everything from a
    later one on. Lines of the text under revision never count as the template's."""
    own = {line.strip() for line in before.split("\n")}
    labels, task = labels_of(template) - own, task_of(template)
    lines = text.strip().split("\n")
    echoes = [
        line in labels or (bool(task) and line.startswith(task) and line not in own) for line in map(str.strip, lines)
    ]
    task_at = max((i for i, line in enumerate(lines) if task and line.strip().startswith(task)), default=-1)
    if echoes[0] and any(map(str.strip, lines[task_at + 1 :])) and task_at >= 0:  # the whole prompt stands before it
        lines, echoes = lines[task_at + 1 :], echoes[task_at + 1 :]
    start = next((i for i, line in enumerate(lines) if line.strip() and not echoes[i]), len(lines))
    end = next((i for i in range(start, len(lines)) if echoes[i]), len(lines))
    return Unechoed("\n".join(lines[start:end]).strip(), "\n".join(lines[end:]).strip())


def labels_of(template: str) -> frozenset[str]:
    """The template's lines that end in a colon and have no place, such as "Step to check:"."""
    lines = (line.strip() for line in template.split("\n"))
    return frozenset(line for line in lines if len(line) > 1 and line.endswith(":") and "{" not in line)


def task_of(template: str) -> str:
    """The start of the template's last line, up to its first place; empty if too short to be recognised."""
    fixed = template.rstrip().rpartition("\n")[2].partition("{")[0].strip()
    return fixed if len(fixed) >= _TASK else ""


def unlooped(text: str) -> str:
    """The text before the first repetition of a sentence that it holds three times or more.

    Sentences that differ only in a step's number are the same.
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
    """Put back the steps of `before` that the revision lost, with a note in the trace.

    A separate answer is not a step; the revision's is used. If only the revision has one, the last step of `before` was
    the answer (RaR's y^raw), for forms with a short answer.
    """
    old, old_answer = split_answer(before, form)
    new, answer = split_answer(after, form)
    parts, revised = split_steps(old), split_steps(new)
    if answer and not old_answer and form.final_pass:
        parts = parts[:-1]
    whole = with_lost_steps(parts, revised, run)
    return join_steps([whole, answer]) if whole else after


def with_lost_steps(before: Sequence[str], after: Sequence[str], run: Run) -> str | None:
    """The revised steps with the lost ones put back, and a note; None if none was lost."""
    lost = dropped_steps(before, after)
    if not lost:
        return None
    run.note("step dropped", steps=[before[i] for i in lost], repair="put back in place")
    return join_steps(restore_steps(before, after, lost))


def with_answer(revised: str, before: str, form: AnswerForm, run: Run) -> str:
    """The revision, followed by the separate answer of `before` if it states none itself.

    A revision that repeats the reasoning word for word states none, even if that reasoning contains one.
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
    """The errors for a refinement's prompt. A bare OK becomes "none", because small models copied it into the text."""
    return "none" if sound(reflection) else reflection

"""Accepts or rejects revisions, and repairs replies that echo the prompt, loop, or lose steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reground.core.answers import AnswerForm
from reground.core.language import Reply
from reground.core.run import Run
from reground.methods.shared.steps import dropped_steps, join_steps, restore_steps, split_answer, split_steps, squeezed
from reground.text.sentences import sentences

_NUMBER = re.compile(r"^\W*+(?:step\s*+)?+\d++\s*+[.:)]\s*+")
_LOOP = 3
_TASK = 20
"""Minimum length in characters of a template's first or last line for recognising it in a reply."""

_REMARK = 40
"""Maximum words of a reply that is a remark on the text and not a text."""
_UNCHANGED = frozenset(
    {"ok", "okay", "correct", "accurate", "right", "fine", "good", "unchanged", "none", "nothing", "change"}
    | {"changes", "changed", "correction", "corrections", "revision", "revisions", "edit", "edits", "error"}
    | {"errors", "mistake", "mistakes"}
)
_BESIDE = frozenset(
    {"a", "above", "all", "already", "an", "and", "answer", "any", "are", "article", "as", "be", "been", "below"}
    | {"by", "check", "code", "completely", "consistent", "entirely", "everything", "factually", "found", "fully"}
    | {"further", "given", "has", "have", "i", "in", "is", "it", "made", "missing", "more", "necessary", "need"}
    | {"needed", "needs", "no", "or", "original", "other", "paragraph", "passage", "passages", "plan", "program"}
    | {"provided", "reasoning", "remains", "required", "requires", "revised", "see", "so", "solution", "stands"}
    | {"step", "steps", "supported", "text", "that", "the", "there", "therefore", "this", "to", "was", "well"}
    | {"were", "with", "without", "written", "wrong"}
)
"""Words beside those of `_UNCHANGED` with which a model says that a text may stay as it is."""
_REFUSAL = re.compile(
    r"\A\W*+(?:(?:i['’]m|i am) (?:so |very )?sorry|sorry|i apologi[sz]e)\b[^.\n]*?"
    r"\b(?:can(?:no|['’])t|unable|not able|won['’]t)\b"
    r"|\A\W*+i (?:can(?:no|['’])t|won['’]t|am unable to|am not able to) (?:help|assist|comply)\b",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"\banswer is:?[ \t*_]++(?!(?:correct|right|wrong|incorrect|accurate|unchanged|the same|clear|given|found|stated"
    r"|supported|based|consistent|not|now|still|already|also|therefore|missing|unknown|in (?:the )?passages?)\b)"
    r"|\\boxed\{",
    re.IGNORECASE,
)
"""An answer in a sentence, or as models write it that have learnt from mathematics."""


def accepted(reply: Reply, run: Run, form: AnswerForm, *, template: str, before: str) -> str | None:
    """The revision, or None if it is empty, refused or was cut; the earlier text then stays. A note says why.

    A reply that only says that nothing has to be changed is the text before.

    template: the template of the prompt, whose labels small models repeat. before: the text under revision; its lines
    never count as the template's. Empty where the reply is an answer of its own.
    """
    said = readable(reply, form)
    found = without_echo(said, template, before)
    remark = bool(before.strip()) and not split_answer(found.text, form)[1]
    if remark and refuses(found.text):
        run.note("revision refused", kept="the text before", written=found.text)
        return None
    if remark and leaves_unchanged(found.text):
        run.note("nothing to change", kept="the text before", written=found.text)
        return before.strip()
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


def leaves_unchanged(text: str) -> bool:
    """Whether a reply is no text but the remark that the text may stay: "No changes are needed." """
    words = _words(text)
    said = set(words)
    if len(words) < 2:  # "right" and "none" are answers
        return said <= {"ok", "okay", "unchanged", "correct"} and bool(said)
    faulty = "wrong" in said and not said & {"nothing", "no", "none"}
    return len(words) <= _REMARK and said <= _UNCHANGED | _BESIDE and bool(said & _UNCHANGED) and not faulty


def refuses(text: str) -> bool:
    """Whether a reply is no text but a refusal: "I'm sorry, but I can't help with that." """
    return _REFUSAL.match(text) is not None and len(_words(text)) <= _REMARK


def _words(text: str) -> list[str]:
    """The words; numbers count, so that a sum is no remark."""
    return re.findall(r"\w+", text.lower())


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
    later one on. Lines of the text under revision never count as the template's.

    Of a reply that repeats the prompt from its beginning, only what follows the task is its own, or what follows the
    label of the text under revision. A question or an instruction never takes the place of that text.
    """
    own = {line.strip() for line in before.split("\n")}
    labels, task = labels_of(template) - own, task_of(template)
    lines = text.strip().split("\n")
    echoes = [
        line in labels or (bool(task) and line.startswith(task) and line not in own) for line in map(str.strip, lines)
    ]
    task_at = max((i for i, line in enumerate(lines) if task and line.strip().startswith(task)), default=-1)
    repeats = bool(before.strip()) and _begins_as(template, lines[0].strip(), own)
    if (echoes[0] or repeats) and any(map(str.strip, lines[task_at + 1 :])) and task_at >= 0:
        lines, echoes = lines[task_at + 1 :], echoes[task_at + 1 :]  # the whole prompt stands before it
    elif repeats:
        revised = _last_label(template)
        at = max((i for i, line in enumerate(lines) if revised and line.strip() == revised), default=len(lines) - 1)
        lines, echoes = ["", *lines[at + 1 :]], [False, *echoes[at + 1 :]]
    start = next((i for i, line in enumerate(lines) if line.strip() and not echoes[i]), len(lines))
    end = next((i for i in range(start, len(lines)) if echoes[i]), len(lines))
    return Unechoed("\n".join(lines[start:end]).strip(), "\n".join(lines[end:]).strip())


def _begins_as(template: str, line: str, own: Collection[str]) -> bool:
    """Whether a reply's first line is the template's. own: lines of the text under revision."""
    fixed = template.strip().partition("\n")[0].partition("{")[0].strip()
    if not fixed or fixed in own:
        return False
    return line == fixed or (len(line) >= _TASK and len(fixed) >= _TASK and fixed.startswith(line))


def _last_label(template: str) -> str:
    """The label nearest to the task, behind which the text under revision stands; empty if there is none."""
    labels = labels_of(template)
    return next((line for line in map(str.strip, reversed(template.split("\n"))) if line in labels), "")


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

    A revision that repeats the reasoning word for word states none, even if that reasoning contains one. "The answer is
    Paris" and a letter or a number alone in the last line are an answer too, or the old one would overrule them.
    """
    reasoning, answer = split_answer(before, form)
    stated = split_answer(revised, form)[1] or (form.final_pass and _stated(revised, reasoning, form))
    if not answer or (stated and squeezed(revised) != squeezed(reasoning)):
        return revised
    run.note("answer missing", repair="the answer before put behind it")
    return join_steps([revised, answer])


def _stated(revised: str, reasoning: str, form: AnswerForm) -> bool:
    """Whether the last line of a revision states an answer, in words that the reasoning before it has not."""
    line = revised.strip().rpartition("\n")[2]
    said = "" if form.draft_is_query or line in reasoning.splitlines() else form.extract(line)
    if form.name in {"choice", "number"} and said and _words(line) == _words(said):
        return True
    return bool(said) and _STATED.search(line) is not None and squeezed(line) not in squeezed(reasoning)


def sound(reflection: str) -> bool:
    """Whether a reflection found no error: it is a bare OK."""
    return reflection.strip().strip("*_`\"'.! ").casefold() == "ok"


def errors_of(reflection: str) -> str:
    """The errors for a refinement's prompt. A bare OK becomes "none", because small models copied it into the text."""
    return "none" if sound(reflection) else reflection

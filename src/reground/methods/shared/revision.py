"""What a reply makes of a text: another text, no change, nothing that is left of it, or an accident."""

from __future__ import annotations

import re

from reground.core.answers import AnswerForm
from reground.core.fences import code_blocks
from reground.core.language import Reply
from reground.core.run import Run
from reground.methods.shared.steps import join_steps, split_answer, split_steps, squeezed
from reground.text.alignment import ALIKE, content, similarity, with_lost_steps
from reground.text.bm25 import terms
from reground.text.echoes import unlooped, without_echo
from reground.text.layout import TEXT_WORDS, names_itself

UNCHANGED = "NO CHANGE"
"""What the prompts ask for where nothing has to be changed; it saves the tokens of repeating the text."""
DELETED = "DELETE"
"""What the prompts ask for where nothing of a step remains."""
_MARKER = re.compile(r"\[\d[\d, ]*\]|\bpassages?\s+\d+", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_ANSWERED = re.compile(r"\banswer is\b|\\boxed\{", re.IGNORECASE)
_SHORT = 3
"""Letters of words that are the same in many texts of a language: "and", "und", "les"."""


def accepted(
    reply: Reply, run: Run, form: AnswerForm, *, template: str, before: str, may_vanish: bool = False
) -> str | None:
    """The revised text; None if the reply was cut or has no text, and the earlier text stays. A note says why.

    It is the text before if nothing has to be changed.

    template: the template of the prompt, whose labels small models repeat. before: the text under revision; its lines
    never count as the template's. Empty where the reply is an answer of its own. may_vanish: whether an empty reply, or
    DELETE, takes the text away.
    """
    whole = readable(reply, form)
    text, behind = without_echo(whole, template, before)
    text = _unfenced(text, before) if form.draft_is_query else _without_remarks(text, before, form)
    gone = is_word(text, DELETED) or not (text or reply.reasoning or reply.finish_reason == "length")
    if may_vanish and gone:
        run.note("text deleted", text=before)
        return ""
    if not text or (gone and before.strip()):
        run.note("revision empty", kept="the text before")
        return None
    remark = is_remark(text, before, form) or _says_no(text, before, form)
    cut = reply.finish_reason == "length" and not behind and whole == reply.text.strip()
    if before.strip() and not cut and (is_word(text, UNCHANGED) or sound(text) or remark):
        run.note("nothing to change", kept="the text before", written=text)
        return before.strip()
    if behind:
        run.note("echo cut", kept=text, left_out=behind)
    elif cut:
        run.note("revision cut", kept="the text before", written=text)
        return None
    elif reply.finish_reason == "length":
        run.note("loop cut", kept=text)
    return text


def is_word(text: str, word: str) -> bool:
    """Whether a reply is this word of the prompt and nothing else, whatever its case and its marks."""
    letters = word.replace(" ", "").casefold()
    return re.sub(r"[\W_]+", "", text).casefold() in {letters, f"{letters}s"}


def is_remark(text: str, before: str, form: AnswerForm) -> bool:
    """Whether a reply talks about the text before, or of itself, instead of being its revision.

    "The passages do not mention this step" shares few words with the text, and states neither an answer nor a number
    that the text lacks.
    """
    return names_itself(text) and _is_foreign(text, before, form)


def _says_no(text: str, before: str, form: AnswerForm) -> bool:
    """Whether a reply is at most half as long as the text before and shares nothing with it, or begins with "no"."""
    words, old = terms(text), terms(before)
    shares = words[:1] != ["no"] and not set(words).isdisjoint(old)
    return 2 * len(words) <= len(old) and not shares and _is_foreign(text, before, form)


def _is_foreign(text: str, before: str, form: AnswerForm) -> bool:
    if not text or _states(text, before, form):
        return False
    about = TEXT_WORDS - content(split_answer(before, form)[0]).keys()
    words = [word for word in terms(_MARKER.sub("", text)) if word not in about]
    long = [word for word in words if len(word) > _SHORT or not word.isascii() or not word.isalpha()]
    return similarity(" ".join(long), before) < ALIKE and set(_DIGITS.findall(" ".join(words))) <= set(terms(before))


def _states(text: str, before: str, form: AnswerForm) -> bool:
    """Whether a text states an answer: behind "Answer:", or a name, a number or a word of the text in a sentence."""
    if split_answer(text, form)[1]:
        return True
    answer = form.extract(text) if form.final_pass and _ANSWERED.search(text) else ""
    return any(map(str.isupper, answer)) or any(map(str.isdigit, answer)) or (answer != "" and answer in before)


def _unfenced(text: str, before: str) -> str:
    """The code in a reply that puts it into a fence, where the code before stands in none."""
    blocks = [] if code_blocks(before) or not before.strip() else code_blocks(text)
    return "\n\n".join(body.strip("\n") for _, body in blocks) or text


def _without_remarks(text: str, before: str, form: AnswerForm) -> str:
    """The text without "Here is the revised text:" above it and "Note: I corrected the year." below it."""
    parts = text.split("\n\n") if before.strip() else [text]
    if len(parts) > 1 and parts[0].rstrip("*_ ").endswith((":", "：")) and is_remark(parts[0], before, form):
        parts.pop(0)
    while len(parts) > 1 and is_remark(parts[-1], join_steps([before, *parts[:-1]]), form):
        parts.pop()
    return "\n\n".join(parts)


def readable(reply: Reply, form: AnswerForm) -> str:
    """The reply's text. If the length limit cut it, a loop at its end is removed, as small models fall into.

    Code stays unchanged, because its lines may repeat.
    """
    if reply.finish_reason == "length" and not form.draft_is_query:
        return unlooped(reply.text)
    return reply.text.strip()


def with_lost(text: str, before: str, form: AnswerForm, run: Run, *, first: int) -> str:
    """The revision with the lost ones of the `first` steps of the text before put back in their places."""
    whole, lost = with_lost_steps(split_steps(before, form), split_steps(text, form), first=first)
    if lost:
        run.note("step dropped", steps=[*lost], repair="put back in place")
    return join_steps(whole) if lost else text


def with_all(text: str, before: str, form: AnswerForm, run: Run) -> str:
    """The revision with all lost steps put back. A separate answer is no step.

    Nor is a last step that was the answer (RaR's y^raw) where the revision states one.
    """
    (old, old_answer), (new, answer) = split_answer(before, form), split_answer(text, form)
    steps = split_steps(old, form)
    if answer and not old_answer and form.final_pass:
        steps.pop()
    whole = with_lost(new, join_steps(steps), form, run, first=len(steps))
    return text if whole == new else join_steps([whole, answer])


def with_answer(text: str, before: str, form: AnswerForm, run: Run) -> str:
    """The revision, followed by the separate answer of the text before if it states none itself.

    An answer in its last line counts, as in "The answer is Paris", unless that line is repeated from the reasoning.
    """
    reasoning, answer = split_answer(before, form)
    line = text.strip().rpartition("\n")[2]
    bare = form.name in {"choice", "number"} and squeezed(line).strip("*.") == form.extract(line)
    stated = split_answer(text, form)[1] or (line not in reasoning and (bare or _states(line, before, form)))
    if not answer or form.draft_is_query or (stated and squeezed(text) != squeezed(reasoning)):
        return text
    run.note("answer missing", repair="the answer before put behind it")
    return join_steps([text, answer])


def sound(reflection: str) -> bool:
    """Whether a reflection found no error: its first line is a bare OK, or "no errors"."""
    line = reflection.strip().partition("\n")[0]
    return any(is_word(line, word) for word in ("OK", "okay", "no error", "OK no error"))

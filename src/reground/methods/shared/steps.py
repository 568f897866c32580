"""Reasoning steps as text: split a draft as chat models write it, join steps, and find those that a revision lost.

RAT (prompt B.1) and RaR split a draft at blank lines. Chat models also write introductions, titles, lists, programs in
fences and closing remarks. A step is what a reader would call one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from reground.core.answers import TEXT, AnswerForm
from reground.text.bm25 import terms
from reground.text.function_words import FUNCTION_WORDS
from reground.text.layout import program_steps, prose_steps

ALIKE = 0.35
"""The share of words from which on a text counts as a revision of another."""

_ANSWER = re.compile(
    r"(?im)^[ \t\r\xa0\u3000>*_#-]*+(?:final\s++)?+(?:answer|antwort|答案|答え)\s*+(?:is)?+\s*+[*_]*+\s*+[:：]"
)
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_LABEL = re.compile(r"^[^\w\n]*+(?:step\s*+)?+\d++\s*+[.:)]", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"\S+")
_MOST_WORK = 10_000_000
"""Maximum characters to compare when looking for lost steps, about a second's work. Longer texts are not compared."""


def split_steps(draft: str, form: AnswerForm = TEXT, *, most: int | None = None) -> list[str]:
    """The steps of a draft, without what frames them: introductions, closing remarks, rules, titles of nothing.

    If there are more than `most` steps, neighbours are joined evenly, so that every part is still checked.
    """
    text = _WORD.sub(_parted, draft)
    steps = program_steps(text) if form.draft_is_query else prose_steps(text, concluding=form.final_pass)
    return steps if most is None or len(steps) <= most else _grouped(steps, most)


def _parted(word: re.Match[str]) -> str:
    """A word with blank lines for the "/n/n" of prompt B.1, which small models copy; an address stays as it is."""
    letters = word.group()
    return letters if "://" in letters or letters.startswith("/") else letters.replace("/n/n", "\n\n")


def _grouped(steps: Sequence[str], most: int) -> list[str]:
    edges = [len(steps) * i // most for i in range(most + 1)]
    return [join_steps(steps[start:end]) for start, end in pairwise(edges)]


def join_steps(steps: Sequence[str]) -> str:
    """The steps as one text, with blank lines between them."""
    return "\n\n".join(step.strip("\n").rstrip() for step in steps if step.strip())


def split_answer(response: str, form: AnswerForm) -> tuple[str, str]:
    """The reasoning and the answer of a response; the answer is empty if it is not separate.

    The answer begins at the last "Answer:" line; for programs it is the last code block. An answer above its reasons
    ends at a blank line.
    """
    pattern = _FENCED if form.draft_is_query else _ANSWER
    places = [match.start() for match in pattern.finditer(response)]
    cut = places[-1] if places else len(response)
    reasoning, answer = response[:cut].strip(), response[cut:].strip()
    if not reasoning and form.final_pass and not form.draft_is_query:
        answer, _, reasoning = answer.partition("\n\n")
    return reasoning.strip(), answer


def split_draft(draft: str, form: AnswerForm, *, most: int) -> tuple[list[str], str]:
    """(y^thought, y^raw) in one reply: the steps and the answer after them.

    y^raw is the separate answer, or else the last section. Where the thoughts are the answer (plans, prose) and none is
    separate, every section is a thought and y^raw is empty. The thoughts of a program without others are its parts.
    """
    reasoning, raw = split_answer(draft, form)
    if form.draft_is_query and raw and not _FENCED.search(reasoning):
        reasoning = raw
    thoughts = split_steps(reasoning, form)
    if not raw and form.final_pass and len(thoughts) > 1:
        raw = thoughts.pop()
    if raw and (not thoughts or (reasoning == raw and len(thoughts) == 1)):
        return [raw], ""
    return (thoughts if len(thoughts) <= most else _grouped(thoughts, most)), raw


def squeezed(text: str) -> str:
    """The text with normalised white space, to tell identical generations (RaR, section 3.2)."""
    return " ".join(text.split())


@lru_cache(maxsize=4096)
def content(text: str) -> Counter[str]:
    """A text's terms without the number of a step and function words, unless it has no others."""
    words = terms(_LABEL.sub("", text))
    return Counter([word for word in words if word not in FUNCTION_WORDS] or words)


def similarity(a: str, b: str) -> float:
    """The share of the shorter text's words that the other contains, from 0 to 1. Function words do not count."""
    x, y = content(a), content(b)
    shorter = min(x.total(), y.total())
    return (x & y).total() / shorter if shorter else 0.0


def align_steps(before: Sequence[str], after: Sequence[str]) -> list[int | None]:
    """For each old step, the index of the new step that is its revision, or None.

    This is the best alignment in order, in which paired steps share at least `ALIKE` of their words.
    """
    if _work(before, after) > _MOST_WORK:
        return [None] * len(before)
    likeness = [[similarity(old, new) for new in after] for old in before]
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in reversed(range(len(before))):
        for j in reversed(range(len(after))):
            pair = likeness[i][j] + best[i + 1][j + 1] if likeness[i][j] >= ALIKE else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], pair)
    partners: list[int | None] = [None] * len(before)
    i = j = 0
    while i < len(before) and j < len(after):
        if likeness[i][j] >= ALIKE and best[i][j] == likeness[i][j] + best[i + 1][j + 1]:
            partners[i] = j
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return partners


def _work(before: Sequence[str], after: Sequence[str]) -> int:
    """Characters to look at if every step is compared with every other, plus fifty per pair."""
    return len(after) * sum(map(len, before)) + len(before) * (sum(map(len, after)) + 50 * len(after))


def with_lost_steps(before: Sequence[str], after: Sequence[str], *, first: int) -> tuple[list[str], list[str]]:
    """The revised steps with the lost ones of the `first` old ones put back, and the lost ones.

    An old step without a partner in the alignment is lost, unless a new step that resembles no old one stands at its
    place (it was reworded), or the new steps hold `ALIKE` of its words besides their partners' (steps were joined).
    """
    partners = align_steps(before, after)
    extra = [content(new) for new in after]
    for old, partner in zip(before, partners, strict=True):
        if partner is not None:
            extra[partner] = extra[partner] - content(old)
    steps, lost, place = list(after), [], 0
    novel = [j not in partners and all(similarity(old, after[j]) < ALIKE for old in before) for j in range(len(after))]
    for i, partner in enumerate(partners):
        if partner is not None:
            place = partner + 1
        elif place < len(after) and novel[place]:
            place += 1
        elif i < first and not any(_holds(more, content(before[i])) for more in extra):
            lost.append(i)
            steps.insert(place + len(lost) - 1, before[i])
    return steps, [before[i] for i in lost]


def _holds(more: Counter[str], words: Counter[str]) -> bool:
    return (words & more).total() >= ALIKE * words.total()

"""Reasoning steps as text: split a draft, join steps, and find the steps that a revision lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from reground.core.answers import AnswerForm

_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$)")
_STEP = re.compile(r"^\s*(?:[-*]\s*)?(?:#+\s*)?(?:\*\*)?(?:step\s*)?\d+\s*[.:)]", re.IGNORECASE)
_LABEL = re.compile(r"^[^\w\n]*+(?:step\s*+)?+\d++\s*+[.:)]", re.IGNORECASE | re.MULTILINE)
_ANSWER = re.compile(r"(?im)^[ \t\r\xa0\u3000>*_#-]*+(?:final\s++)?+answer\s*+(?:is)?+\s*+[*_]*+\s*+[:：]")
_FENCED = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SAME = 0.9
_MOST_WORK = 10_000_000
"""Maximum characters to compare when looking for lost steps, about a second's work. Longer texts are not compared."""
_WORD = re.compile(r"\S+")
_COMMON = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "have", "in", "is", "it", "its", "of", "on"}
    | {"or", "that", "the", "then", "there", "this", "to", "was", "we", "were", "which", "with"}
)


def split_steps(draft: str, *, most: int | None = None) -> list[str]:
    """Split a draft at blank lines (RAT, prompt B.1); a draft without any is split at numbered lines.

    A heading stays with the paragraph below it, and a Markdown code block stays whole. If there are more than `most`
    steps, neighbours are joined evenly, so that every part is still checked.
    """
    parts = _paragraphs(_WORD.sub(_parted, draft))
    if len(parts) == 1:
        parts = _numbered(parts[0])
    return parts if most is None or len(parts) <= most else _grouped(parts, most)


def _parted(word: re.Match[str]) -> str:
    """A word with blank lines for the "/n/n" of prompt B.1, which small models copy; an address stays as it is."""
    said = word.group()
    return said if "://" in said or said.startswith("/") else said.replace("/n/n", "\n\n")


def _grouped(parts: Sequence[str], most: int) -> list[str]:
    edges = [len(parts) * i // most for i in range(most + 1)]
    return [join_steps(parts[start:end]) for start, end in pairwise(edges)]


def _paragraphs(text: str) -> list[str]:
    parts: list[str] = []
    current: list[str] = []
    fenced = False
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if line.strip() or (fenced and current):
            current.append(line.rstrip())
        elif current and not all(map(_HEADING.match, current)):
            parts.append("\n".join(current))
            current = []
    if current:
        parts.append("\n".join(current).rstrip())
    return parts


def _numbered(text: str) -> list[str]:
    parts: list[list[str]] = []
    fenced = False
    for line in text.splitlines():
        if not parts or (_STEP.match(line) and not fenced):
            parts.append([line])
        else:
            parts[-1].append(line)
        if line.lstrip().startswith("```"):
            fenced = not fenced
    return ["\n".join(part) for part in parts]


def join_steps(steps: Sequence[str]) -> str:
    """The steps as one text, with blank lines between them."""
    return "\n\n".join(step.strip() for step in steps if step.strip())


def split_answer(response: str, form: AnswerForm) -> tuple[str, str]:
    """The reasoning and the answer of a response; the answer is empty if it is not separate.

    The answer begins at the last "Answer:" line; for programs it is the last code block.
    """
    pattern = _FENCED if form.draft_is_query else _ANSWER
    found = list(pattern.finditer(response))
    if not found:
        return response.strip(), ""
    cut = found[-1].start()
    return response[:cut].strip(), response[cut:].strip()


def split_draft(draft: str, form: AnswerForm, *, most: int) -> tuple[list[str], str]:
    """(y^thought, y^raw) in one reply: the steps and the answer after them.

    y^raw is the separate answer, or else the last section. Where the thoughts are the answer (plans, prose) and none is
    separate, every section is a thought and y^raw is empty.
    """
    reasoning, raw = split_answer(draft, form)
    thoughts = split_steps(reasoning)
    if not raw and form.final_pass and len(thoughts) > 1:
        raw = thoughts.pop()
    if not thoughts and raw:
        return [raw], ""
    return split_steps(join_steps(thoughts), most=most), raw


def squeezed(text: str) -> str:
    """The text with normalised white space, to tell identical generations (RaR, section 3.2)."""
    return " ".join(text.split())


@lru_cache(maxsize=4096)
def _words(text: str) -> Counter[str]:
    """A step's words without its number and common words, unless it has no others."""
    words = re.findall(r"\w+", _LABEL.sub("", text).lower())
    return Counter([word for word in words if word not in _COMMON] or words)


def similarity(a: str, b: str) -> float:
    """The share of the shorter text's words that the other contains, from 0 to 1. Common words do not count."""
    x, y = _words(a), _words(b)
    shorter = min(x.total(), y.total())
    return (x & y).total() / shorter if shorter else 0.0


def align_steps(before: Sequence[str], after: Sequence[str], *, threshold: float = 0.35) -> list[int | None]:
    """For each old step, the index of the new step that is its revision, or None.

    This is the best alignment in order, in which paired steps share at least `threshold` of their words.
    """
    if _work(before, after) > _MOST_WORK:
        return [None] * len(before)
    likeness = [[similarity(old, new) for new in after] for old in before]
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in reversed(range(len(before))):
        for j in reversed(range(len(after))):
            pair = likeness[i][j] + best[i + 1][j + 1] if likeness[i][j] >= threshold else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], pair)
    partners: list[int | None] = [None] * len(before)
    i = j = 0
    while i < len(before) and j < len(after):
        if likeness[i][j] >= threshold and best[i][j] == likeness[i][j] + best[i + 1][j + 1]:
            partners[i] = j
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return partners


def dropped_steps(before: Sequence[str], after: Sequence[str], *, threshold: float = 0.35) -> list[int]:
    """Indices of the old steps that a revision of the whole answer lost.

    A step without a partner in the alignment is not lost in three cases: a new step that resembles no old one has its
    place (it was reworded); a new step contains `threshold` of its words besides its own partner's (two were joined);
    or another kept old step says the same. In texts that are too long to compare, no step counts as lost.
    """
    if _work(before, after) > _MOST_WORK:
        return []
    partners = align_steps(before, after, threshold=threshold)
    extra = [_words(new) for new in after]
    for i, partner in enumerate(partners):
        if partner is not None:
            extra[partner] = extra[partner] - _words(before[i])
    successors = _successors(before, after, threshold)
    kept = [before[i] for i, successor in enumerate(successors) if successor is not None]
    return [
        i
        for i, successor in enumerate(successors)
        if successor is None
        and not _joined(before[i], extra, threshold)
        and all(similarity(before[i], step) < _SAME for step in kept)
    ]


def _work(before: Sequence[str], after: Sequence[str]) -> int:
    """Characters to look at if every step is compared with every other, plus fifty per pair."""
    return len(after) * sum(map(len, before)) + len(before) * (sum(map(len, after)) + 50 * len(after))


def _joined(step: str, extra: Sequence[Counter[str]], threshold: float) -> bool:
    words = _words(step)
    return any((words & more).total() >= threshold * words.total() for more in extra)


def restore_steps(before: Sequence[str], after: Sequence[str], lost: Sequence[int]) -> list[str]:
    """The revised steps with the lost ones put back, each after the revision of the step before it."""
    partners = _successors(before, after, 0.35)
    behind: dict[int, list[str]] = {}
    for i in lost:
        place = max((p for p in partners[:i] if p is not None), default=-1)
        behind.setdefault(place, []).append(before[i])
    restored = list(behind.get(-1, []))
    for j, new in enumerate(after):
        restored += [new, *behind.get(j, [])]
    return restored


def _successors(before: Sequence[str], after: Sequence[str], threshold: float) -> list[int | None]:
    """The alignment, in which steps without a partner get the new step at their place if it resembles no old one."""
    partners = align_steps(before, after, threshold=threshold)
    if _work(before, after) > _MOST_WORK:
        return partners
    novel = [all(similarity(old, new) < threshold for old in before) for new in after]
    start = 0
    for i, partner in enumerate(partners):
        if partner is None:
            end = next((p for p in partners[i + 1 :] if p is not None), len(after))
            partner = next((j for j in range(start, end) if novel[j]), None)
            partners[i] = partner
        if partner is not None:
            start = partner + 1
    return partners

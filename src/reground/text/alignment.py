"""Which parts of a text are revisions of which parts of another, and which were lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from reground.text.excerpts import FUNCTION_WORDS, terms

ALIKE = 0.35
"""The share of words from which on a text counts as a revision of another."""

_LABEL = re.compile(r"^[^\w\n]*+(?:step\s*+)?+\d++\s*+[.:)]", re.IGNORECASE | re.MULTILINE)
_MOST_WORK = 10_000_000
"""Maximum characters to compare when looking for lost steps, about a second's work. Longer texts are not compared."""


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
    # Every step is compared with every other; fifty characters more stand for each pair.
    work = len(after) * sum(map(len, before)) + len(before) * (sum(map(len, after)) + 50 * len(after))
    if work > _MOST_WORK:
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
    steps, missing, place = list(after), [], 0
    novel = [j not in partners and all(similarity(old, after[j]) < ALIKE for old in before) for j in range(len(after))]
    for i, (words, partner) in enumerate(zip(map(content, before), partners, strict=True)):
        if partner is not None:
            place = partner + 1
        elif place < len(after) and novel[place]:
            place += 1
        elif i < first and all((words & more).total() < ALIKE * words.total() for more in extra):
            missing.append(i)
            steps.insert(place + len(missing) - 1, before[i])
    return steps, [before[i] for i in missing]


_WORDS = re.compile(r"\s*\S+|\s+")
_FEW = 3  # words between two changes from which on they are shown as unchanged
_MOST = 20_000_000  # pairs of words that are compared; the time grows with their number in the worst case


def changes(before: str, after: str) -> Iterator[tuple[str, str, str]]:
    """Triples of removed text, added text, and the unchanged text behind. Few words between changes count as changed.

    Together, the added and the unchanged texts are the text after. Very long texts are not compared: all is changed.
    """
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) * len(new) > _MOST:
        yield before, after, ""
        return
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    ends = {(0, 0), (len(old), len(new))}
    a = b = 0
    for block in blocks:
        edge = (block.a, block.b) in ends or (block.a + block.size, block.b + block.size) in ends
        if block.size >= _FEW or edge:
            unchanged = "".join(new[block.b : block.b + block.size])
            yield "".join(old[a : block.a]), "".join(new[b : block.b]), unchanged
            a, b = block.a + block.size, block.b + block.size

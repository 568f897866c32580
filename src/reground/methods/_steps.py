"""Reasoning steps as text: how a draft is split, joined, and kept whole through revisions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$)")
_STEP = re.compile(r"^\s*(?:[-*]\s*)?(?:\*\*)?(?:step\s*)?\d+\s*[.:)]", re.IGNORECASE)


def split_steps(draft: str, *, most: int | None = None) -> list[str]:
    """Split a draft at blank lines (RAT, prompt B.1); a draft without any is split at numbered lines.

    A heading stays with the paragraph below it, and a Markdown code block stays whole. With more than
    `most` steps the last one takes the rest, so nothing is lost.
    """
    parts = _paragraphs(draft.replace("/n/n", "\n\n"))
    if len(parts) == 1:
        parts = _numbered(parts[0])
    if most is not None and len(parts) > most:
        parts = [*parts[: most - 1], "\n\n".join(parts[most - 1 :])]
    return parts


def _paragraphs(text: str) -> list[str]:
    parts: list[str] = []
    current: list[str] = []
    fenced = False
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if line.strip() or fenced:
            current.append(line.rstrip())
        elif current and not (len(current) == 1 and _HEADING.match(current[0])):
            parts.append("\n".join(current))
            current = []
    if current:
        parts.append("\n".join(current).rstrip())
    return parts


def _numbered(text: str) -> list[str]:
    parts: list[list[str]] = []
    for line in text.splitlines():
        if _STEP.match(line) or not parts:
            parts.append([line])
        else:
            parts[-1].append(line)
    return ["\n".join(part) for part in parts]


def join_steps(steps: Sequence[str]) -> str:
    """Steps as one text, a blank line between them."""
    return "\n\n".join(step.strip() for step in steps)


def similarity(a: str, b: str) -> float:
    """How much of the shorter text's words stand in the other, in order; between 0 and 1."""
    x, y = a.lower().split(), b.lower().split()
    if not x or not y:
        return 0.0
    matched = sum(block.size for block in SequenceMatcher(None, x, y, autojunk=False).get_matching_blocks())
    return matched / min(len(x), len(y))


def dropped_steps(before: Sequence[str], after: Sequence[str], *, threshold: float = 0.35) -> list[int]:
    """Indices of the earlier steps that a whole-answer revision has lost.

    A revised text as long as the old one has lost nothing. Otherwise each new step is taken to be the
    revision of the old step most like it, each at most once and in order of likeness; old steps that
    are left over, and that no new step resembles by `threshold` of its words, are lost.
    """
    if len(after) >= len(before):
        return []
    pairs = sorted(
        ((similarity(old, new), i, j) for i, old in enumerate(before) for j, new in enumerate(after)), reverse=True
    )
    old_taken: set[int] = set()
    new_taken: set[int] = set()
    for _, i, j in pairs:
        if i not in old_taken and j not in new_taken:
            old_taken.add(i)
            new_taken.add(j)
    best = [max((similarity(old, new) for new in after), default=0.0) for old in before]
    return [i for i in range(len(before)) if i not in old_taken and best[i] < threshold]

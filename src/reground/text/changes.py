"""What a revision changed, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

_WORDS = re.compile(r"\s*\S+|\s+")
_FEW = 3
"""Words between two changes from which on they are shown as unchanged."""
_MOST = 20_000_000
"""Pairs of words that are compared; the time grows with their number in the worst case."""


def changes(before: str, after: str) -> Iterator[tuple[str, str, str]]:
    """What was taken out, what was put in, and what stays after it. Few words between two changes count as changed.

    Together, what was put in and what stays are the text after. Very long texts are not compared: all is changed.
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
            kept = "".join(new[block.b : block.b + block.size])
            yield "".join(old[a : block.a]), "".join(new[b : block.b]), kept
            a, b = block.a + block.size, block.b + block.size

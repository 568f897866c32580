"""Texts cut into sentences, by sentencex (Wikimedia), which knows abbreviations, initials, quotes and other languages' marks.

Two rules are added for what models write: the number of a list item belongs to the sentence behind it, and nothing ends
inside a word or an address. `tests/methods/test_sentences.py` has the hard cases and how other libraries did on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from sentencex import segment

_LINE = re.compile(r"([^\n]*)(?:\n\s*|\Z)")
_LABEL = re.compile(r"\W{0,9}(?:(?:step|thought)\s?)?\d{1,3}[.)]\W{0,9}", re.IGNORECASE)
_WINDOW = 2000  # characters looked at together: the library's time grows with their square in Chinese or Japanese


def sentences(text: str) -> list[str]:
    """The sentences with the white space around them; together they are the text. A new line ends a sentence too."""
    ends = [0]
    for end in _ends(text):
        if _closes(text, ends[-1], end):
            ends.append(end)
    return [text[start:end] for start, end in pairwise([*ends, len(text)]) if start < end]


def _ends(text: str) -> Iterator[int]:
    """Where sentencex sees an end. Of a window inside a line the last piece is looked at again, with what follows it."""
    for line in _LINE.finditer(text):
        start, stop = line.span(1)
        while start < stop:
            window = text[start : min(start + _WINDOW, stop)]
            pieces = segment("en", window)
            if start + len(window) < stop and len(pieces) > 1:
                pieces.pop()
            for piece in pieces:
                start += len(piece)
                yield start if start < stop else line.end()


def _closes(text: str, start: int, end: int) -> bool:
    """Whether the text between is a sentence and not white space, a list item's number or a part of a word."""
    if end == len(text) or (text[end - 1] in ".!?" and not text[end].isspace()):
        return False
    return not (text[start:end].isspace() or _LABEL.fullmatch(text, start, min(end, start + 40)))

"""Split text into sentences with sentencex (Wikimedia).

It knows the abbreviations of many languages, initials, quotes and marks. Two rules are added for text that models
write: the number of a list item belongs to the sentence after it, and no sentence ends inside a word or an address.
`tests/text/test_sentences.py` has the hard cases and how other libraries handled them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate, pairwise

from sentencex import segment

from reground.text.likely import ENGLISH, likely_language

_LINE = re.compile(r"([^\n]*)(?:\n\s*|\Z)")
_LABEL = re.compile(r"\W{0,9}(?:(?:step|thought)\s?)?\d{1,3}[.)]\W{0,9}", re.IGNORECASE)
_SPACE = re.compile(r"[^\S\n]")
_WINDOW = 2000  # characters examined together: in Chinese or Japanese the library's time grows with their square


def sentences(text: str) -> list[str]:
    """The sentences with the white space around them; together they are the text. A new line ends a sentence too."""
    ends = [0]
    for end in _ends(text, likely_language(text)):
        if _closes(text, ends[-1], end):
            ends.append(end)
    return [text[start:end] for start, end in pairwise([*ends, len(text)]) if start < end]


def _ends(text: str, language: str) -> Iterator[int]:
    """Where sentencex sees an end. The last piece of a window inside a line is examined again with the next text."""
    for line in _LINE.finditer(text):
        start, stop = line.span(1)
        while start < stop:
            window = text[start : min(start + _WINDOW, stop)]
            ends = _agreed(window, language)
            if start + len(window) < stop and len(ends) > 1:
                ends.pop()
            yield from (start + end if start + end < stop else line.end() for end in ends)
            start += ends[-1]


def _agreed(text: str, language: str) -> list[int]:
    """Where a sentence ends by the rules of English, which know most initials and titles, and by the language's own."""
    text = _SPACE.sub(" ", text)  # the library panics at a capital, a no-break space and a full stop
    ends = list(accumulate(map(len, segment(ENGLISH, text))))
    if language == ENGLISH:
        return ends
    own = set(accumulate(map(len, segment(language, text))))
    return [end for end in ends if end in own]


def _closes(text: str, start: int, end: int) -> bool:
    """Whether the text between is a sentence and not white space, a list item's number or a part of a word."""
    if end == len(text) or (text[end - 1] in ".!?" and not text[end].isspace()):
        return False
    return not (text[start:end].isspace() or _LABEL.fullmatch(text, start, min(end, start + 40)))

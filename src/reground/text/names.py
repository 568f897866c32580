"""Names in texts: runs of words with capital letters, so scripts without them have none."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reground.text.sentences import sentences

_WORD = r"[^\W\d_a-z][\w'’.&-]*"
_LINK = r"(?:of|the|de|del|della|la|le|du|des|van|von|der|den|di|da|al|el|bin)"
_NAME = re.compile(rf"{_WORD}(?:(?:\s{_LINK}){{0,2}}\s(?:{_WORD}|\d+))*")
_OWNER = re.compile(r"['’]s\b")
_LOWER = re.compile(r"\b[a-z][\w'’-]*")
_MOST = 64
"""Names that are told; a grammar of more is slow to decode by."""
_LONGEST = 8
"""Words of a name; more are a heading or a list."""


def names_in(texts: Iterable[str], *, without: Iterable[str] = ()) -> list[str]:
    """The names in texts, in the order in which they stand, each once.

    A first word that the texts also write in small letters, such as "The" or "During", is no part of a name.
    without: names that are not wanted, such as titles that were read.
    """
    read = list(texts)
    common = {word for text in read for word in _LOWER.findall(text)}
    left_out = {" ".join(each.split()).casefold() for each in without}
    found: dict[str, str] = {}
    for sentence in (each for text in read for each in sentences(text)):
        for match in _NAME.finditer(sentence):
            words = _OWNER.sub("", match.group().rstrip(".'’&-")).split()
            while words and (words[0].casefold() in common or not words[0][0].isupper()):
                del words[0]
            name = " ".join(words)
            if len(name) > 2 and len(words) <= _LONGEST and name.casefold() not in left_out:
                found.setdefault(name.casefold(), name)
    return list(found.values())[:_MOST]

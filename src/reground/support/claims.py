"""What an answer claims, sentence by sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest

from reground.core.answers import abstains
from reground.core.citations import without_unknown
from reground.text.sentences import sentences

_LABEL = re.compile(
    r"^\W*+(?:(?:so|thus|therefore),?\s++)?(?:the\s++)?(?:final\s++)?answer(?:\s++is)?\s*+[:：]\s*+", re.I
)
_BULLET = re.compile(r"^\s*+(?:[-*+•>#]++|\d{1,3}[.)])\s++")
_MARKUP = re.compile(r"[*`#]++|(?<!\w)_++|(?<!_)_++(?!\w)")
"""An underscore inside of a word is part of a name, such as exit_code."""
_FENCE = re.compile(r"^\s*+(?:`{3,}+[^`\n]*+|~{3,}+[^~\n]*+)\s*+")
_RULE = re.compile(r"[\s|:-]*+")
"""What divides the head of a table from its rows, if it has bars and dashes: |---|:--:|."""
_UNSPACED = re.compile(r"[\u3005-\u3007\u3041-\u3096\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
"""Chinese characters and hiragana, which no spaces divide into words: about two make one."""
_RUN = re.compile(r"\w++")
_SHORT_WORDS, _SHORT_LETTERS = 5, 40
"""A sentence below both is an answer without its statement, such as "In 1889."."""


@dataclass(frozen=True)
class Claim:
    """A sentence of an answer.

    text: as it stands, with the white space around it. said: what it claims, without markers and markup; empty if it
    claims nothing. asked: the question. alone: whether it answers the question without stating what it answers.
    """

    text: str
    said: str
    asked: str = ""
    alone: bool = False


def claims(text: str, question: str) -> list[Claim]:
    """The sentences of an answer; together their texts are the answer.

    Questions, headings, the head of a table, the fence of a code block, sentences without a letter or a digit, and the
    statement that the documents do not say it claim nothing. "Yes" claims what the question asks, and "no" nothing that
    words could be compared with.
    """
    parts = sentences(text)
    return [
        Claim(part, "") if _FENCE.fullmatch(part) or _divides(below) else _claim(part, question)
        for part, below in zip_longest(parts, parts[1:], fillvalue="")
    ]


def _divides(part: str) -> bool:
    """Whether a line divides the head of a table from its rows."""
    return "|" in part and "-" in part and _RULE.fullmatch(part) is not None


def _claim(part: str, question: str) -> Claim:
    bare = _BULLET.sub("", without_unknown(part, ())[0])
    said = _MARKUP.sub("", _LABEL.sub("", bare)).strip()
    heading = part.lstrip().startswith("#") or said.endswith((":", "："))
    if not any(map(str.isalnum, said)) or said.endswith(("?", "？")) or heading or abstains(said):
        return Claim(part, "")
    verdict = said.rstrip(".!").casefold()
    if verdict == "yes":  # says what the question asks
        return Claim(part, question.rstrip(" \t\n?？"), question)
    if verdict == "no":  # a passage denies in words of its own
        return Claim(part, "")
    alone = _LABEL.match(bare) is not None or (_words(said) < _SHORT_WORDS and len(said) < _SHORT_LETTERS)
    return Claim(part, said, question, alone)


def _words(text: str) -> int:
    """About how many words a text has."""
    spaced, unspaced = len(text.split()), len(_UNSPACED.findall(text))
    if not unspaced:
        return spaced
    return max(spaced, -(-unspaced // 2) + len(_RUN.findall(_UNSPACED.sub(" ", text))))

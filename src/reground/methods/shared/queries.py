"""Search queries in what a rewriter wrote: none, one or several."""

from __future__ import annotations

import re

from reground.core.fences import without_fences
from reground.text.bm25 import first_words

LONGEST = 64
"""Maximum words of a query; the rest is dropped. Longer text is not a query, and search engines read no more."""

_LABEL = re.compile(
    r"\A[\s>*_#\"'-]*+(?:(?:better|rewritten|new)\s++)?+(?:(?:web\s++)?+search\s++)?+(?:engine\s++)?+"
    r"quer(?:y|ies)\s*+\(?\d*+\)?[\s*_]*+[:：]",
    re.IGNORECASE,
)
_BOLD = re.compile(
    r"^[^\S\n]*+(\*\*|__)([\w \t]{0,30}?quer(?:y|ies)[\w \t()]{0,10})(?:\1\s*+[:：]|[:：]\s*+\1)", re.I | re.M
)
_ANSWER = re.compile(r"\A[\s>*_#]*+answer[\s*_]*+[:：]", re.IGNORECASE)
_ITEM = re.compile(r"\A\s*+(?:[-*•]\s++|\(?\d{1,2}[.)]\s++)")
_NEXT = re.compile(r"\A[\s>*_#]*+question\s*+\d*+[\s*_]*+[:：]", re.IGNORECASE)
_SEPARATOR = re.compile(r"[;；]")
_OPEN = re.compile(
    r"(?:[:：]|[$€£¥]|\b(?:is|are|was|were)"
    r"|(?<=\w\s)(?-i:be|been|a|an|the|of|by|in|on|at|to|for|from|with|than|as|and|or|about|called|named))"
    r"[\s_\"'“($€£¥]{0,20}+\Z",
    re.IGNORECASE,
)
"""The end of a text that was about to say something: a label, "the answer is", or "it was built by"; not "Serie A"."""
_NOTHING = re.compile(
    r"nil|null|n a|not (?:needed|necessary|required|applicable)|无|没有|不需要"
    r"|(?:none|nothing|no (?:search )?(?:query|queries|search|searches))(?: (?:is |are "
    r")?(?:needed|necessary|required))?"
)
_AROUND = " \"'`“”‘’«»„*_<>"


def parse_queries(text: str, *, most: int, stop: str = "") -> list[str]:
    """The queries in a reply, at most `most`, each once; [] where it holds none or says that none is needed.

    Text after the stop marker is ignored; around a label the marker is bold type. The list begins at the first line
    with a label, as in "Queries: a; b", else at the first that is an item or holds a semicolon. A text with neither is
    one query, its first line. Never raises.
    """
    found: dict[str, str] = {}
    for line in _listed(before(_BOLD.sub(r"\2:", without_fences(text)), stop).splitlines()):
        for piece in _SEPARATOR.split(line):
            query = _clean(piece)
            key = " ".join(re.findall(r"\w+", query.casefold()))
            if says_something(query) and not _NOTHING.fullmatch(key):
                found.setdefault(key, query)
    return list(found.values())[:most]


def before(text: str, stop: str) -> str:
    """The text before the stop marker. A marker before which nothing is said yet is removed, as in **bold** type."""
    if not stop:
        return text
    head = text.partition(stop)[0]
    return head if is_said(head) else text.replace(stop, " ")


def is_said(text: str) -> bool:
    """Whether the text says something and does not end in a label, such as "Answer:", or in "the answer is the"."""
    return says_something(text) and not _OPEN.search(text)


def says_something(text: str) -> bool:
    """Whether the text has a letter or a digit."""
    return any(char.isalnum() for char in text)


def _listed(lines: list[str]) -> list[str]:
    """The lines that hold queries, from the list's start to its end."""
    begins = (_LABEL.match, _ANSWER.match, lambda line: _ITEM.match(line) or _SEPARATOR.search(line), says_something)
    start = next((number for begin in begins for number, line in enumerate(lines) if begin(line)), len(lines))
    kept = lines[start : start + 1]
    for line in filter(str.strip, lines[start + 1 :]):
        if _NEXT.match(line) or not (_LABEL.match(line) or _ITEM.match(line) or _unfinished(kept[-1])):
            break
        kept.append(line)
    return kept


def _unfinished(line: str) -> bool:
    """Whether the list continues on the next line: a label alone, or a separator at the end."""
    rest = _unlabelled(line).strip(_AROUND)
    return not rest or rest[-1] in ";；"


def _unlabelled(text: str) -> str:
    for mark in (_ITEM, _LABEL, _ANSWER):
        text = mark.sub("", text, count=1) if mark.match(text) else text
    return text


def _clean(piece: str) -> str:
    """A query without its label, its number, quotes and type."""
    query = " ".join(_unlabelled(piece).strip(_AROUND).split())
    return first_words(query, LONGEST).strip(_AROUND)

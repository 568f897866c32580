"""Search queries in what a model wrote: none, one or several, whatever stands around them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise, repeat

from reground.core.code_blocks import without_fences
from reground.text.excerpts import FUNCTION_WORDS, first_words

LONGEST = 64
"""Maximum words of a query; the rest is dropped. Longer text is not a query, and search engines read no more."""

_LABEL = re.compile(
    r"(?i)\A[\s>*_#\"'-]*+(?:(?:[^\s:：]++\s++){0,5}?quer(?:y|ies)|search(?:\s++for|\s++terms?)?|such\w*+"
    r"|\w{0,6}(?:查询|检索|搜索)\w{0,3})\s*+\(?#?\d*+\)?[\s*_]*+[:：][\s*_]*+"
)
"""A short head in front of a query that says what follows, such as "Search query:". Other heads, such as the one in
"2001: A Space Odyssey", are part of the query."""
_SET_OFF = re.compile(r"\A(?:\*\*[^*]{1,40}(?::\*\*|\*\*:)|[^:：\"]{1,60}(?::\s|：)\s*+(?=[\"“「`].*[\"”」`]\s*\Z))")
"""A head of any words before a query in quotation marks, or in bold type."""
_ANSWER = re.compile(r"\A[\s>*_#]*+answer[\s*_]*+[:：]", re.IGNORECASE)
_ITEM = re.compile(r"\A\s*+(?:[-*•>]\s++|#{2,6}\s++|\(?\d{1,2}(?:[.)]\s++|[、．]))")
_SEPARATOR = re.compile(r"[;；]")
_MARKER = re.compile(r"(?<!\w)\[\d+(?:\s*[,;]\s*\d+)*\]")
_TAGGED = re.compile(r"\A<(\w+)>(.*)</\1>\Z")
_QUOTES = ('"', "'‘’", "`", "*", "“”„", "«»", "「」", "<>")
_JSON = re.compile(r"^(?:[^\n:：\[{]{1,60}[:：])?[^\S\n]*+(?=[\[{]\s*[\"{\[\]}])", re.MULTILINE)
_KEY = re.compile(r"quer|search|查询|检索|搜索", re.IGNORECASE)

_NONE = re.compile(
    r"(?i)(?:none|nothing|not?|is|are|search(?:es)?|quer(?:y|ies)|needed|necessary|required|applicable|\s)+"
    r"|nil|null|n/a|无|没有|不需要|none\s*[,.;:(–—-].*"
)
_NEGATED = re.compile(
    r"(?i)(?:\b(?:no|not|nothing|never|without)|n['’]t)\s+(?:[\w'’]+\s+){0,4}?(?:search|quer|look|retriev)"
    r"|[无不没][^\s，。；]{0,5}(?:查询|检索|搜索|查找)"
)
_ABOUT = re.compile(r"not?|nothing|\w{1,9}n['’]t|(?:any|need|necess|requir|search|quer|look|retriev)\w*|[一-鿿]+")
"""Words that say nothing in a sentence about searching, beside function words."""


def clean_query(reply: str, *, fallback: str) -> str:
    """The one query in a reply; `fallback` where it holds none or says that none is needed. Never raises."""
    return next(_queries(reply, several=False), fallback.strip())


def parse_queries(text: str, *, most: int) -> list[str]:
    """The queries in a reply, at most `most`, each once; [] where it holds none or says that none is needed.

    Queries are separated by semicolons or stand in lines of their own. Never raises.
    """
    queries: dict[str, str] = {}
    for query in _queries(text, several=True):
        queries.setdefault(" ".join(re.findall(r"\w+", query.casefold())), query)
    return list(queries.values())[:most]


def says_something(text: str) -> bool:
    """Whether the text has a letter or a digit."""
    return any(char.isalnum() for char in text)


def _queries(text: str, *, several: bool) -> Iterator[str]:
    text = without_fences(text)
    strings = _in_json(text)
    for line in _listed(text.splitlines(), several=several) if strings is None else strings:
        for piece in _SEPARATOR.split(line) if several else [line]:
            query = _clean(piece)
            if says_something(query) and not _declines(query):
                yield query


def _listed(lines: list[str], *, several: bool) -> list[str]:
    """The lines that hold queries.

    They begin at the first line with a label, else, where there may be several, at the first item or separator, else
    at the first line that says something. A line that ends in a colon introduces those behind it.
    """
    begins: list[Callable[[str], object]] = [
        _LABEL.match,
        _ANSWER.match,
        lambda line: several and (_ITEM.match(line) or _SEPARATOR.search(line)),
        lambda line: says_something(line) and says_something(_clean(line)),
    ]
    start = next((number for begin in begins for number, line in enumerate(lines) if begin(line)), len(lines))
    listed = lines[start : start + 1]
    introduced = bool(listed) and _unfinished(listed[0])
    for before, line in pairwise(lines[start:]):
        plain = introduced and before.strip() and not _ITEM.match(listed[-1])
        if line.strip():
            if not (plain or _LABEL.match(line) or _ITEM.match(line) or _unfinished(listed[-1])):
                break
            listed.append(line)
    if len(listed) > 1 and listed[0].rstrip(" *").endswith((":", "：")):
        del listed[0]
    return [] if listed and _declines(_clean(listed[0])) else listed


def _unfinished(line: str) -> bool:
    """Whether the list goes on in the next line: behind a label alone, a colon or a separator."""
    rest = _unlabelled(line).strip(" *\"'`_")
    return not rest or rest[-1] in ":：;；"


def _unlabelled(text: str) -> str:
    for mark in (_ITEM, _LABEL, _ANSWER, _SET_OFF, _ITEM):
        text = mark.sub("", text, count=1)
    return text


def _clean(piece: str) -> str:
    """A query without label, number, markers, and quotation marks around the whole; those inside stay."""
    query = _TAGGED.sub(r"\2", " ".join(_MARKER.sub("", _unlabelled(piece)).split()))
    for marks in _QUOTES * 2:
        inner = query.strip(marks).strip()
        if not any(mark in inner for mark in marks):
            query = inner
    return first_words(query, LONGEST).strip()


def _declines(text: str) -> bool:
    """Whether a text says that there is nothing to search for: a sentence, or words that say nothing else."""
    if _NONE.fullmatch(text.strip(" .!")):
        return True
    words = re.findall(r"[\w'’]+", text.casefold())
    alone = all(word in FUNCTION_WORDS or _ABOUT.fullmatch(word) for word in words)
    return bool(_NEGATED.search(text)) and (alone or text.endswith((".", "!", "。", "！")))


def _in_json(text: str) -> list[str] | None:
    """The strings of a JSON value that begins a line, only those under a key such as "query" if there is one."""
    place = _JSON.search(text)
    try:
        value, end = json.JSONDecoder().raw_decode(text, place.end() if place else len(text))
    except (ValueError, RecursionError):
        return None
    if text[end:].partition("\n")[0].strip():
        return None
    leaves = list(_leaves(value))
    return [leaf for is_query, leaf in leaves if is_query] or [leaf for _, leaf in leaves]


def _leaves(value: object, is_query: bool = False) -> Iterator[tuple[bool, str]]:
    """All parts of a JSON value, "" for what is no string, each with whether a key names it a query."""
    yield is_query, value if isinstance(value, str) else ""
    parts = value.items() if isinstance(value, dict) else zip(repeat(""), value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _leaves(part, is_query or bool(_KEY.search(key)))

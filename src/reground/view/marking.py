"""Which parts of a passage hold the query's words, and which support the answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise

from reground.text.excerpts import FUNCTION_WORDS
from reground.text.languages import analyzer, segmenter

QUERY, SUPPORT = "q", "s"
"""The marks: a word of the query, a sentence that supports the answer."""

_WORD = re.compile(r"\w+")
_LONGEST = 200
"""Characters of a word that is looked at. A longer one is data, such as an encoded picture."""


def marked(text: str, query: str, quotes: Iterable[str]) -> list[tuple[str, str]]:
    """The text in pieces, each with its marks: "", "q", "s" or "qs".

    Words are compared as a search in English compares them: by their stems and without stop words; in writing without
    spaces by pairs of characters. quotes: sentences of the text, with any white space.
    """
    spans = [(start, end, QUERY) for start, end in _found(text, _terms(query))]
    spans += [(start, end, SUPPORT) for quote in quotes for start, end in _placed(text, quote)]
    changes: dict[int, Counter[str]] = {0: Counter(), len(text): Counter()}
    for start, end, mark in spans:
        changes.setdefault(start, Counter())[mark] += 1
        changes.setdefault(end, Counter())[mark] -= 1
    held: Counter[str] = Counter()
    pieces = []
    for start, end in pairwise(sorted(changes)):
        held.update(changes[start])
        pieces.append((text[start:end], "".join(sorted(mark for mark, count in held.items() if count > 0))))
    return pieces


def _found(text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where the words are that have one of the wanted terms."""
    for word in _WORD.finditer(text) if wanted else ():
        start, said = word.start(), word.group()
        if len(said) > _LONGEST:
            continue
        terms = _terms_of_word(said)
        if len(terms) <= 1:
            if terms & wanted:
                yield word.span()
            continue
        for at in range(len(said) - 1):  # written without spaces
            if said[at : at + 2].lower() in wanted:
                yield start + at, start + at + 2


def _terms(text: str) -> frozenset[str]:
    words = (word for word in _WORD.findall(text) if len(word) <= _LONGEST and word.lower() not in FUNCTION_WORDS)
    terms = frozenset().union(*map(_terms_of_word, words))
    return frozenset(term for term in terms if len(term) > 1 or not term.isascii() or term.isdecimal())


@cache
def _english() -> tuple[object, object]:
    return analyzer("en"), segmenter("en")


@cache
def _terms_of_word(word: str) -> frozenset[str]:
    analyse, segment = _english()
    return frozenset(analyse.analyze(segment(word)))  # type: ignore[attr-defined,operator]


def _placed(text: str, quote: str) -> Iterator[tuple[int, int]]:
    """Where a quote is, whose white space was made plain."""
    words = quote.split()
    found = re.search(r"\s+".join(map(re.escape, words)), text) if words else None
    if found is not None:
        yield found.span()

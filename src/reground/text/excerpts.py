"""Cut a page to the pieces that match a query best by BM25, in the page's order.

Okapi BM25 after Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", equation
3.15, with the idf of Lucene, which is never negative. A word is text between white space, or one Chinese or Japanese
character, or four letters of Thai, Lao, Burmese or Khmer with their marks, which is about as long as their words are.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

PIECE = 60
"""Words of a piece: a few sentences."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f"
_SOUTHEAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer: written without spaces
# Signs that belong to the letter before: vowels of Hindi and Thai, accents that stand by themselves.
_MARKS = "".join(letter for letter in map(chr, range(0x300, 0x1B00)) if unicodedata.category(letter)[0] == "M")
_WORD = re.compile(rf"[^\s{_CJK}{_SOUTHEAST}]+|[{_CJK}]|(?:[{_SOUTHEAST}][{_MARKS}]*){{1,4}}")
_LETTER = rf"[^\W_{_CJK}{_SOUTHEAST}]"
_TERM = re.compile(rf"[{_CJK}]+|[{_SOUTHEAST}]+|{_LETTER}(?:{_LETTER}|[{_MARKS}])*")
_UNSPACED = re.compile(rf"[{_CJK}{_SOUTHEAST}]")
_SENTENCE = re.compile(r".+?(?:[.!?][\"')\]]*(?=\s|$)|[。！？।။។][”’」』）]*|\n|$)", re.DOTALL)
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")


def bm25(query: Sequence[str], documents: Sequence[Sequence[str]], *, k1: float = 1.2, b: float = 0.75) -> list[float]:
    """Each document's score: the sum over the query's different terms of idf tf / (tf + k1 (1 - b + b length / mean)).

    tf is how often the document holds the term, length its number of terms, mean that of all documents. idf is
    ln(1 + (N - n + 0.5) / (n + 0.5)) for a term that n of N documents hold. Only a document without any term scores 0.
    """
    counts = [Counter(document) for document in documents]
    mean = sum(map(len, documents)) / max(1, len(documents))
    scores = [0.0] * len(documents)
    for term in dict.fromkeys(query):
        holding = sum(term in count for count in counts)
        idf = math.log1p((len(documents) - holding + 0.5) / (holding + 0.5))
        for number, (document, count) in enumerate(zip(documents, counts, strict=True)):
            if count[term]:
                length = 1 - b + b * len(document) / mean
                scores[number] += idf * count[term] / (count[term] + k1 * length)
    return scores


def excerpt(page: str, query: str, *, words: int) -> str:
    """At most `words` words of a page: the pieces with the highest scores for the query, in the page's order.

    A page that is short enough stays unchanged. One that shares no term with the query keeps its beginning, because
    otherwise nothing would be left.
    """
    if count_words(page) <= words:
        return page
    parts = pieces(page, words=min(PIECE, words))
    scores = bm25(terms(query), [terms(part) for part in parts])
    picks: list[int] = []
    room = words
    for number in sorted(range(len(parts)), key=lambda number: -scores[number]):
        size = count_words(parts[number])
        if scores[number] > 0 and size <= room:
            picks.append(number)
            room -= size
    if not picks:
        return first_words(page, words)
    text = ""
    for number in sorted(picks):
        gap = "" if not text else " " if number - 1 in picks else "\n"  # a new line marks each gap
        text += gap + parts[number]
    return text


def pieces(text: str, *, words: int) -> list[str]:
    """The text in pieces of at most `words` words, cut between paragraphs and sentences; longer sentences are split."""

    def sentences(paragraph: str) -> Iterator[str]:
        for match in _SENTENCE.finditer(paragraph):
            sentence = " ".join(match.group().split())
            places = [word.span() for word in _WORD.finditer(sentence)]
            for first in range(0, len(places), words):
                yield sentence[places[first][0] : places[min(first + words, len(places)) - 1][1]]

    pieces: list[str] = []
    for paragraph in _PARAGRAPH.split(text):
        current: list[str] = []
        length = 0
        for sentence in sentences(paragraph):
            size = count_words(sentence)
            if current and length + size > words:
                pieces.append(" ".join(current))
                current, length = [], 0
            current.append(sentence)
            length += size
        if current:
            pieces.append(" ".join(current))
    return pieces


def first_words(text: str, words: int) -> str:
    """The text's first words, at most `words` of them."""
    for number, word in enumerate(_WORD.finditer(text), start=1):
        if number > words:
            return text[: word.start()].rstrip()
    return text


def count_words(text: str) -> int:
    """The number of words."""
    return sum(1 for _ in _WORD.finditer(text))


def terms(text: str) -> list[str]:
    """The units compared: words without case and punctuation, and in writing without spaces pairs of adjacent letters.

    Marks of Thai, Lao, Burmese and Khmer are left out, as in an index.
    """
    units: list[str] = []
    for run in _TERM.findall(text.casefold()):
        if not _UNSPACED.match(run):
            units.append(run)
            continue
        letters = [letter for letter in run if letter.isalnum()]
        units += map("".join, pairwise(letters)) if len(letters) > 1 else letters
    return units


_ENGLISH = (
    "a about after all also am an and any are as at be because been before being both but by can could did do does "
    "during each for from had has have he her here him his how i if in into is it its just may me might more most "
    "must my of on only or other our over own same shall she should so some such than that the their them then "
    "there these they this those through to too under until up very was we were what when where which while who "
    "whom whose why will with would you your"
)
FUNCTION_WORDS = frozenset(_ENGLISH.split())
"""English words, whatever the language of the documents: models answer in English too."""

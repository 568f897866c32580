"""Cutting texts into pieces of bounded length that overlap a little.

A token here is a run of at most six letters or digits, or one punctuation mark, or one Chinese, Japanese or
Korean character; white space is free. It needs no model and no vocabulary, so an index does not depend on one; for
English prose it is meant to come near what byte-pair tokenizers count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from reground.core.errors import ConfigurationError

_CJK = "\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_TOKEN = re.compile(rf"[{_CJK}]|[^\W{_CJK}]{{1,6}}|[^\w\s]")
_IS_CJK = re.compile(rf"[{_CJK}]")
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_SENTENCE_END = frozenset(".!?;:。！？；：…")
_CLOSING = frozenset("\"'”’)]」』）")

_INSIDE_WORD, _WORD, _SENTENCE, _PARAGRAPH_BREAK = range(4)


class Chunk(NamedTuple):
    """A piece of a text as a half-open range of its characters."""

    start: int
    end: int


def count_tokens(text: str) -> int:
    """The length of a text in tokens."""
    return sum(1 for _ in _TOKEN.finditer(text))


def chunk(text: str, size: int, overlap: int = 0) -> Iterator[Chunk]:
    """Cut a text into pieces of at most `size` tokens; consecutive ones share at most `overlap` tokens.

    Pieces come as they are found, and no more tokens are held than a piece has, so a text may be as large as it likes.

    Cuts fall between paragraphs if that leaves a piece at least half full, else between sentences, else between
    words, and inside a word only where nothing else is left. Together the pieces hold every character that is not
    white space, in order. A text that fits is one piece; one without tokens is none.
    """
    if size < 1 or not 0 <= overlap < size:
        raise ConfigurationError(
            f"pieces of {size} tokens cannot overlap by {overlap}: the overlap must be smaller than the piece"
        )
    return _pieces(text, size, overlap)


def _pieces(text: str, size: int, overlap: int) -> Iterator[Chunk]:
    if len(text) <= size:  # a token has at least one character
        stripped = text.strip()
        start = text.find(stripped)
        if stripped:
            yield Chunk(start, start + len(stripped))
        return
    spans = (match.span() for match in _TOKEN.finditer(text))
    tokens = list(islice(spans, size + 1))  # those of the piece, and one that tells whether more follow
    while tokens:
        end = _cut(text, tokens, size, overlap)
        yield Chunk(tokens[0][0], tokens[end - 1][1])
        if end == len(tokens):
            return
        del tokens[: _restart(text, tokens, end, overlap)]
        tokens += islice(spans, size + 1 - len(tokens))


def _cut(text: str, tokens: list[tuple[int, int]], size: int, overlap: int) -> int:
    """Where the piece ends that begins at the first token: the last of the strongest boundaries in its later half."""
    if size >= len(tokens):
        return len(tokens)
    best, strength = size, -1
    # More than `overlap` tokens are taken, so that the next piece begins after this one.
    for place in range(size, max(size // 2, overlap), -1):
        here = _boundary(text, tokens, place)
        if here > strength:
            best, strength = place, here
        if strength == _PARAGRAPH_BREAK:
            break
    return best


def _restart(text: str, tokens: list[tuple[int, int]], end: int, overlap: int) -> int:
    """Where the next piece begins: at a sentence within the overlap, else at a word, else just `overlap` back."""
    places = range(end - overlap, end)
    for wanted, among in ((_SENTENCE, places[: len(places) // 2]), (_WORD, places)):
        for place in among:
            if _boundary(text, tokens, place) >= wanted:
                return place
    return end - overlap


def _boundary(text: str, tokens: list[tuple[int, int]], place: int) -> int:
    """How strong the boundary before token `place` is."""
    before, after = tokens[place - 1], tokens[place]
    gap = text[before[1] : after[0]]
    if "\n" in gap and _PARAGRAPH.search(gap):
        return _PARAGRAPH_BREAK
    last = text[before[1] - 1]
    if last in _CLOSING and before[1] > 1:
        last = text[before[1] - 2]
    is_cjk = bool(_IS_CJK.match(text[after[0]]))
    if last in _SENTENCE_END and (gap or is_cjk):
        return _SENTENCE
    if gap or is_cjk or _IS_CJK.match(last):
        return _WORD
    return _INSIDE_WORD

"""Finds the line of a file at which a quote begins, so that a reader can open it there."""

from __future__ import annotations

import re
from pathlib import Path

from reground.core.answers import Answer, Citation
from reground.retrieval.documents import HTML_SUFFIXES, PDF_SUFFIXES
from reground.retrieval.encodings import Unreadable, decode

_LARGEST = 8 << 20
"""Bytes of a file that is searched for a quote."""
_WORDS = 12
"""Words of the quote that are looked for."""


def located(answer: Answer, corpus: Path) -> Answer:
    """The answer with the line of each quote in its file, where the file is text and still holds the quote.

    corpus: the folder, or the one file, that the passages came from.
    """
    if not any(sentence.supports for sentence in answer.sentences):
        return answer
    texts: dict[str, str] = {}
    said = tuple(
        sentence.model_copy(update={"supports": tuple(_placed(each, corpus, texts) for each in sentence.supports)})
        for sentence in answer.sentences
    )
    return answer.model_copy(update={"sentences": said})


def _placed(quote: Citation, corpus: Path, texts: dict[str, str]) -> Citation:
    if quote.url is None or "://" in quote.url:
        return quote
    if quote.url not in texts:
        texts[quote.url] = _text(corpus / quote.url if corpus.is_dir() else corpus, corpus)
    line = line_of(quote.quote, texts[quote.url])
    return quote if line is None else quote.model_copy(update={"line": line})


def line_of(quote: str, text: str) -> int | None:
    """The number of the line, from 1, at which a quote begins, whatever its white space; None if it is not there."""
    words = [re.escape(word) for word in quote.split()[:_WORDS]]
    found = re.search(r"\s+".join(words), text) if words else None
    return None if found is None else text.count("\n", 0, found.start()) + 1


def _text(file: Path, corpus: Path) -> str:
    """The text of a file; empty if it cannot be read, is too large, is no plain text, or lies outside the corpus."""
    try:
        if not file.resolve().is_relative_to(corpus.resolve()):
            return ""
        if file.suffix.lower() in {*PDF_SUFFIXES, *HTML_SUFFIXES} or file.stat().st_size > _LARGEST:
            return ""
        return decode(file.read_bytes())[0]
    except (OSError, ValueError, Unreadable):
        return ""

"""Finds the line or the page of a file at which a quote begins, so that a reader can open it there."""

from __future__ import annotations

import re
from pathlib import Path

from reground.core.answers import Answer, Citation
from reground.retrieval.documents import HTML_SUFFIXES, PDF_SUFFIXES
from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.readers import pdf_pages

_LARGEST = 8 << 20
"""Bytes of a file that is searched for a quote."""
_WORDS = 12
"""Words of the quote that are looked for."""
_PAGES = 200
"""Pages of a PDF that are read again to find a quote."""


def located(answer: Answer, corpus: Path) -> Answer:
    """The answer with the line of each quote in its file, or the page of a PDF, where the file still holds the quote.

    corpus: the folder, or the one file, that the passages came from.
    """
    if not any(sentence.supports for sentence in answer.sentences):
        return answer
    texts: dict[str, list[str]] = {}
    said = tuple(
        sentence.model_copy(update={"supports": tuple(_placed(each, corpus, texts) for each in sentence.supports)})
        for sentence in answer.sentences
    )
    return answer.model_copy(update={"sentences": said})


def _placed(quote: Citation, corpus: Path, texts: dict[str, list[str]]) -> Citation:
    if quote.url is None or "://" in quote.url:
        return quote
    if quote.url not in texts:
        texts[quote.url] = _pages(corpus / quote.url if corpus.is_dir() else corpus, corpus)
    pages = texts[quote.url]
    for number, text in enumerate(pages, start=1):
        line = line_of(quote.quote, text)
        if line is not None:
            where = {"line": line} if not _is_pdf(quote.url) else {"page": number}
            return quote.model_copy(update=where)
    return quote


def line_of(quote: str, text: str) -> int | None:
    """The number of the line, from 1, at which a quote begins, whatever its white space; None if it is not there."""
    words = [re.escape(word) for word in quote.split()[:_WORDS]]
    found = re.search(r"\s+".join(words), text) if words else None
    return None if found is None else text.count("\n", 0, found.start()) + 1


def _pages(file: Path, corpus: Path) -> list[str]:
    """The pages of a PDF, or another file's text as one; none if it cannot be read, is too large, is neither, or lies
    outside the corpus."""
    try:
        if not file.resolve().is_relative_to(corpus.resolve()) or file.stat().st_size > _LARGEST:
            return []
        if file.suffix.lower() in HTML_SUFFIXES:
            return []
        content = file.read_bytes()
        return pdf_pages(content, most=_PAGES)[1] if _is_pdf(file.name) else [decode(content)[0]]
    except (OSError, ValueError, Unreadable):
        return []


def _is_pdf(name: str) -> bool:
    return name.lower().endswith(tuple(PDF_SUFFIXES))

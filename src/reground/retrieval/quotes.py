"""Finds where in a file a quote begins, so that a reader can open it there: a line, a page or a heading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from reground.core.answers import Answer, Citation
from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.filetypes import (
    CODE_NAMES,
    HTML_SUFFIXES,
    MARKDOWN_SUFFIXES,
    PDF_SUFFIXES,
    PLAIN_SUFFIXES,
    known_as,
)
from reground.retrieval.reading.pdf import pdf_pages
from reground.retrieval.reading.text import front_matter, headings
from reground.retrieval.reading.web import Heading, outline, parsed

_LARGEST = 8 << 20
"""Bytes of a file that is searched for a quote."""
_WORDS = 12
"""Words of the quote that are looked for."""
_PAGES = 200
"""Pages of a PDF that are read again to find a quote."""

Place = Mapping[str, object]
"""The fields of a citation that say where its quote is."""
Find = Callable[[str], Place]


def located(answer: Answer, corpus: Path) -> Answer:
    """The answer with the line of each quote in its file, the page of a PDF or the heading of an HTML page, where the
    file still holds the quote.

    corpus: the folder, or the one file, that the passages came from.
    """
    if not any(sentence.supports for sentence in answer.sentences):
        return answer
    files: dict[str, Find] = {}
    said = tuple(
        sentence.model_copy(update={"supports": tuple(_placed(each, corpus, files) for each in sentence.supports)})
        for sentence in answer.sentences
    )
    return answer.model_copy(update={"sentences": said})


def _placed(quote: Citation, corpus: Path, files: dict[str, Find]) -> Citation:
    if quote.url is None or "://" in quote.url:
        return quote
    if quote.url not in files:
        files[quote.url] = _opened(file_of(quote.url, corpus))
    return quote.model_copy(update=dict(files[quote.url](quote.quote)))


def file_of(url: str, corpus: Path) -> Path | None:
    """The file of the corpus that a passage came from; None if there is none, or it lies outside the corpus."""
    try:
        file = corpus / url if corpus.is_dir() else corpus
        inside = file.resolve().is_relative_to(corpus.resolve()) and file.is_file()
        return file.resolve() if inside and (corpus.is_dir() or url in {corpus.name, corpus.resolve().name}) else None
    except (OSError, ValueError):
        return None


def line_of(quote: str, text: str) -> int | None:
    """The number of the line, from 1, at which a quote begins, whatever its white space; None if it is not there."""
    start = _start(quote, text)
    return None if start is None else text.count("\n", 0, start) + 1


def _start(quote: str, text: str, behind: int = 0) -> int | None:
    """Where a quote begins, from a character on; None if it is not there."""
    words = [re.escape(word) for word in quote.split()[:_WORDS]]
    found = re.compile(r"\s+".join(words)).search(text, behind) if words else None
    return None if found is None else found.start()


def _opened(file: Path | None) -> Find:
    """What finds quotes in a file; it finds none in one that cannot be read, is too large or of another kind."""
    try:
        if file is None or file.stat().st_size > _LARGEST:
            return _nowhere
        name, content = file.name.lower(), file.read_bytes()
        if is_pdf(name):
            return partial(_in_pages, pdf_pages(content, most=_PAGES).texts)
        if is_html(name):
            page = parsed(decode(content, markup=True).text)
            return _nowhere if page is None else partial(_in_html, *outline(page))
        if name.endswith(MARKDOWN_SUFFIXES):
            return partial(_in_markdown, decode(content).text)
        if name.endswith(PLAIN_SUFFIXES) or name in CODE_NAMES or known_as(name, file):
            return partial(_in_lines, decode(content).text)
    except (OSError, ValueError, ImportError, Unreadable):
        pass
    return _nowhere


def _nowhere(quote: str) -> Place:
    return {}


def _in_pages(pages: list[str], quote: str) -> Place:
    numbers = (number for number, text in enumerate(pages, start=1) if _start(quote, text) is not None)
    return {"page": number} if (number := next(numbers, None)) is not None else {}


def _in_lines(text: str, quote: str) -> Place:
    line = line_of(quote, text)
    return {} if line is None else {"line": line}


def _in_markdown(text: str, quote: str) -> Place:
    _, body = front_matter(text)  # which no passage holds
    start = _start(quote, text, body)
    if start is None:
        return {}
    line, first = (text.count("\n", 0, place) + 1 for place in (start, body))
    above = ((level, words) for number, level, words in headings(text[body:]) if first + number <= line)
    return {"line": line, "heading": _trail(above)}


def _in_html(text: str, headings: Sequence[Heading], quote: str) -> Place:
    start = _start(quote, text)
    if start is None:
        return {}
    before = [each for each in headings if each.at <= start]
    nearest = next((each.id for each in reversed(before) if each.id), None)
    return {"heading": _trail((each.level, each.text) for each in before), "fragment": nearest}


def _trail(headings: Iterable[tuple[int, str]]) -> str:
    """The last of some headings, given with their levels, and those that it stands under, outermost first."""
    above: list[tuple[int, str]] = []
    for level, words in headings:
        above = [*(each for each in above if each[0] < level), (level, words)]
    return " > ".join(words for _, words in above if words)


def is_pdf(name: str) -> bool:
    """Whether a file of this name is a PDF."""
    return name.lower().endswith(PDF_SUFFIXES)


def is_html(name: str) -> bool:
    """Whether a file of this name is an HTML page."""
    return name.lower().endswith(HTML_SUFFIXES)

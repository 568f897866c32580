"""Finds where in a file a quote begins, so that a reader can open it there: a line, a page or a heading."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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


def line_of(quote: str, text: str, behind: int = 0) -> int | None:
    """The number of the line, from 1, at which a quote begins, whatever its white space; None if it is not there.

    behind: the character from which it is looked for.
    """
    start = _start(quote, text, behind)
    return None if start is None else text.count("\n", 0, start) + 1


def _start(quote: str, text: str, behind: int = 0) -> int | None:
    words = [re.escape(word) for word in quote.split()[:_WORDS]]
    found = re.compile(r"\s+".join(words)).search(text, behind) if words else None
    return None if found is None else found.start()


def _opened(file: Path | None) -> Find:
    """What finds quotes in a file; it finds none in one that cannot be read, is too large or of another kind."""
    try:
        if file is None or file.stat().st_size > _LARGEST:
            return _nowhere
        name = file.name.lower()
        if is_pdf(name):
            return _in_pages(pdf_pages(file.read_bytes(), most=_PAGES).texts)
        if is_html(name):
            return _in_html(decode(file.read_bytes(), markup=True)[0])
        if name.endswith(PLAIN_SUFFIXES) or name in CODE_NAMES or known_as(name, file):
            return _in_lines(decode(file.read_bytes())[0], markdown=name.endswith(MARKDOWN_SUFFIXES))
    except (OSError, ValueError, ImportError, Unreadable):
        pass
    return _nowhere


def _nowhere(quote: str) -> Place:
    return {}


def _in_pages(pages: list[str]) -> Find:
    def find(quote: str) -> Place:
        numbers = (number for number, text in enumerate(pages, start=1) if _start(quote, text) is not None)
        return {"page": number} if (number := next(numbers, None)) is not None else {}

    return find


def _in_lines(text: str, *, markdown: bool) -> Find:
    from reground.retrieval.reading.text import front_matter, trail

    behind = front_matter(text)[1] if markdown else 0  # no passage holds the front matter

    def find(quote: str) -> Place:
        line = line_of(quote, text, behind)
        if line is None:
            return {}
        return {"line": line, "heading": _joined(trail(text, line))} if markdown else {"line": line}

    return find


def _in_html(source: str) -> Find:
    from reground.retrieval.reading.web import outline, parsed

    page = parsed(source)
    if page is None:
        return _nowhere
    text, headings = outline(page)

    def find(quote: str) -> Place:
        start = _start(quote, text)
        if start is None:
            return {}
        before = [each for each in headings if each.at <= start]
        above: list[tuple[int, str]] = []
        for each in before:
            above = [*((level, said) for level, said in above if level < each.level), (each.level, each.text)]
        nearest = next((each.id for each in reversed(before) if each.id), None)
        return {"heading": _joined([said for _, said in above]), "fragment": nearest}

    return find


def _joined(headings: list[str]) -> str:
    return " > ".join(said for said in headings if said)


def is_pdf(name: str) -> bool:
    """Whether a file of this name is a PDF."""
    return name.lower().endswith(tuple(PDF_SUFFIXES))


def is_html(name: str) -> bool:
    """Whether a file of this name is an HTML page."""
    return name.lower().endswith(HTML_SUFFIXES)

"""Finds where in a file a quote begins, so that a reader can open it there: a line, a heading, a page, a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from reground.core.answers import Answer, Citation
from reground.retrieval.documents import format_of, known_as, read_as
from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.reading.pdf import pdf_pages
from reground.retrieval.reading.result import Heading
from reground.retrieval.reading.shown import outline
from reground.retrieval.reading.text import front_matter, headings, marked, underlined
from reground.retrieval.reading.web import parsed

_LARGEST = 8 << 20  # bytes of a file that is searched for a quote
_MOST_WORDS, _WORDS = 100, 12  # words of the quote that are looked for, and where they are not there
_PAGES = 200  # pages of a PDF that are read again to find a quote
_LARGEST_PACKED = 2 << 20  # bytes of a zip archive that is read again, up to a second for each million
_PROSE = (".docx", ".docm", ".dotx", ".odt", ".epub", ".ipynb")
_SECTIONS: Mapping[str, Callable[[str, int], Iterable[Heading]]] = {
    **dict.fromkeys(("text.read_markdown", "text.read_tex"), headings),
    "text.read_structured": underlined,
    "text.read_asciidoc": partial(marked, mark="="),
    "text.read_org": partial(marked, mark="*"),
}
"""The functions that find the headings of texts with lines, by reader."""


class Places(NamedTuple):
    """The text of a file, and the places in it.

    begins: where the part begins that passages hold. has_lines: whether its lines are those of the file. marks: fields
    of `Citation` and the character from which on they hold. is_prose: whether its blocks are paragraphs, which are
    counted where no other place is known.
    """

    text: str = ""
    begins: int = 0
    has_lines: bool = False
    marks: tuple[tuple[int, Mapping[str, object]], ...] = ()
    is_prose: bool = False

    def find(self, quote: str) -> re.Match[str] | None:
        """Where a quote is, whatever its white space; of a long one at least its beginning."""
        words = [re.escape(word) for word in quote.split()[:_MOST_WORDS]]
        patterns = (re.compile(r"\s+".join(words[:most])) for most in (_MOST_WORDS, _WORDS) if words)
        return next(filter(None, (pattern.search(self.text, self.begins) for pattern in patterns)), None)

    def of(self, quote: str) -> dict[str, object]:
        """The fields of a citation that say where a quote is; none if it is not there."""
        match = self.find(quote)
        if match is None:
            return {}
        start = match.start()
        result: dict[str, object] = {"line": self.text.count("\n", 0, start) + 1} if self.has_lines else {}
        for at, fields in self.marks:
            result |= fields if at <= start else {}
        if self.is_prose and not result.get("place"):
            paragraphs = self.text.count("\n\n", 0, start) + 1
            result["place"] = f"paragraph {paragraphs}"
        return result


def locate(answer: Answer, corpus: Path) -> Answer:
    """The answer with the place of each quote in its file: its line, page, heading, slide, row or cell, where the file
    still holds the quote.

    corpus: the folder, or the one file, that the passages came from.
    """
    files: dict[str, Places] = {}

    def place(quote: Citation) -> Citation:
        if quote.url is None or "://" in quote.url:
            return quote
        if quote.url not in files:
            files[quote.url] = places(file_of(quote.url, corpus))
        return quote.model_copy(update=files[quote.url].of(quote.quote))

    sentences = (each.model_copy(update={"supports": tuple(map(place, each.supports))}) for each in answer.sentences)
    quotes = tuple(map(place, answer.quoted))
    return answer.model_copy(update={"sentences": tuple(sentences), "quoted": quotes})


def file_of(url: str, corpus: Path) -> Path | None:
    """The file of the corpus that a passage came from; None if there is none, or it lies outside the corpus."""
    try:
        file = corpus / url if corpus.is_dir() else corpus
        inside = file.resolve().is_relative_to(corpus.resolve()) and file.is_file()
        return file.resolve() if inside and (corpus.is_dir() or url in {corpus.name, corpus.resolve().name}) else None
    except (OSError, ValueError, RuntimeError):  # the last is a link that leads to itself
        return None


def places(file: Path | None) -> Places:
    """The text and the places of a file; none in one that cannot be read, is too large or of another kind."""
    try:
        if file is None or file.stat().st_size > _LARGEST:
            return Places()
        content, format_ = file.read_bytes(), format_of(file.name + known_as(file.name, file))
        reader = "" if format_ is None else format_.reader
        if reader == "pdf.read_pdf":
            pages = pdf_pages(content, most=_PAGES).texts
            starts = accumulate((len(page) + 1 for page in pages), initial=0)
            marks = tuple((at, {"page": number}) for number, at in enumerate(starts, start=1))
            return Places("\n".join(pages), marks=marks)
        if reader == "web.read_html":
            page = parsed(decode(content, markup=True).text)
            text, titles, _ = ("", [], "") if page is None else outline(page)
            return Places(text, marks=_marks(titles))
        if format_ is not None and reader in _SECTIONS:
            source = decode(content).text if reader == "text.read_markdown" else ""
            begins = front_matter(source)[1]
            text = source[:begins] + read_as(format_, content).text
            return Places(text, begins, True, _marks(_SECTIONS[reader](text, begins)))
        if format_ is not None and format_.has_lines:
            return Places(decode(content).text, has_lines=True)
        if format_ is not None and (len(content) <= _LARGEST_PACKED or content[:2] != b"PK"):
            read = read_as(format_, content)
            labels = tuple((at, {"place": place}) for at, place in read.places)
            if not file.name.lower().endswith(_PROSE):
                return Places(read.text, marks=labels)
            parts = [Heading(at, 1, "") for at, _ in read.places] if reader == "office.read_epub" else []
            titles = sorted([*parts, *headings(read.text)], key=lambda heading: heading.at)
            return Places(read.text, marks=labels + _marks(titles), is_prose=True)
    except (OSError, ValueError, ImportError, MemoryError, Unreadable):
        pass
    return Places()


def _marks(headings: Iterable[Heading]) -> tuple[tuple[int, Mapping[str, object]], ...]:
    """From each heading on, the headings that a place stands under, outermost first, and the nearest id before it."""
    marks: list[tuple[int, Mapping[str, object]]] = []
    above: list[Heading] = []
    nearest = None
    for heading in headings:
        above = [*(each for each in above if each.level < heading.level), heading]
        nearest = heading.id or nearest
        trail = " > ".join(each.text for each in above if each.text)
        marks.append((heading.at, {"heading": trail, "fragment": nearest}))
    return tuple(marks)

"""Reading files into documents: Markdown, text, HTML, PDF and JSONL.

A file that cannot be read is `Unreadable`, and the corpus is indexed without it. A broken line of a JSONL corpus is a
DataError, because the corpus is then not what its owner believes.
"""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import islice
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple, cast

from pydantic_core import from_json

from reground.core.errors import DataError
from reground.retrieval.documents import (
    HTML_SUFFIXES,
    MARKDOWN_SUFFIXES,
    PDF_SUFFIXES,
    Document,
    SourceFile,
)
from reground.retrieval.encodings import Unreadable, decode

_LONGEST_TITLE = 300


def read_file(file: SourceFile, content: bytes) -> Document:
    """The one document in a file that is not JSONL. Raises Unreadable, or the error of a parser."""
    suffix = PurePosixPath(file.name).suffix.lower()
    title, text, guessed = _readers().get(suffix, _read_text)(content)
    if not text.strip():
        raise Unreadable("holds no text")
    title = " ".join(title.split())[:_LONGEST_TITLE] or PurePosixPath(file.name).stem
    return Document(id=file.name, title=title, text=text, url=file.name, source=file.name, guessed=guessed)


class _Read(NamedTuple):
    """What is in a file, and its encoding where that was guessed."""

    title: str
    text: str
    guessed: str = ""


def _readers() -> dict[str, Callable[[bytes], _Read]]:
    by_kind = ((MARKDOWN_SUFFIXES, _read_markdown), (HTML_SUFFIXES, _read_html), (PDF_SUFFIXES, _read_pdf))
    return {suffix: read for suffixes, read in by_kind for suffix in suffixes}


def _read_text(content: bytes) -> _Read:
    return _Read("", *decode(content))


def _read_markdown(content: bytes) -> _Read:
    text, guessed = decode(content)
    title, start = _front_matter(text)
    text = text[start:]
    return _Read(title or _first_heading(text), text, guessed)


def _front_matter(text: str) -> tuple[str, int]:
    """The title that YAML front matter gives, and where the text behind it begins."""
    title, start = "", 0
    for number, line in enumerate(_lines(text)):
        start += len(line)
        fence = line.rstrip() == "---"
        if not number and not fence:
            break
        if number and fence:
            return title, start
        if line.startswith("title:") and not title:
            title = line.removeprefix("title:").strip().strip("\"'")
    return "", 0


def _first_heading(text: str) -> str:
    """The first heading, `# so` or underlined with ===. A # in code is a comment."""
    before = code = ""
    for line in _lines(text):
        mark = line[:3]
        if mark in ("```", "~~~") and code in ("", mark):
            code = "" if code else mark
            before = ""
        elif not code:
            underline = line.rstrip()
            if before[:1].strip() and underline and not underline.strip("="):
                return before.strip()
            if heading := _heading(line):
                return heading
            before = line
    return ""


def _heading(line: str) -> str:
    """The text of a heading such as `## this`; "" where the line is none."""
    hashes = line.lstrip(" ")
    text = hashes.lstrip("#")
    if len(line) - len(hashes) > 3 or not 1 <= len(hashes) - len(text) <= 6 or text[:1] not in (" ", "\t"):
        return ""
    text = text.strip()
    open_ = text.rstrip("#")
    return open_.rstrip() if open_[-1:] in (" ", "\t") else text


def _lines(text: str) -> Iterator[str]:
    """The lines with their ends. One at a time, because a title is near the top of a text that may be large."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


# Searched and cut with plain string methods and lxml, whose time grows with the length alone. A regular expression with
# two repetitions side by side, or the standard library's HTML parser, takes the square of it on hostile input.
_HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "title"))
_BLOCKS = frozenset(
    ("p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "pre", "table", "dt", "dd")
)
_HEADINGS_TRIED = 20


def _read_html(content: bytes) -> _Read:
    import trafilatura
    from lxml import etree

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it complains of pages without an article
    source, guessed = decode(content, markup=True)
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    page = etree.fromstring(source.encode(), parser) if source.strip() else None
    if page is None:
        return _Read("", "")
    try:
        text = trafilatura.extract(source, include_comments=False, include_tables=True) or ""
    except Exception:  # whatever it trips over, the plain text is still there
        text = ""
    titles = (_visible(element) for tag in ("h1", "title") for element in islice(page.iter(tag), _HEADINGS_TRIED))
    return _Read(next(filter(None, titles), ""), text or _visible(page), guessed)


def _visible(root: Any) -> str:
    """The text that a browser shows of an element, a block a line."""
    from lxml import etree

    pieces = []
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        block = "\n" if element.tag in _BLOCKS else ""
        if event == "end":
            pieces += [block, (element.tail or "") if element is not root else ""]
        elif element.tag in _HIDDEN and element is not root:
            walk.skip_subtree()
        else:
            pieces += [block, element.text or ""]
    lines = (" ".join(line.split()) for line in "".join(pieces).splitlines())
    return "\n".join(line for line in lines if line)


def _read_pdf(content: bytes) -> _Read:
    title, pages = pdf_pages(content)
    return _Read(title, "\n\n".join(page.strip() for page in pages if page.strip()))


def pdf_pages(content: bytes, *, most: int | None = None) -> tuple[str, list[str]]:
    """The title of a PDF and the texts of its first `most` pages. Raises Unreadable."""
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every flaw that it can read over
    try:
        reader = PdfReader(BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("is a PDF with a password")
        title = (reader.metadata and reader.metadata.title) or ""
        return str(title), [page.extract_text() for page in reader.pages[:most]]
    except Unreadable:
        raise
    except Exception as error:  # a broken PDF can fail in any way
        raise Unreadable(f"is not a readable PDF: {error or type(error).__name__}") from None


def read_jsonl(file: SourceFile) -> Iterator[Document]:
    """The documents of a JSONL corpus, gzipped or not: `{"id","title","text"}`, `{"id","contents"}`, BEIR's `_id`,
    BRIGHT's `content`.

    Documents without text are passed over. Raises DataError naming the file and the line.
    """
    number = 0
    try:
        with _open(file) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    document = _parse(line, file, number)
                    if document.text.strip():
                        yield document
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"the compressed file is damaged: {error}", path=file.path, line=number + 1) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=file.path) from None


def _open(file: SourceFile) -> IO[bytes]:
    if file.name.lower().endswith(".gz"):
        return cast("IO[bytes]", gzip.open(file.path))
    return file.path.open("rb")


def _parse(line: bytes, file: SourceFile, number: int) -> Document:
    try:
        record = from_json(line)
    except ValueError:
        record = _parse_leniently(line, file, number)
    if not isinstance(record, dict):
        raise DataError("not a JSON object", path=file.path, line=number)
    id_ = record.get("id", record.get("_id"))
    if not isinstance(id_, str | int) or isinstance(id_, bool) or id_ == "":
        raise DataError('has no "id" (or "_id")', path=file.path, line=number)
    title, text = _title_and_text(record)
    if text is None:
        raise DataError('has no "text" (or "contents")', path=file.path, line=number)
    url = record.get("url")
    text = text if text.strip() else title  # a title alone can be found too
    return Document(str(id_), title, text, url if isinstance(url, str) and url else None, file.name)


def _parse_leniently(line: bytes, file: SourceFile, number: int) -> Any:
    """Read a record that the fast parser refuses: lone surrogates become "?". Raises DataError for a broken record."""
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            return record
        return {name: _encodable(value) if isinstance(value, str) else value for name, value in record.items()}
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "nested too deeply" if isinstance(error, RecursionError) else "not UTF-8")
        raise DataError(f"not a JSON record: {reason}", path=file.path, line=number) from None


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _title_and_text(record: dict[str, Any]) -> tuple[str, str | None]:
    """Title and text of a record; `contents` opens with its title on a line of its own, maybe in quotes."""
    title = record.get("title")
    title = " ".join(title.split()) if isinstance(title, str) else ""
    text = record.get("text", record.get("content"))
    if isinstance(text, str):
        return title, text
    contents = record.get("contents")
    if not isinstance(contents, str):
        return title, None
    head, newline, rest = contents.partition("\n")
    if not title and newline and len(head) <= _LONGEST_TITLE:
        return head.strip().strip('"'), rest
    return title, contents

"""Reading files into documents: Markdown, text, HTML, PDF and JSONL.

What one document's file lacks makes it `Unreadable`, and a corpus goes on without it; a broken line of a
JSONL corpus is a DataError, because then the corpus is not what its owner believes.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from io import BytesIO
from pathlib import PurePosixPath
from typing import IO, Any, cast

from pydantic_core import from_json

from reground.core.errors import DataError
from reground.retrieval.documents import (
    HTML_SUFFIXES,
    MARKDOWN_SUFFIXES,
    PDF_SUFFIXES,
    Document,
    SourceFile,
)

_LONGEST_TITLE = 300


class Unreadable(DataError):
    """A file that yields no document; the corpus can do without it."""


def read_file(file: SourceFile, content: bytes) -> Document:
    """The one document in a file that is not JSONL. Raises Unreadable."""
    suffix = PurePosixPath(file.name).suffix.lower()
    read = _readers().get(suffix, _read_text)
    title, text = read(content)
    if not text.strip():
        raise Unreadable("holds no text")
    title = " ".join(title.split())[:_LONGEST_TITLE] or PurePosixPath(file.name).stem
    return Document(id=file.name, title=title, text=text, url=file.name, source=file.name)


def _readers() -> dict[str, Callable[[bytes], tuple[str, str]]]:
    by_kind = ((MARKDOWN_SUFFIXES, _read_markdown), (HTML_SUFFIXES, _read_html), (PDF_SUFFIXES, _read_pdf))
    return {suffix: read for suffixes, read in by_kind for suffix in suffixes}


def decode(content: bytes) -> str:
    """Text of unknown encoding: by its byte-order mark, else UTF-8, else Windows-1252. Raises Unreadable."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    if b"\0" in content:
        raise Unreadable("is binary, not text")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def _read_text(content: bytes) -> tuple[str, str]:
    return "", decode(content)


_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_FRONT_TITLE = re.compile(r"^title:[ \t]*[\"']?(.*?)[\"']?[ \t]*\r?$", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*\r?$", re.MULTILINE)
_UNDERLINED = re.compile(r"^(?=\S)(.+?)[ \t]*\r?\n=+[ \t]*\r?$", re.MULTILINE)
_CODE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)


def _read_markdown(content: bytes) -> tuple[str, str]:
    text = decode(content)
    title = ""
    front = _FRONT_MATTER.match(text)
    if front:
        text = text[front.end() :]
        named = _FRONT_TITLE.search(front.group(1))
        title = named.group(1) if named else ""
    if not title:
        prose = _CODE.sub("", text)  # a # in code is a comment
        headings = [found for found in (_HEADING.search(prose), _UNDERLINED.search(prose)) if found]
        title = min(headings, key=lambda found: found.start()).group(1) if headings else ""
    return title, text


def _read_html(content: bytes) -> tuple[str, str]:
    import trafilatura

    source = decode(content)
    plain = _PlainText()
    plain.feed(source)
    plain.close()
    try:
        text = trafilatura.extract(source, include_comments=False, include_tables=True) or ""
    except Exception:  # whatever its parser trips over, the plain text is still there
        text = ""
    return plain.heading or plain.title, text or plain.text


class _PlainText(HTMLParser):
    """The visible text of a page, its title and its first heading; for pages that hold no article."""

    _HIDDEN = frozenset(("script", "style", "noscript", "template", "svg"))
    _BLOCKS = frozenset(
        (
            "p",
            "div",
            "br",
            "li",
            "tr",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "section",
            "article",
            "pre",
            "table",
            "dt",
            "dd",
        )
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._pieces: list[str] = []
        self.title = ""
        self.heading = ""
        self._heading_done = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._HIDDEN or tag in ("title", "h1"):
            self._open.append(tag)
        if tag in self._BLOCKS:
            self._pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass
            self._heading_done = self._heading_done or (tag == "h1" and bool(self.heading.strip()))
        if tag in self._BLOCKS:
            self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if any(tag in self._HIDDEN for tag in self._open):
            return
        if "title" in self._open:
            self.title += data
            return
        if "h1" in self._open and not self._heading_done:
            self.heading += data
        self._pieces.append(data)

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._pieces).splitlines())
        return "\n".join(line for line in lines if line)


def _read_pdf(content: bytes) -> tuple[str, str]:
    import logging

    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every flaw that it can read over
    try:
        reader = PdfReader(BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("is a PDF with a password")
        pages = [page.extract_text() for page in reader.pages]
        title = (reader.metadata and reader.metadata.title) or ""
    except Unreadable:
        raise
    except Exception as error:  # a broken PDF can fail in any way
        raise Unreadable(f"is not a readable PDF: {error or type(error).__name__}") from None
    return str(title), "\n\n".join(page.strip() for page in pages if page.strip())


def read_jsonl(file: SourceFile) -> Iterator[Document]:
    """The documents of a JSONL corpus, gzipped or not: `{"id","title","text"}`, `{"id","contents"}`, BEIR's `_id`.

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
    """What the fast parser refuses: lone surrogates, which become "?", or a broken record. Raises DataError."""
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            return record
        return {name: _encodable(value) if isinstance(value, str) else value for name, value in record.items()}
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "not UTF-8"
        raise DataError(f"not a JSON record: {reason}", path=file.path, line=number) from None


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _title_and_text(record: dict[str, Any]) -> tuple[str, str | None]:
    """Title and text of a record; `contents` opens with its title on a line of its own, maybe in quotes."""
    title = record.get("title")
    title = " ".join(title.split()) if isinstance(title, str) else ""
    text = record.get("text")
    if isinstance(text, str):
        return title, text
    contents = record.get("contents")
    if not isinstance(contents, str):
        return title, None
    head, newline, rest = contents.partition("\n")
    if not title and newline and len(head) <= _LONGEST_TITLE:
        return head.strip().strip('"'), rest
    return title, contents

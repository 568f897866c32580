"""Reading files into documents, whatever their format: each has a file of its own in `reground.retrieval.reading`.

A file that cannot be read is `Unreadable`, and the corpus is indexed without it. A broken line of a JSONL corpus is a
DataError, because the corpus is then not what its owner believes.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import PurePosixPath
from typing import IO, Any, cast

from pydantic_core import from_json

from reground.core.errors import DataError
from reground.retrieval import kinds
from reground.retrieval.documents import Document, SourceFile
from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.reading.result import PLAIN, Circumstances, Read

_LONGEST_TITLE = 300
_LONGEST_LINE = 64 << 20
_LONGEST_ID = 200
_PASSING = (OSError, ImportError, MemoryError)  # these lie outside of a file and may be gone next time

Reader = Callable[[bytes, Circumstances], Read]


def read_documents(file: SourceFile, around: Circumstances = PLAIN) -> Iterator[Document]:
    """The documents of a file of any kind. Raises Unreadable, OSError, or DataError for a broken line of a corpus."""
    if file.is_jsonl:
        yield from read_jsonl(file, around)
    elif file.holds_several:
        yield from read_mailbox(file, around)
    else:
        yield read_file(file, file.read(), around)


def read_file(file: SourceFile, content: bytes, around: Circumstances = PLAIN) -> Document:
    """The one document in a file that holds no more. Raises Unreadable, ImportError, MemoryError or OSError."""
    reader, is_code = _reader(file.typed)
    try:
        read = reader(content, around)
    except (DataError, *_PASSING):
        raise
    except Exception as error:  # a broken file can make a parser fail in any way
        said = " ".join(str(error).split())
        raise Unreadable(f"cannot be read: {type(error).__name__}{': ' if said else ''}{said}") from None
    if not read.text.strip():
        raise Unreadable("holds no text", kind="empty")
    path = PurePosixPath(file.name)
    title = " ".join(read.title.split())[:_LONGEST_TITLE] or (path.name if is_code else path.stem)
    return Document(
        id=file.name, title=title, text=read.text, url=file.name, source=file.name,
        guessed=read.guessed, partly=read.partly,
    )  # fmt: skip


def version(name: str) -> int:
    """The version of what reads a file of this name. It rises when the reader gives another text than before, and an
    index then reads the files of that kind again."""
    suffix = PurePosixPath(name).suffix.lower()
    return next((number for suffixes, number in _VERSIONS.items() if suffix in suffixes), 1)


def read_mailbox(file: SourceFile, around: Circumstances = PLAIN) -> Iterator[Document]:
    """The messages of a mailbox. Its name and a message's own id make the id, so that a message keeps it when others
    go; a copy of a message is passed over. Raises Unreadable and OSError."""
    from reground.retrieval.reading.mail import mailbox

    taken: set[str] = set()
    seen: set[int] = set()
    with file.path.open("rb") as lines:
        for mail in mailbox(lines, around):
            around.tick(_share(lines, file))
            read = mail.read
            title = " ".join(read.title.split())[:_LONGEST_TITLE] or "(no subject)"
            id_ = f"{file.name}/{mail.key[:_LONGEST_ID]}"
            document = Document(id_, title, read.text, file.name, file.name, read.guessed)
            if not read.text.strip() or document.content in seen:
                continue
            seen.add(document.content)
            yield replace(document, id=f"{id_}~{document.content:x}") if id_ in taken else document
            taken.add(id_)


def _reader(name: str) -> tuple[Reader, bool]:
    """What reads a file of this name, and whether it is source code, which keeps its suffix in its title."""
    suffix = PurePosixPath(name).suffix.lower()
    for suffixes, module, function in _READERS:
        if suffix in suffixes:
            return getattr(import_module(f"reground.retrieval.reading.{module}"), function), False
    return _read_markup if suffix in _MARKUP else _read_text, suffix not in kinds.TEXT_SUFFIXES


_READERS = (
    (kinds.MARKDOWN_SUFFIXES, "markdown", "read_markdown"),
    (kinds.HTML_SUFFIXES, "html", "read_html"),
    (kinds.PDF_SUFFIXES, "pdf", "read_pdf"),
    (kinds.WORD_SUFFIXES, "office", "read_word"),
    (kinds.SLIDES_SUFFIXES, "office", "read_slides"),
    (kinds.SHEETS_SUFFIXES, "sheets", "read_sheets"),
    (kinds.OPEN_DOCUMENT_SUFFIXES, "opendocument", "read_open_document"),
    (kinds.EPUB_SUFFIXES, "epub", "read_epub"),
    (kinds.MAIL_SUFFIXES, "mail", "read_mail"),
    (kinds.TABLE_SUFFIXES, "delimited", "read_delimited"),
    (kinds.JSON_SUFFIXES, "data", "read_json"),
    (kinds.NOTEBOOK_SUFFIXES, "data", "read_notebook"),
)
_VERSIONS = {
    kinds.PDF_SUFFIXES: 4,
    kinds.MARKDOWN_SUFFIXES: 2,
    kinds.HTML_SUFFIXES: 4,
    kinds.WORD_SUFFIXES: 3,
    kinds.SLIDES_SUFFIXES: 3,
    kinds.SHEETS_SUFFIXES: 3,
    kinds.OPEN_DOCUMENT_SUFFIXES: 3,
    kinds.EPUB_SUFFIXES: 3,
    kinds.MAIL_SUFFIXES: 5,
    kinds.MAILBOX_SUFFIXES: 5,
    kinds.TABLE_SUFFIXES: 4,
    kinds.JSON_SUFFIXES: 3,
}
"""Versions of readers, where they are not the first. PDF: 1 by pypdf, 2 by PDFium, 3 with scanned pages among others,
4 with pages behind a broken one and late scanned ones. Other kinds: with what the version before left out or misplaced.
"""
_MARKUP = (".xml", ".xsl", ".xsd")


def _read_text(content: bytes, around: Circumstances) -> Read:
    return Read("", *decode(content))


def _read_markup(content: bytes, around: Circumstances) -> Read:
    return Read("", *decode(content, markup=True))


def read_jsonl(file: SourceFile, around: Circumstances = PLAIN) -> Iterator[Document]:
    """The documents of a JSONL corpus, gzipped or not: `{"id","title","text"}`, `{"id","contents"}`, BEIR's `_id`,
    BRIGHT's `content`.

    Documents without text are passed over. Raises DataError naming the file and the line.
    """
    number = 0
    try:
        with _open(file) as lines:
            for number, line in enumerate(_lines(lines), start=1):
                if len(line) > _LONGEST_LINE:
                    why = f"a line of more than {_LONGEST_LINE >> 20} MB; cut its text into several records"
                    raise DataError(why, path=file.path, line=number)
                if line.strip():
                    around.tick(_share(lines, file))
                    document = _parse(line, file, number)
                    if document.text.strip():
                        yield document
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"the compressed file is damaged: {error}", path=file.path, line=number + 1) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=file.path) from None


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file; of one that is too long its beginning, and then no more."""
    while line := file.readline(_LONGEST_LINE + 1):
        yield line


def _share(opened: IO[bytes], file: SourceFile) -> float:
    """How much of a file is read, compressed or not."""
    place: int = getattr(opened, "fileobj", opened).tell()
    return place / file.size if file.size else 0.0


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

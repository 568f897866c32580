"""The documents of a corpus, and how they are read from files.

Each format has a function in `reground.retrieval.reading`. A file that cannot be read is `Unreadable`, and the corpus
is indexed without it. A broken line of a JSONL corpus is a DataError, because the corpus is then not what its owner
believes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast

from pydantic_core import from_json

from reground.core.errors import DataError
from reground.core.language import storable_text
from reground.retrieval import filetypes
from reground.retrieval.encodings import Unreadable
from reground.retrieval.filetypes import JSONL_SUFFIXES, MAILBOX_SUFFIXES, largest
from reground.retrieval.reading.result import PLAIN, Circumstances, Read

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Document:
    """One text of a corpus, before it is cut into passages.

    id: unique in the corpus; a file's path relative to the corpus folder, or the id that a JSONL line gives.
    url: where a reader may find it; a relative path for files. source: the file it was read from.
    guessed: its encoding, if that was a guess. partly: what of its file was not read, and why.
    """

    id: str
    title: str
    text: str
    url: str | None = None
    source: str = ""
    guessed: str = ""
    partly: str = ""

    @property
    def key(self) -> int:
        """63 bits of a hash of the id: how an index refers to a document."""
        return _hash(self.id)

    @property
    def content(self) -> int:
        """63 bits of a hash of everything that an index keeps of the document."""
        return _hash(self.id, self.title, self.url or "", self.text)


def _hash(*texts: str) -> int:
    """63 bits over texts with a zero between them, taken piece by piece, for a text may be large."""
    digest = hashlib.blake2b(digest_size=8)
    for number, text in enumerate(texts):
        digest.update(b"\0" if number else b"")
        for start in range(0, len(text), _PIECE):
            digest.update(text[start : start + _PIECE].encode())
    return int.from_bytes(digest.digest(), "big") >> 1


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable file of a corpus. `name` is its path relative to the corpus folder, with forward slashes.

    suffix: the one that the name ought to have, where it does not say what the file is (`filetypes.known_as`).
    """

    path: Path
    name: str
    size: int
    mtime_ns: int
    suffix: str = ""

    @property
    def typed(self) -> str:
        """A name that says what the file is."""
        return self.name + self.suffix

    @property
    def is_jsonl(self) -> bool:
        """Whether it holds one document a line, rather than one in all."""
        return self.typed.lower().endswith(JSONL_SUFFIXES)

    @property
    def holds_several(self) -> bool:
        """Whether it holds several documents, which are read one at a time."""
        return self.typed.lower().endswith(JSONL_SUFFIXES + MAILBOX_SUFFIXES)

    def read(self) -> bytes:
        """All that is in it. Raises OSError, and Unreadable where that is too much."""
        most = largest(self.typed)
        with self.path.open("rb") as file:
            content = file.read() if most is None else file.read(most + 1)
        if most is not None and len(content) > most:
            raise too_large(len(content), most)
        return content


def too_large(size: int, most: int) -> Unreadable:
    """What to say of a file of `size` bytes where at most `most` are read."""
    mb = 1 << 20
    return Unreadable(f"is too large: {size / mb:.0f} MB, and at most {most // mb} MB are read", kind="large")


_LONGEST_TITLE = 300
_LONGEST_LINE = 64 << 20
_LONGEST_ID = 200
PASSING = (OSError, ImportError, MemoryError)  # these lie outside of a file and may be gone next time

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
    format_ = format_of(file.typed)
    reader: Reader = getattr(import_module(f"reground.retrieval.reading.{format_.module}"), format_.function)
    try:
        read = reader(content, around)
    except (Unreadable, *PASSING):
        raise
    except Exception as error:  # a broken file can make a parser fail in any way
        message = " ".join(str(error).split())
        raise Unreadable(f"cannot be read: {type(error).__name__}{': ' if message else ''}{message}") from None
    if not read.text.strip():
        raise Unreadable("holds no text", kind="empty")
    path = PurePosixPath(file.name)
    is_code = path.suffix.lower() in filetypes.CODE_SUFFIXES
    title = " ".join(read.title.split())[:_LONGEST_TITLE] or (path.name if is_code else path.stem)
    return Document(
        id=file.name, title=title, text=read.text, url=file.name, source=file.name,
        guessed=read.guessed, partly=read.partly,
    )  # fmt: skip


def read_mailbox(file: SourceFile, around: Circumstances = PLAIN) -> Iterator[Document]:
    """The messages of a mailbox. Its name and a message's own id make the id, so that a message keeps it when others
    go; a copy of a message is passed over. Raises Unreadable and OSError."""
    from reground.retrieval.reading.mail import mailbox

    ids: set[str] = set()
    contents: set[int] = set()
    with file.path.open("rb") as lines:
        for mail in mailbox(lines, around):
            around.tick(_share(lines, file))
            read = mail.read
            title = " ".join(read.title.split())[:_LONGEST_TITLE] or "(no subject)"
            id_ = f"{file.name}/{mail.key[:_LONGEST_ID]}"
            document = Document(id_, title, read.text, file.name, file.name, read.guessed)
            if not read.text.strip() or document.content in contents:
                continue
            contents.add(document.content)
            yield replace(document, id=f"{id_}~{document.content:x}") if id_ in ids else document
            ids.add(id_)


class Format(NamedTuple):
    """What reads the files with some suffixes: a function of a module of `reground.retrieval.reading`.

    version: rises when the function gives another text than before; an index then reads the files of that kind again.
    """

    suffixes: tuple[str, ...]
    module: str = "text"
    function: str = "read_plain"
    version: int = 1


_FORMATS = (
    Format(filetypes.MARKDOWN_SUFFIXES, "text", "read_markdown"),
    Format(filetypes.TABLE_SUFFIXES, "text", "read_delimited"),
    Format(filetypes.JSON_SUFFIXES, "text", "read_json"),
    Format(filetypes.NOTEBOOK_SUFFIXES, "text", "read_notebook"),
    Format(filetypes.MARKUP_SUFFIXES, "text", "read_markup"),
    Format(filetypes.HTML_SUFFIXES, "web", "read_html"),
    Format(filetypes.PDF_SUFFIXES, "pdf", "read_pdf"),
    Format(filetypes.WORD_SUFFIXES, "office", "read_word"),
    Format(filetypes.SLIDES_SUFFIXES, "office", "read_slides"),
    Format(filetypes.SHEETS_SUFFIXES, "office", "read_sheets"),
    Format(filetypes.OPEN_DOCUMENT_SUFFIXES, "office", "read_open_document"),
    Format(filetypes.EPUB_SUFFIXES, "office", "read_epub"),
    Format(filetypes.MAIL_SUFFIXES + filetypes.MAILBOX_SUFFIXES, "mail", "read_mail"),
)
_PLAIN_TEXT = Format(())


def format_of(name: str) -> Format:
    """What reads a file of this name."""
    suffix = PurePosixPath(name).suffix.lower()
    return next((each for each in _FORMATS if suffix in each.suffixes), _PLAIN_TEXT)


def read_jsonl(file: SourceFile, around: Circumstances = PLAIN) -> Iterator[Document]:
    """The documents of a JSONL corpus, gzipped or not: `{"id","title","text"}`, `{"id","contents"}`, BEIR's `_id`,
    BRIGHT's `content`.

    Documents without text are passed over. Raises DataError naming the file and the line.
    """
    number = 0
    try:
        with cast(
            "IO[bytes]", gzip.open(file.path) if file.name.lower().endswith(".gz") else file.path.open("rb")
        ) as lines:
            # Of a line that is too long, the beginning is enough.
            for number, line in enumerate(iter(partial(lines.readline, _LONGEST_LINE + 1), b""), start=1):
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


def _share(opened: IO[bytes], file: SourceFile) -> float:
    """How much of a file is read, compressed or not."""
    place: int = getattr(opened, "fileobj", opened).tell()
    return place / file.size if file.size else 0.0


def _parse(line: bytes, file: SourceFile, number: int) -> Document:
    try:
        record = from_json(line)
    except ValueError:  # Python's own parser takes half a surrogate pair
        try:
            record = json.loads(storable_text(json.dumps(json.loads(line), ensure_ascii=False)))
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", "not UTF-8")
            raise DataError(f"not a JSON record: {reason}", path=file.path, line=number) from None
    if not isinstance(record, dict):
        raise DataError("not a JSON object", path=file.path, line=number)
    id_ = record.get("id", record.get("_id"))
    if not isinstance(id_, str | int) or isinstance(id_, bool) or id_ == "":
        raise DataError('has no "id" (or "_id")', path=file.path, line=number)
    title, url = record.get("title"), record.get("url")
    title = " ".join(title.split()) if isinstance(title, str) else ""
    text, contents = record.get("text", record.get("content")), record.get("contents")
    if not isinstance(text, str) and isinstance(contents, str):
        head, newline, rest = contents.partition("\n")  # it opens with its title, maybe in quotes
        is_titled = not title and newline and len(head) <= _LONGEST_TITLE
        title, text = (head.strip().strip('"'), rest) if is_titled else (title, contents)
    if not isinstance(text, str):
        raise DataError('has no "text" (or "contents")', path=file.path, line=number)
    text = text if text.strip() else title  # a title alone can be found too
    return Document(str(id_), title, text, url if isinstance(url, str) and url else None, file.name)

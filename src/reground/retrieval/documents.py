"""The documents of a corpus: its files, what each is by its name or its beginning, and how documents are read from it.

Each format has a function in `reground.retrieval.reading`. A file that cannot be read is `Unreadable`, and the corpus
is indexed without it. A broken line of a JSONL corpus is a DataError, because the corpus is then not what its owner
believes.

Mail programs store messages under names without a suffix: the messages of a Maildir, the numbers of MH, the mailboxes
of Thunderbird and of a mail server's spool.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import IO, NamedTuple, cast

from pydantic_core import from_json

from reground.core.errors import ConfigurationError, DataError
from reground.core.files import regular
from reground.core.language import storable_text
from reground.core.user_code import called, check_parts, origin
from reground.retrieval.encodings import Unreadable
from reground.retrieval.filters import ALL, Globs, fields_of
from reground.retrieval.reading.result import PLAIN, Circumstances, Read
from reground.retrieval.reading.text import json_lines
from reground.retrieval.settings import IndexReport, Skipped
from reground.retrieval.storage import holds_index


class Format(NamedTuple):
    """Files with some suffixes.

    reader: what reads them, as module and function of `reground.retrieval.reading`. version: rises when that function
    gives another text than before; an index then reads these files again. most: the megabytes of one at most; None
    where it holds many documents, which are read one at a time. has_lines: whether a passage stands in the file as it
    does in the index. is_code: whether it is source code, where lines come before sentences.
    """

    suffixes: tuple[str, ...]
    reader: str = "text.read_plain"
    version: int = 1
    most: int | None = 128
    has_lines: bool = False
    is_code: bool = False


def _suffixes(listed: str) -> tuple[str, ...]:
    return tuple(f".{word}" for word in listed.split())


_CODE = _suffixes(
    "py pyi pyx js mjs cjs jsx ts mts cts tsx vue svelte java kt kts scala groovy gradle clj cljs c h cc cpp cxx "
    "hh hpp hxx cu m mm swift cs fs vb go rs rb php pl pm lua r jl hs ml mli ex exs erl elm dart nim zig v sv vhd "
    "vhdl asm s f f90 f95 pas ada sol sql sh bash zsh fish ps1 bat cmd tcl awk el lisp scm rkt css scss sass less "
    "yaml yml toml ini cfg conf properties proto graphql thrift tf hcl nix cmake mk dockerfile"
)
_TEXT = Format(_suffixes("txt text log bib srt vtt textile jsonc json5"), version=2, has_lines=True)
JSONL = Format((".jsonl", ".ndjson", ".jsonl.gz"), version=4, most=None, has_lines=True)
FORMATS = (
    _TEXT,
    Format((".rst",), "text.read_structured", version=5, has_lines=True),
    Format((".adoc", ".asciidoc", ".typ", ".wiki", ".mediawiki"), "text.read_asciidoc", version=6, has_lines=True),
    Format((".org",), "text.read_org", version=4, has_lines=True),
    Format((".tex",), "text.read_tex", version=5, has_lines=True),
    Format(_suffixes("md markdown mdown mkd mdx qmd rmd"), "text.read_markdown", version=8, has_lines=True),
    Format((".html", ".htm", ".xhtml"), "web.read_html", version=3, most=32),
    Format((".pdf",), "pdf.read_pdf", version=6, most=256),
    JSONL,
    Format((".docx", ".docm", ".dotx"), "office.read_word", version=3),
    Format((".pptx", ".pptm", ".ppsx"), "office.read_slides", version=4, most=256),
    Format((".xlsx", ".xlsm"), "office.read_sheets", version=5),
    Format((".odt", ".ods", ".odp"), "office.read_open_document", version=3),
    Format((".epub",), "office.read_epub", version=3, most=256),
    Format((".eml",), "mail.read_mail", version=4, has_lines=True),
    Format((".ics",), "mail.read_calendar"),
    Format((".mbox", ".mbx"), "mail.read_mail", version=4, most=None, has_lines=True),
    Format((".csv", ".tsv"), "text.read_delimited", version=3, most=64),
    Format((".json", ".geojson", ".jsonld"), "text.read_json", version=3, most=32),
    Format((".ipynb",), "text.read_notebook", version=2, most=32),
    Format((".xml", ".xsl", ".xsd"), "text.read_markup", version=2, most=64, has_lines=True, is_code=True),
    Format(_CODE, version=2, has_lines=True, is_code=True),
)
READ = (
    "Markdown, text, HTML, PDF, Word, PowerPoint, Excel, OpenDocument, EPUB, e-mail, CSV, JSON, JSONL, notebooks "
    "and source code"
)
"""What is read, in words."""
_TEXT_NAMES = frozenset([
    "readme", "license", "licence", "copying", "notice", "authors", "contributors", "changelog", "changes", "news",
    "todo", "install", "makefile", "dockerfile", "jenkinsfile", "vagrantfile", "gemfile", "rakefile", "procfile",
    "justfile",
])  # fmt: skip
"""Files without a suffix that hold text."""


def format_of(name: str) -> Format | None:
    """What a file of this name is; None for one that is not read."""
    name = name.lower()
    known = next((each for each in FORMATS if name.endswith(each.suffixes)), None)
    return _TEXT if known is None and name.rpartition("/")[2] in _TEXT_NAMES else known


_OTHER = ("other", "is of a kind that is not read")
_UNREAD = {
    suffix: (kind, why)
    for kind, why, suffixes in (
        ("image", "is an image", "png jpg jpeg gif bmp tif tiff webp heic svg ico psd ai eps raw xcf"),
        ("sound", "is a sound recording", "mp3 wav flac ogg m4a aac wma opus mid"),
        ("video", "is a video", "mp4 mkv avi mov webm wmv m4v mpg mpeg"),
        ("archive", "is an archive; unpack it first", "zip gz tgz bz2 xz zst 7z rar tar jar war whl deb rpm iso dmg"),
        ("font", "is a font", "ttf otf woff woff2 eot"),
        ("program", "is a compiled program", "exe dll so dylib a o obj lib bin class pyc pyd wasm"),
        ("data", "is binary data", "db sqlite sqlite3 mdb accdb parquet feather arrow"),
        ("data", "is binary data", "npy npz h5 hdf5 pkl pickle pt safetensors gguf onnx"),
        *(
            ("old", f"is in an old or closed format; save it as .{new} to have it read", old)
            for new, old in (
                ("docx", "doc dot rtf wps pages wpd"),
                ("xlsx", "xls xlt xlsb numbers"),
                ("pptx", "ppt pps key"),
                ("eml", "msg"),
                ("mbox", "pst"),
                ("epub", "mobi azw3"),
                ("pdf", "djvu ps"),
            )
        ),
    )
    for suffix in suffixes.split()
}


def why_unread(name: str) -> tuple[str, str]:
    """The kind of a file that is not read, by its name, and why it is not."""
    return _UNREAD.get(name.lower().rpartition(".")[2], _OTHER)


_BEGINNING = 32 << 10
"""Bytes that are looked at. Servers on the way put up to some ten kilobytes of headers before a message's own."""
_HEADER = re.compile(rb"([!-9;-~]{1,80}):")
_DATED = {b"date", b"message-id", b"received"}


def known_as(name: str, path: Path) -> str:
    """The suffix that a file ought to have: ".eml" for a message, ".mbox" for a mailbox; "" where its own says it, for
    any other file, and for one that cannot be opened."""
    if format_of(name) is not None or why_unread(name) != _OTHER:
        return ""
    try:
        if not path.is_file() or not path.stat().st_size:  # to read a pipe, or what /proc has, may wait for ever
            return ""
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
    except OSError:
        return ""
    first, _, rest = beginning.partition(b"\n")
    if first.startswith(b"From "):
        return ".mbox" if _is_message(rest) else ""
    return ".eml" if _is_message(beginning) else ""


def _is_message(beginning: bytes) -> bool:
    """Whether a text begins with the headers of a message: who wrote it, and when or under which id it came."""
    names: set[bytes] = set()
    *lines, _ = beginning.split(b"\n")
    for line in lines:
        if not line.strip():
            break
        header = _HEADER.match(line)
        if header:
            names.add(header[1].lower())
        elif not (names and line[:1] in b" \t"):
            return False
    return b"from" in names and not names.isdisjoint(_DATED)


_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Document:
    """One text of a corpus, before it is cut into passages.

    id: unique in the corpus; a file's path relative to the corpus folder, or the id that a JSONL line gives.
    url: where a reader may find it; a relative path for files. source: the file it was read from.
    guessed: its encoding, if that was a guess. partly: what of its file was not read, and why. fields: what filters go
    by, in JSON; "" where it has none.
    """

    id: str
    title: str
    text: str
    url: str | None = None
    source: str = ""
    guessed: str = ""
    partly: str = ""
    fields: str = ""

    @property
    def key(self) -> int:
        """How an index refers to a document."""
        return key_of(self.id)

    @property
    def content(self) -> int:
        """63 bits of a hash of everything that an index keeps of the document."""
        return key_of(self.id, self.title, self.url or "", self.text, *filter(None, [self.fields]))


def key_of(*texts: str) -> int:
    """63 bits of a hash of texts with a zero between them, taken piece by piece, for a text may be large."""
    digest = hashlib.blake2b(digest_size=8)
    for number, text in enumerate(texts):
        digest.update(b"\0" if number else b"")
        for start in range(0, len(text), _PIECE):
            digest.update(text[start : start + _PIECE].encode())
    return int.from_bytes(digest.digest(), "big") >> 1


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable file of a corpus. `name` is its path relative to the corpus folder, with forward slashes.

    suffix: the one that the name ought to have, where it does not say what the file is (`known_as`). inode: the number
    of its inode and when that changed, which is told also where an edit keeps size and time.
    """

    path: Path
    name: str
    size: int
    mtime_ns: int
    suffix: str = ""
    inode: str = ""

    @property
    def format(self) -> Format:
        """What it is; text where the name does not say it."""
        return format_of(self.name + self.suffix) or FORMATS[0]

    def read(self) -> bytes:
        """All that is in it. Raises OSError, and Unreadable where that is too much."""
        with self.path.open("rb") as file:
            most = self.format.most
            content = file.read() if most is None else file.read((most << 20) + 1)
        check_size(len(content), self.format)
        return content


def check_size(size: int, format_: Format) -> None:
    """Raises Unreadable where a file of `size` bytes is too large to be read."""
    if format_.most is not None and size > format_.most << 20:
        why = f"is too large: {size / (1 << 20):.0f} MB, and at most {format_.most} MB are read"
        raise Unreadable(why, kind="large")


_LONGEST_TITLE, _LONGEST_ID = 300, 200  # characters
_LONGEST_LINE = 64 << 20
PASSING = (OSError, ImportError, MemoryError)  # these lie outside of a file and may be gone next time


def read_documents(file: SourceFile, around: Circumstances = PLAIN) -> Iterator[Document]:
    """The documents of a file of any kind. Raises Unreadable, OSError, or DataError for a broken line of a corpus."""
    if file.format is JSONL:
        yield from read_jsonl(file, around)
    elif file.format.most is None:
        yield from read_mailbox(file, around)
    else:
        yield read_file(file, file.read(), around)


def read_file(file: SourceFile, content: bytes, around: Circumstances = PLAIN) -> Document:
    """The one document in a file that holds no more. Raises Unreadable, ImportError, MemoryError or OSError."""
    read = read_as(file.format, content, around)
    if not read.text.strip():
        raise Unreadable("holds no text", kind="empty")
    path = PurePosixPath(file.name)
    title = _titled(read) or (path.name if file.format.is_code else path.stem)
    fields = _fields(read.fields, file)
    return Document(file.name, title, read.text, file.name, file.name, read.guessed, read.partly, fields)


def _fields(known: Mapping[str, object], file: SourceFile | None = None) -> str:
    """What filters go by, beside what the name of the file tells, in JSON."""
    fields = fields_of({**known, "type": file.suffix[1:]} if file is not None and file.suffix else known)
    return json.dumps(fields, ensure_ascii=False) if fields else ""


def read_as(format_: Format, content: bytes, around: Circumstances = PLAIN) -> Read:
    """What a file of this format holds. Raises as `read_file` does, and ConfigurationError for what is no reader."""
    name, function = format_.reader.split(".")
    module = import_module(f"reground.retrieval.reading.{name}")
    check_parts(module, "reader", function)
    try:
        read = called(getattr(module, function), content, around)
    except (Unreadable, ConfigurationError, *PASSING):
        raise
    except Exception as error:
        raise Unreadable.of(error) from None
    if not isinstance(read, Read):
        raise ConfigurationError(f"{origin(module)}: {function} gave {read!r:.80}, not a Read")
    return read


def _titled(read: Read) -> str:
    return " ".join(read.title.split())[:_LONGEST_TITLE]


def read_mailbox(file: SourceFile, around: Circumstances = PLAIN) -> Iterator[Document]:
    """The messages of a mailbox. Its name and a message's own id make the id, so that a message keeps it when others
    go; a copy of a message is passed over. Raises Unreadable and OSError."""
    from reground.retrieval.reading.mail import mailbox

    ids: set[str] = set()
    contents: set[int] = set()
    with file.path.open("rb") as lines:
        for key, read in mailbox(lines, around):
            around.tick(_share(lines, file))
            id_ = f"{file.name}/{key[:_LONGEST_ID]}"
            title = _titled(read) or "(no subject)"
            fields = _fields(read.fields, file)
            document = Document(id_, title, read.text, file.name, file.name, read.guessed, fields=fields)
            if read.text.strip() and document.content not in contents:
                contents.add(document.content)
                yield replace(document, id=f"{id_}~{document.content:x}") if id_ in ids else document
                ids.add(id_)


def read_jsonl(file: SourceFile, around: Circumstances = PLAIN) -> Iterator[Document]:
    """The documents of a JSONL corpus, gzipped or not: `{"id","title","text"}`, `{"id","contents"}`, BEIR's `_id`,
    BRIGHT's `content`. Of a record without a text all that it holds is one, as of a .json file.

    Documents without text are passed over. Raises DataError naming the file and the line, and Unreadable where the
    first line is no record: then it is a file of another program, which the rest of a corpus can do without.
    """
    number, is_corpus = 0, False
    is_packed = file.name.lower().endswith(".gz")
    try:
        with cast("IO[bytes]", gzip.open(file.path) if is_packed else file.path.open("rb")) as lines:
            # Of a line that is too long, the beginning is enough.
            for number, line in enumerate(iter(partial(lines.readline, _LONGEST_LINE + 1), b""), start=1):
                if len(line) > _LONGEST_LINE:
                    raise ValueError(f"a line of more than {_LONGEST_LINE >> 20} MB; cut its text into several records")
                if line.strip():
                    around.tick(_share(lines, file))
                    document, is_corpus = _parse(line, file.name, number), True
                    if document.text.strip():
                        yield document
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"the compressed file is damaged: {error}", path=file.path, line=number + 1) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=file.path) from None
    except ValueError as error:
        if not is_corpus:
            raise Unreadable(f"is no corpus of documents: line {number}: {error}", kind="other") from None
        raise DataError(str(error), path=file.path, line=number) from None


def _share(opened: IO[bytes], file: SourceFile) -> float:
    """How much of a file is read, compressed or not."""
    place: int = getattr(opened, "fileobj", opened).tell()
    return place / file.size if file.size else 0.0


def _parse(line: bytes, source: str, number: int) -> Document:
    """The document of a line. Raises ValueError."""
    try:
        record = from_json(line)
    except ValueError:  # Python's own parser takes half a surrogate pair
        try:
            record = json.loads(storable_text(json.dumps(json.loads(line), ensure_ascii=False)))
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", "not UTF-8")
            raise ValueError(f"not a JSON record: {reason}") from None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    id_ = record.get("id", record.get("_id"))
    if not isinstance(id_, str | int) or isinstance(id_, bool) or id_ == "":
        id_ = f"{source}/{number}"
    title, url = record.get("title"), record.get("url")
    title = " ".join(title.split()) if isinstance(title, str) else ""
    text, contents = record.get("text", record.get("content")), record.get("contents")
    if not isinstance(text, str) and isinstance(contents, str):
        head, newline, rest = contents.partition("\n")  # it opens with its title, maybe in quotes
        is_titled = not title and newline and len(head) <= _LONGEST_TITLE
        title, text = (head.strip().strip('"'), rest) if is_titled else (title, contents)
    if not isinstance(text, str):
        text, title = "\n".join(json_lines(record)), title or PurePosixPath(source).stem
    text = text if text.strip() else title  # a title alone can be found too
    inner = record.get("metadata")
    known = {**(inner if isinstance(inner, dict) else {}), **record}
    fields = _fields({name: value for name, value in known.items() if name not in _PARTS})
    return Document(str(id_), title, text, url if isinstance(url, str) and url else None, source, fields=fields)


_PARTS = frozenset(("id", "_id", "title", "text", "content", "contents", "url"))
"""The keys of a record that are the document; others are fields, as are those of `metadata`."""
_IGNORED_FOLDERS = {"node_modules", "__pycache__"}
_CORPUS_FILES = {"corpus.jsonl", "corpus.jsonl.gz"}
_PROGRESS_EVERY = 200  # files and folders
_DEVICE = ("other", "is a device or a pipe, not a file")


class Scan(NamedTuple):
    """A corpus at a glance: the files that can be read, in the order of their names, and those that are left out."""

    files: list[SourceFile]
    unread: list[Skipped]


def scan(
    source: Path,
    *,
    exclude: Path | None = None,
    progress: Callable[[int], object] = lambda _: None,
    globs: Globs = ALL,
) -> Scan:
    """Every file of a corpus. Links are followed to files inside the folder, and to no other folder.

    Left out are files of other kinds and of too many bytes, hidden files and folders, node_modules, and links that lead
    out of the folder or nowhere. A folder stands for all that is in it. In a folder with corpus.jsonl (the BEIR layout)
    only that file counts; the files beside it are queries, judgements and descriptions. `exclude` is passed over in
    silence. globs: which files of a folder are read. `progress` is told now and then how many files there are so far;
    what it raises ends it. Raises DataError if nothing is found.
    """
    if not source.exists():
        raise DataError("there is no such file or folder", path=source)
    top = regular(source).resolve()
    root = top if top.is_dir() else top.parent
    excluded = Path(os.path.realpath(exclude)) if exclude else None
    files: list[SourceFile] = []
    unread: list[Skipped] = []
    for number, (path, kind, why) in enumerate(_walk(top, excluded, globs) if top.is_dir() else [(top, "file", "")]):
        if number % _PROGRESS_EVERY == 0:
            progress(len(files))
        name = written(path.relative_to(root))
        result = _file(path, name) if kind == "file" else Skipped(path=name, why=why, kind=kind) if why else None
        if isinstance(result, SourceFile):
            files.append(result)
        elif result is not None:
            unread.append(result)
    if not files:
        among = f" among {counted(unread)}" if unread else ""
        raise DataError(f"no document found{among}; reground reads {READ}", path=source)
    return Scan(sorted(files, key=lambda file: file.name), sorted(unread, key=lambda each: each.path))


def _walk(top: Path, excluded: Path | None, globs: Globs) -> Iterator[tuple[Path, str, str]]:
    """Everything in a folder with its kind: "file", "folder", or why it is left out."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            yield folder, "failed", f"is a folder that cannot be opened: {error.strerror}"
            continue
        is_corpus = any(entry.name in _CORPUS_FILES for entry in entries)
        for entry in entries:
            path = Path(entry.path)
            if path == excluded:
                continue
            kind, why = _kind(entry, path, top, is_corpus)
            is_folder = kind == "folder"
            if not why and not globs.take(written(path.relative_to(top)), is_folder=is_folder):
                is_folder, kind, why = False, "chosen", "is left out by --include or --exclude"
            if is_folder:
                waiting.append(path)
            yield path, kind, why


def _kind(entry: os.DirEntry[str], path: Path, top: Path, is_corpus: bool) -> tuple[str, str]:
    """What an entry of a folder is, and why it is left out."""
    if entry.name.startswith("."):
        return "hidden", "is hidden"
    if is_corpus and entry.name not in _CORPUS_FILES:
        return "beside", "stands beside corpus.jsonl, which is the corpus"
    if entry.is_symlink():
        return _kind_of_link(path, top)
    if entry.is_dir(follow_symlinks=False):
        if entry.name in _IGNORED_FOLDERS:
            return "hidden", "is a folder of other programs"
        with suppress(OSError):  # it cannot be entered, which is told where its entries are
            if holds_index(path):
                return "hidden", "is an index of reground"
        return "folder", ""
    return ("file", "") if entry.is_file(follow_symlinks=False) else _DEVICE


def _kind_of_link(path: Path, top: Path) -> tuple[str, str]:
    """What a link leads to; only files of this corpus are read."""
    try:
        target = path.resolve(strict=True)
    except FileNotFoundError:
        return "link", "is a link to nothing"
    except (OSError, RuntimeError):
        return "link", "is a link in a circle"
    if not target.is_relative_to(top):
        return "link", "is a link that leaves the folder"
    if target.is_dir():
        if path.parent.is_relative_to(target):
            return "link", "is a link in a circle"
        return "link", "is a link to a folder of this corpus, which is read there"
    return ("file", "") if target.is_file() else _DEVICE


def _file(path: Path, name: str) -> SourceFile | Skipped | None:
    """A file as it is read, or why it is not; None where it is gone since it was listed."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return Skipped(path=name, why=str(Unreadable.of(error)), kind="failed")
    file = SourceFile(
        path, name, stat.st_size, stat.st_mtime_ns, known_as(name, path), f"{stat.st_ctime_ns} {stat.st_ino}"
    )
    if format_of(name + file.suffix) is None:
        kind, why = why_unread(name)
        return Skipped(path=name, why=why, kind=kind)
    try:
        check_size(file.size, file.format)
    except Unreadable as error:
        return Skipped(path=name, why=str(error), kind=error.kind)
    return file


def written(path: Path) -> str:
    """A path as text. A name that is no valid Unicode cannot be written down as it is."""
    return path.as_posix().encode("utf-8", "backslashreplace").decode()


_WORDS = {  # one and several files of a kind, where the kind itself is not the word
    "image": ("image", "images"), "sound": ("sound recording", "sound recordings"), "video": ("video", "videos"),
    "archive": ("archive", "archives"), "font": ("font", "fonts"), "program": ("program", "programs"),
    "data": ("of binary data",) * 2, "old": ("in an old format", "in old formats"),
    "other": ("of another kind", "of other kinds"), "large": ("too large",) * 2, "link": ("link", "links"),
    "beside": ("beside the corpus",) * 2, "empty": ("without text",) * 2,
    "chosen": ("left out by --include or --exclude",) * 2,
    "encoding": ("in an unknown encoding", "in unknown encodings"), "failed": ("unreadable",) * 2,
}  # fmt: skip
_EXPECTED = frozenset(("hidden", "beside", "chosen"))  # kinds that are left out by rule, which need not be told
_NAMED = 3


def counted(files: Sequence[Skipped]) -> str:
    """How many files there are, and how many of each kind: "9 files (8 images, 1 too large)"."""
    kinds = Counter(file.kind for file in files)
    counts = [f"{count} {_WORDS.get(kind, (kind, kind))[count > 1]}" for kind, count in kinds.most_common()]
    return f"{len(files)} file{'s' if len(files) > 1 else ''} ({', '.join(counts)})"


def line(report: IndexReport) -> str:
    """One line about the files that were not read: their names where they are few, else how many there are of each
    kind, and how to have them listed. "" where all were read but hidden ones."""
    unread = [file for file in report.skipped if file.kind not in _EXPECTED]
    if not unread:
        return ""
    if len(unread) <= _NAMED:
        return f"not read: {', '.join(f'{file.path} ({file.why})' for file in unread)}"
    language = f" --language {report.language}" if report.language != "en" else ""
    command = f"reground index {quote(str(report.source or 'CORPUS'))}{language} --report"
    return f"not read: {counted(unread)}; list them: {command}"

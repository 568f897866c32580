"""Documents, and where in a folder they are found."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reground.core.errors import DataError

TEXT_SUFFIXES = (".txt", ".text", ".rst")
MARKDOWN_SUFFIXES = (".md", ".markdown")
HTML_SUFFIXES = (".html", ".htm", ".xhtml")
PDF_SUFFIXES = (".pdf",)
JSONL_SUFFIXES = (".jsonl", ".jsonl.gz")
SUFFIXES = MARKDOWN_SUFFIXES + TEXT_SUFFIXES + HTML_SUFFIXES + PDF_SUFFIXES + JSONL_SUFFIXES

_IGNORED_FOLDERS = {"node_modules", "__pycache__"}
_CORPUS_FILES = {"corpus.jsonl", "corpus.jsonl.gz"}


@dataclass(frozen=True, slots=True)
class Document:
    """One text of a corpus, before it is cut into passages.

    id: unique in the corpus; a file's path relative to the corpus folder, or the id that a JSONL line gives.
    url: where a reader may find it; a relative path for files. source: the file it was read from.
    guessed: its encoding, if that was a guess.
    """

    id: str
    title: str
    text: str
    url: str | None = None
    source: str = ""
    guessed: str = ""

    @property
    def key(self) -> int:
        """63 bits of a hash of the id: how an index refers to a document."""
        return _hash(self.id)

    @property
    def content(self) -> int:
        """63 bits of a hash of everything that an index keeps of the document."""
        return _hash("\0".join((self.id, self.title, self.url or "", self.text)))


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable file of a corpus. `name` is its path relative to the corpus folder, with forward slashes."""

    path: Path
    name: str
    size: int
    mtime_ns: int

    @property
    def is_jsonl(self) -> bool:
        """Whether it holds one document a line, rather than one in all."""
        return self.name.lower().endswith(JSONL_SUFFIXES)


def find_files(source: Path, *, exclude: Path | None = None) -> list[SourceFile]:
    """Every readable file of a corpus, in the order of their names.

    Skips hidden files and folders, node_modules and symbolic links that leave the folder, and does not enter linked
    folders. In a folder with corpus.jsonl (the BEIR layout) only that file counts; the files beside it are queries,
    judgements and descriptions. Raises DataError if nothing is found.
    """
    if not source.exists():
        raise DataError("there is no such file or folder", path=source)
    root = source.resolve()
    if root.is_file():
        found = [root] if root.name.lower().endswith(SUFFIXES) else []
        base = root.parent
    else:
        found = list(_walk(root, root, Path(os.path.realpath(exclude)) if exclude else None))
        base = root
    if not found:
        raise DataError(f"no document found; looked for files ending in {', '.join(SUFFIXES)}", path=source)
    files = []
    for path in found:
        try:
            stat = path.stat()
        except OSError:
            continue  # gone since it was listed
        # A name that is no valid Unicode cannot be written down as it is.
        name = path.relative_to(base).as_posix().encode("utf-8", "backslashreplace").decode()
        files.append(SourceFile(path, name, stat.st_size, stat.st_mtime_ns))
    return sorted(files, key=lambda file: file.name)


def _walk(folder: Path, root: Path, exclude: Path | None) -> Iterator[Path]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    corpus = [entry for entry in entries if entry.name in _CORPUS_FILES]
    for entry in corpus or entries:
        path = Path(entry.path)
        if entry.name.startswith(".") or entry.name in _IGNORED_FOLDERS or path == exclude:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(path, root, exclude)
        elif _is_wanted(entry, root):
            yield path


def _is_wanted(entry: os.DirEntry[str], root: Path) -> bool:
    if not entry.name.lower().endswith(SUFFIXES) or not entry.is_file():
        return False
    return not entry.is_symlink() or Path(os.path.realpath(entry.path)).is_relative_to(root)

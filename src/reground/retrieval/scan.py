"""Looks through a corpus folder: which files can be read, why the others are not, and how to say so."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from reground.core.errors import DataError
from reground.retrieval.documents import SourceFile, too_large
from reground.retrieval.filetypes import READ, is_read, known_as, largest, why_unread
from reground.retrieval.settings import IndexReport, Skipped
from reground.retrieval.storage import holds_index

_IGNORED_FOLDERS = {"node_modules", "__pycache__"}
_CORPUS_FILES = {"corpus.jsonl", "corpus.jsonl.gz"}
_TOLD_EVERY = 200  # entries of a folder


class Scan(NamedTuple):
    """A corpus at a glance: the files that can be read, in the order of their names, and those that are left out."""

    files: list[SourceFile]
    unread: list[Skipped]


def find_files(source: Path, *, exclude: Path | None = None) -> list[SourceFile]:
    """The files of `scan`."""
    return scan(source, exclude=exclude).files


def scan(source: Path, *, exclude: Path | None = None, progress: Callable[[int], object] = lambda _: None) -> Scan:
    """Every file of a corpus. Links are followed to files inside the folder, and to no other folder.

    Left out are files of other kinds and of too many bytes, hidden files and folders, node_modules, and links that lead
    out of the folder or nowhere. A folder stands for all that is in it. In a folder with corpus.jsonl (the BEIR layout)
    only that file counts; the files beside it are queries, judgements and descriptions. `exclude` is passed over in
    silence. `progress` is told now and then how many files there are so far; what it raises ends it. Raises
    DataError if nothing is found.
    """
    if not source.exists():
        raise DataError("there is no such file or folder", path=source)
    root = source.resolve()
    walk = _Walk(root if root.is_dir() else root.parent, Path(os.path.realpath(exclude)) if exclude else None, progress)
    if root.is_dir():
        walk.folder(root)
    elif root.is_file():
        walk.file(root)
    else:
        raise DataError("is a device or a pipe, not a file or folder: write what it gives into a file", path=source)
    if not walk.files:
        among = f" among {counted(walk.unread)}" if walk.unread else ""
        raise DataError(f"no document found{among}; reground reads {READ}", path=source)
    return Scan(sorted(walk.files, key=lambda file: file.name), sorted(walk.unread, key=lambda each: each.path))


class _Walk:
    """Goes through a folder and sorts what it meets."""

    def __init__(self, root: Path, exclude: Path | None, progress: Callable[[int], object]) -> None:
        self.files: list[SourceFile] = []
        self.unread: list[Skipped] = []
        self._root = root
        self._exclude = exclude
        self._progress = progress

    def folder(self, folder: Path) -> None:
        """Take in a folder and the folders in it."""
        waiting = [folder]
        while waiting:
            waiting += self._entries(waiting.pop())

    def file(self, path: Path) -> None:
        """Take in a file."""
        name = written(path.relative_to(self._root))
        try:
            stat = path.stat()
        except FileNotFoundError:
            return  # gone since it was listed
        except OSError as error:
            self._leave(path, f"cannot be read: {error.strerror}", "failed")
            return
        suffix = known_as(name, path)
        if not is_read(name + suffix):
            kind, why = why_unread(name)
            self._leave(path, why, kind)
            return
        most = largest(name + suffix)
        if most is not None and stat.st_size > most:
            refusal = too_large(stat.st_size, most)
            self._leave(path, str(refusal), refusal.kind)
            return
        self.files.append(SourceFile(path, name, stat.st_size, stat.st_mtime_ns, suffix))

    def _entries(self, folder: Path) -> Iterator[Path]:
        """Take in the entries of a folder. Yields the folders among them."""
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            self._leave(folder, f"is a folder that cannot be opened: {error.strerror}", "failed")
            return
        is_corpus = any(entry.name in _CORPUS_FILES for entry in entries)
        for number, entry in enumerate(entries):
            if number % _TOLD_EVERY == 0:
                self._progress(len(self.files))
            path = Path(entry.path)
            if path != self._exclude and self._take(path, entry, is_corpus):
                yield path

    def _take(self, path: Path, entry: os.DirEntry[str], is_corpus: bool) -> bool:
        """Take in an entry of a folder. Returns whether it is a folder to go through."""
        if entry.name.startswith("."):
            self._leave(path, "is hidden", "hidden")
        elif is_corpus and entry.name not in _CORPUS_FILES:
            self._leave(path, "stands beside corpus.jsonl, which is the corpus", "beside")
        elif entry.is_symlink():
            self._link(path)
        elif entry.is_dir(follow_symlinks=False):
            if why := _why_passed_over(path):
                self._leave(path, why, "hidden")
            return not why
        elif entry.is_file(follow_symlinks=False):
            self.file(path)
        else:
            self._leave(path, "is a device or a pipe, not a file", "other")
        return False

    def _link(self, path: Path) -> None:
        """Take in the file that a link leads to, if it is one of this corpus."""
        kind = "link"
        try:
            target = path.resolve(strict=True)
        except FileNotFoundError:
            why = "is a link to nothing"
        except (OSError, RuntimeError):
            why = "is a link in a circle"
        else:
            if not target.is_relative_to(self._root):
                why = "is a link that leaves the folder"
            elif target.is_dir():
                circle = path.parent.is_relative_to(target)
                why = "is a link in a circle" if circle else "is a link to a folder of this corpus, which is read there"
            elif target.is_file():
                return self.file(path)
            else:
                why, kind = "is a device or a pipe, not a file", "other"
        return self._leave(path, why, kind)

    def _leave(self, path: Path, why: str, kind: str) -> None:
        self.unread.append(Skipped(path=written(path.relative_to(self._root)), why=why, kind=kind))


def written(path: Path) -> str:
    """A path as text. A name that is no valid Unicode cannot be written down as it is."""
    return path.as_posix().encode("utf-8", "backslashreplace").decode()


def _why_passed_over(folder: Path) -> str:
    """Why a folder holds no documents; "" where it may."""
    if folder.name in _IGNORED_FOLDERS:
        return "is a folder of other programs"
    try:
        return "is an index of reground" if holds_index(folder) else ""
    except OSError:  # it cannot be entered, which is told where its entries are
        return ""


_WORDS = {
    "image": ("image", "images"), "sound": ("sound recording", "sound recordings"), "video": ("video", "videos"),
    "archive": ("archive", "archives"), "font": ("font", "fonts"), "program": ("program", "programs"),
    "data": ("of binary data", "of binary data"), "old": ("in an old format", "in old formats"),
    "other": ("of another kind", "of other kinds"), "large": ("too large", "too large"),
    "hidden": ("hidden", "hidden"), "link": ("link", "links"), "beside": ("beside the corpus", "beside the corpus"),
    "encrypted": ("encrypted", "encrypted"), "scanned": ("scanned", "scanned"), "binary": ("binary", "binary"),
    "empty": ("without text", "without text"), "damaged": ("damaged", "damaged"),
    "encoding": ("in an unknown encoding", "in unknown encodings"), "failed": ("unreadable", "unreadable"),
}  # fmt: skip
_EXPECTED = frozenset(("hidden", "beside"))
"""Kinds that are left out by rule, of which nobody needs to be told at every question."""
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
        named = ", ".join(f"{file.path} ({file.why})" for file in unread)
        return f"not read: {named}"
    language = f" --language {report.language}" if report.language != "en" else ""
    command = f"reground index {quote(str(report.source or 'CORPUS'))}{language} --report"
    return f"not read: {counted(unread)}; list them: {command}"

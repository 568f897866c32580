"""Looks through a corpus folder: which files can be read, why the others are not, and how to say so."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from reground.core.errors import DataError
from reground.retrieval.documents import READ, SourceFile, check_size, format_of, known_as, why_unread
from reground.retrieval.encodings import Unreadable
from reground.retrieval.settings import IndexReport, Skipped
from reground.retrieval.storage import holds_index

_IGNORED_FOLDERS = {"node_modules", "__pycache__"}
_CORPUS_FILES = {"corpus.jsonl", "corpus.jsonl.gz"}
_DEVICE = ("other", "is a device or a pipe, not a file")
_TOLD_EVERY = 200  # files and folders


class Scan(NamedTuple):
    """A corpus at a glance: the files that can be read, in the order of their names, and those that are left out."""

    files: list[SourceFile]
    unread: list[Skipped]


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
    top = source.resolve()
    if not top.is_dir() and not top.is_file():
        raise DataError("is a device or a pipe, not a file or folder: write what it gives into a file", path=source)
    root = top if top.is_dir() else top.parent
    excluded = Path(os.path.realpath(exclude)) if exclude else None
    files: list[SourceFile] = []
    unread: list[Skipped] = []
    for number, (path, kind, why) in enumerate(_walk(top, excluded) if top.is_dir() else [(top, "file", "")]):
        if number % _TOLD_EVERY == 0:
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


def _walk(top: Path, excluded: Path | None) -> Iterator[tuple[Path, str, str]]:
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
            if kind == "folder":
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


_WORDS = {
    "image": ("image", "images"), "sound": ("sound recording", "sound recordings"), "video": ("video", "videos"),
    "archive": ("archive", "archives"), "font": ("font", "fonts"), "program": ("program", "programs"),
    "data": ("of binary data",) * 2, "old": ("in an old format", "in old formats"),
    "other": ("of another kind", "of other kinds"), "large": ("too large",) * 2, "link": ("link", "links"),
    "beside": ("beside the corpus",) * 2, "empty": ("without text",) * 2,
    "encoding": ("in an unknown encoding", "in unknown encodings"), "failed": ("unreadable",) * 2,
}  # fmt: skip
"""One and several files of a kind, where the kind itself is not the word."""
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
        return f"not read: {', '.join(f'{file.path} ({file.why})' for file in unread)}"
    language = f" --language {report.language}" if report.language != "en" else ""
    command = f"reground index {quote(str(report.source or 'CORPUS'))}{language} --report"
    return f"not read: {counted(unread)}; list them: {command}"

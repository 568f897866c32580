"""An index on disk: a folder that is always whole.

    INDEX/manifest.json     what the index is; names the generation that counts
    INDEX/unfinished.json   the same of a build that was interrupted: the generation from which the next one goes on
    INDEX/data-<name>/      one generation: bm25/, vectors/, ledger.sqlite
    INDEX/lock              held while an index is built

A new generation is written beside the old one, sharing by hard links what does not change, and then replaces it in one
atomic step: the renaming of manifest.json. Whatever happens before that step, the old index is whole; what a crash
leaves behind goes with the next build. A reader holds a shared lock on its generation, which so outlives its
replacement for as long as it is read.

ledger.sqlite has the files and documents that a generation was made from, so that an update reads only what changed. It
is in SQLite, so millions of documents and the search for repeated ids need little memory.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import sqlite3
import weakref
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pydantic import JsonValue, ValidationError

from reground.core.errors import ConfigurationError, IndexBusy, IndexRefused, RegroundError, StorageError
from reground.core.files import regular, writing
from reground.core.language import Value

FORMAT = "reground-index"
VERSION = 4
MANIFEST = "manifest.json"
UNFINISHED = "unfinished.json"
LOCK = "lock"
_PREFIX = "data-"
_GENERATION = re.compile(rf"{_PREFIX}[0-9A-Za-z]+")
_SYSTEM = " (os error "  # what stands behind the operating system's words where libraries written in Rust quote them
_CHECKED_BYTES = 200_000_000  # an index up to this size is read and checked whole when it is opened, in 0.2 seconds


class FileCheck(Value):
    """The size of a file and the CRC-32 of its content."""

    size: int
    crc32: int


class EmbedderIdentity(Value):
    """The embedder that made an index's vectors. weights: their fingerprint, if they were in a folder."""

    name: str
    dimension: int = 0
    weights: str | None = None


class Manifest(Value):
    """The description of an index. `fingerprint` changes when its passages or its settings do.

    source: the folder of the corpus. terms: the version of the terms of its words (`IndexSettings.terms`).
    """

    format: str = FORMAT
    version: int = VERSION
    generation: str
    fingerprint: str
    source: str = ""
    settings: dict[str, JsonValue]
    documents: int
    passages: int
    embedder: EmbedderIdentity | None = None
    decontaminated: str | None = None
    terms: int
    files: dict[str, FileCheck]

    @property
    def name(self) -> str:
        """The index's kind and fingerprint, so that a changed index has another name."""
        return f"{self.settings['kind']}@{self.fingerprint}"

    @property
    def recipe(self) -> object:
        """The part that no update changes; the address of the embedder makes no difference."""
        weights = None if self.embedder is None else self.embedder.weights
        return {**self.settings, "embedder_url": None}, weights, self.decontaminated, self.terms


def read_manifest(path: Path, name: str = MANIFEST) -> Manifest:
    """The manifest of the index at `path`. Raises IndexRefused with the reason and what to do.

    name: `UNFINISHED` for that of a build which was interrupted.
    """
    again = f"build it again: reground index CORPUS --out {path}"
    if not path.is_dir():
        raise IndexRefused(f"there is no index at {path}; {again}")
    try:
        record = json.loads(regular(path / name).read_bytes())
    except FileNotFoundError:
        if is_ours(path) and any(path.iterdir()):
            raise IndexRefused(f"building the index {path} did not come to its end; {again}") from None
        make = "make one: reground index CORPUS --out INDEX"
        raise IndexRefused(f"{path} is not an index: it has no {name}; {make}") from None
    except OSError as error:
        raise IndexRefused(f"the index {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise IndexRefused(f"the index {path} is damaged: its {name} is not JSON; {again}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise IndexRefused(f"{path} is not an index of reground: its {name} is of another format")
    if (version := record.get("version")) != VERSION:
        raise IndexRefused(f"the index {path} has format version {version}, this reground reads {VERSION}; {again}")
    try:
        manifest, where = Manifest.model_validate(record), "generation"
    except ValidationError as error:
        manifest, where = None, ".".join(map(str, error.errors()[0]["loc"]))
    if manifest is None or not _GENERATION.fullmatch(manifest.generation):
        raise IndexRefused(f"the index {path} is damaged: its {name} has no valid {where}; {again}")
    return manifest


def check_files(path: Path, manifest: Manifest, *, whole: bool | None = None) -> bool:
    """Compare a generation with its manifest: sizes always, contents of a small index or if `whole` says so.

    Returns whether contents were compared. Raises IndexRefused naming the first file that differs.
    """
    if whole is None:
        whole = sum(check.size for check in manifest.files.values()) <= _CHECKED_BYTES
    for name, check in manifest.files.items():
        try:
            now = _check_of(path / manifest.generation / name, check.crc32 if not whole else None)
            if now.size != check.size:
                flaw = f"has {now.size} bytes instead of {check.size}"
            else:
                flaw = "" if now == check else "has other content than was written"
        except FileNotFoundError:
            flaw = "is missing"
        except OSError as error:
            flaw = f"cannot be read: {error.strerror}"
        if flaw:
            raise IndexRefused(
                f"the index {path} is damaged: {manifest.generation}/{name} {flaw}; "
                f"build it again: reground index CORPUS --out {path}"
            )
    return whole


def _check_of(file: Path, crc: int | None = None) -> FileCheck:
    """The check of a file; of its content if the checksum is not given."""
    size = file.stat().st_size
    if crc is None:
        crc = 0
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                crc = zlib.crc32(block, crc)
    return FileCheck(size=size, crc32=crc)


@contextmanager
def refusing(message: str) -> Iterator[None]:
    """Turn a library's errors in a damaged index into ours; a panic of Rust is a BaseException, so that nobody swallows
    it by accident."""
    try:
        yield
    except RegroundError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        why = str(error).splitlines() or [type(error).__name__]
        raise IndexRefused(f"{message}: {why[0]}") from None


def holds_index(path: Path) -> bool:
    """Whether a folder is an index, whole or damaged. Other programs write a manifest.json too, and beside other files
    theirs is one document of many."""
    try:
        record = json.loads(regular(path / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    except (OSError, ValueError, RecursionError):
        record = None
    return (isinstance(record, dict) and record.get("format") == FORMAT) or is_ours(path)


def is_ours(path: Path) -> bool:
    """Whether a folder holds nothing but what an index consists of."""
    names = {MANIFEST, MANIFEST + ".part", UNFINISHED, UNFINISHED + ".part", LOCK}
    return all(entry.name in names or _GENERATION.fullmatch(entry.name) for entry in path.iterdir())


class Hold:
    """Protects a generation's folder from cleaning while this object lives, or until `release`."""

    def __init__(self, folder: Path) -> None:
        try:
            handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            handle = os.open(os.devnull, os.O_RDONLY)  # the check of the files will say what is wrong
        self.release = weakref.finalize(self, os.close, handle)
        with suppress(OSError):  # a file system without locks: the index can be read all the same
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)


class Building:
    """A generation in the making, in a folder of its own; see `building`.

    base: the index that it updates. content: the name of the generation that it begins with, whose files it shares.
    """

    def __init__(self, path: Path, base: Manifest | None, content: str = "") -> None:
        self.path = path
        self.name = f"{_PREFIX}{secrets.token_hex(4)}"
        self.folder = path / self.name
        self.folder.mkdir()
        (self.folder / LOCK).touch()
        self._shared = base.files if base is not None else {}
        for file in (path / content).rglob("*") if content else ():
            target = self.folder / file.relative_to(path / content)
            if file.is_dir():
                target.mkdir(exist_ok=True)
            elif not file.name.endswith(LOCK):  # each generation has locks of its own
                _share(file, target)

    def publish(self, manifest: Manifest, name: str = MANIFEST) -> None:
        """Make this generation the index, for all who may read its folder: tantivy keeps some files to its user."""
        for file in self.folder.rglob("*.json"):
            shutil.copymode(self.folder / LOCK, file)
        part = self.path / f"{name}.part"
        with part.open("w", encoding="utf-8") as out:
            out.write(manifest.model_dump_json(indent=1))
            out.flush()
            os.fsync(out.fileno())
        part.replace(self.path / name)
        if name == MANIFEST:
            (self.path / UNFINISHED).unlink(missing_ok=True)

    def checks(self) -> dict[str, FileCheck]:
        """Sizes and checksums of the generation's files. Those of shared files are taken from the old manifest."""
        checks = {}
        for file in sorted(self.folder.rglob("*")):
            name = file.relative_to(self.folder).as_posix()
            if file.is_file() and not file.name.endswith(LOCK):
                old = self._shared.get(name)
                checks[name] = old if old is not None and file.stat().st_nlink > 1 else _check_of(file)
        return checks


def _share(file: Path, target: Path) -> None:
    """Link a file, or copy one that is rewritten in its place; all others are never changed once written."""
    if file.suffix not in (".json", ".sqlite"):
        with suppress(OSError):
            os.link(file, target)
            return
    shutil.copyfile(file, target)


@contextmanager
def building(path: Path) -> Iterator[None]:
    """Lock the index at `path` for building. Unpublished generations, and those that no reader holds, are removed.

    Raises IndexBusy where another process builds it, ConfigurationError where the folder holds anything else, and
    StorageError where the disk refuses.
    """
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    if not is_ours(path):
        raise ConfigurationError(f"{path} holds other files and no index: choose another folder with --out")
    with (path / LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IndexBusy(f"the index {path} is being built by another process; try again when it is done") from None
        try:
            clean(path)
            yield
        except (sqlite3.Error, ValueError, RuntimeError) as error:
            # The disk refused: SQLite has errors of its own for that, tantivy and Lance quote the system.
            message, is_quoted, _ = str(error).partition(_SYSTEM)
            if not is_quoted and not isinstance(error, sqlite3.Error):
                raise
            why = re.split("['\":]", message)[-1].strip() if is_quoted else error
            raise StorageError(f"cannot write the index {path}: {why}; what was there before is kept") from error
        finally:
            clean(path)  # only by the one who has the lock: to others a generation in the making looks like a leftover


def clean(path: Path, making: str = "") -> None:
    """Remove the generations that neither a manifest names nor a reader holds, but for the one in the making.

    If the manifest cannot be read, everything stays until another one replaces it.
    """
    needed = {making}
    for name in (MANIFEST, UNFINISHED):
        try:
            needed.add(read_manifest(path, name).generation)
        except IndexRefused:
            if name == MANIFEST and (path / name).exists():
                return
    for folder in path.glob(_PREFIX + "*"):
        if folder.name not in needed:
            with suppress(OSError), (folder / LOCK).open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while a reader holds it
                shutil.rmtree(folder, ignore_errors=True)


_TABLES = """
-- A half-written ledger is thrown away with the folder it lies in, so no journal is needed.
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
CREATE TABLE IF NOT EXISTS files (
  id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INTEGER, mtime_ns INTEGER, seen_ns INTEGER,
  digest TEXT, skipped TEXT, kind TEXT, partly TEXT, shadowed INTEGER, guessed TEXT, reader INTEGER,
  inode TEXT);
CREATE TABLE IF NOT EXISTS documents (key INTEGER PRIMARY KEY, file INTEGER, content INTEGER, round INTEGER);
CREATE TABLE IF NOT EXISTS fields (key INTEGER PRIMARY KEY, known TEXT);
"""


@dataclass(slots=True)
class FileEntry:
    """A file of the corpus, as the table `files` has it.

    seen_ns: when it was last looked at; 0 for a file to be looked at again in any case. skipped: why it gave no
    document, and kind the same in a word. partly: what of it was not read. shadowed: whether a document of it was left
    out because another file has its id; it is read again when documents go. guessed: its guessed encoding. reader: the
    version of what read it (`documents.Format`). inode: see `documents.SourceFile`.
    """

    id: int | None
    name: str
    size: int
    mtime_ns: int
    seen_ns: int
    digest: str = ""
    skipped: str = ""
    kind: str = ""
    partly: str = ""
    shadowed: bool = False
    guessed: str = ""
    reader: int = 1
    inode: str = ""


class Ledger:
    """Files and documents of one index. Changes are kept by `save` and `close`.

    round: counts the passes over files, so that what a file holds no more can be told from what it held before.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript(_TABLES)
        self._db.execute("BEGIN")
        self.round = 1 + (self._db.execute("SELECT max(round) FROM documents").fetchone()[0] or 0)

    def save(self) -> None:
        """Write out what came so far, and be ready for more."""
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")

    def close(self) -> None:
        """Write everything out."""
        self._db.execute("COMMIT")
        self._db.close()

    def files(self) -> dict[str, FileEntry]:
        """All files by name."""
        return _files(self._db)

    def put_file(self, entry: FileEntry) -> None:
        """Record what a file is like; a new one gets its number."""
        insert = "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        entry.id = self._db.execute(insert, astuple(entry)).lastrowid

    def drop_file(self, number: int | None) -> None:
        """Forget a file; its documents must be gone."""
        self._db.execute("DELETE FROM files WHERE id = ?", (number,))

    def enter(self, key: int, file: int, content: int) -> Literal["new", "changed", "known", "repeated", "taken"]:
        """Enter a document, and say what it is: repeated where this round has met it in its file already, taken where
        its key is that of a document in another file, which stays."""
        row = self._db.execute("INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?)", (key, file, content, self.round))
        if row.rowcount == 1:
            return "new"
        old = self._db.execute("SELECT file, content, round FROM documents WHERE key = ?", (key,)).fetchone()
        if old[0] != file:
            return "taken"
        if old[2] == self.round:
            return "repeated"
        self._db.execute("UPDATE documents SET content = ?, round = ? WHERE key = ?", (content, self.round, key))
        return "known" if old[1] == content else "changed"

    def describe(self, key: int, fields: str) -> None:
        """Record what filters go by of a document that is new or changed, in JSON."""
        self._db.execute("INSERT OR REPLACE INTO fields VALUES (?, ?)", (key, fields))

    def drop_unseen(self, file: int | None) -> list[int]:
        """Forget the documents of a file that this round has not met. Returns their keys."""
        unseen = "DELETE FROM documents WHERE file = ? AND round < ? RETURNING key"
        return [key for (key,) in self._db.execute(unseen, (file, self.round))]

    def totals(self) -> tuple[int, int]:
        """How many documents there are, and the sum of their content hashes modulo 2^64."""
        # In halves, because SQLite's integers would overflow.
        count, high, low = self._db.execute(
            "SELECT count(*), sum(content >> 32), sum(content & 4294967295) FROM documents"
        ).fetchone()
        return count, (((high or 0) << 32) + (low or 0)) % 2**64


def peek(path: Path) -> dict[str, FileEntry]:
    """The files of a ledger, which is not changed. Raises sqlite3.Error."""
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as db:
        return _files(db)


def metadata_of(path: Path) -> Iterator[tuple[int, str, int, str | None]]:
    """Of each document of a ledger its key, its file's name and time of change (ns), and its fields in JSON.

    Raises sqlite3.Error.
    """
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as db:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'fields'").fetchone() is None:
            db.execute("CREATE TEMP TABLE fields (key, known)")  # the index was made before there were any
        yield from db.execute(
            "SELECT documents.key, files.name, files.mtime_ns, fields.known FROM documents "
            "JOIN files ON files.id = documents.file LEFT JOIN fields ON fields.key = documents.key"
        )


def _files(db: sqlite3.Connection) -> dict[str, FileEntry]:
    return {row[1]: FileEntry(*row) for row in db.execute("SELECT * FROM files")}

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

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import sqlite3
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from urllib.parse import quote

from pydantic import JsonValue, ValidationError

from reground.core.errors import ConfigurationError, IndexBusy, IndexRefused, StorageError
from reground.core.language import Value

FORMAT = "reground-index"
VERSION = 3
MANIFEST = "manifest.json"
_UNFINISHED = "unfinished.json"
LOCK = "lock"
_PREFIX = "data-"
_SYSTEM = " (os error "
"""What stands behind the operating system's words where libraries written in Rust quote them."""
_CHECKED_BYTES = 200_000_000  # an index up to this size is read and checked whole when it is opened, in 0.2 seconds


class FileCheck(Value):
    """The size of a file and the CRC-32 of its content."""

    size: int
    crc32: int


class EmbedderIdentity(Value):
    """The embedder that made an index's vectors. weights: their fingerprint, if they were in a folder."""

    name: str
    dimension: int
    weights: str | None = None


class Manifest(Value):
    """What an index is. `fingerprint` changes when its passages or its settings do.

    terms: the version of the terms of its words (`IndexSettings.terms`).
    """

    format: str = FORMAT
    version: int = VERSION
    generation: str
    fingerprint: str
    settings: dict[str, JsonValue]
    documents: int
    passages: int
    embedder: EmbedderIdentity | None = None
    decontaminated: str | None = None
    terms: int
    files: dict[str, FileCheck]


def read_manifest(path: Path) -> Manifest:
    """The manifest of the index at `path`. Raises IndexRefused with the reason and what to do."""
    again = f"build it again: reground index CORPUS --out {path}"
    if not path.is_dir():
        raise IndexRefused(f"there is no index at {path}; {again}")
    try:
        content = (path / MANIFEST).read_bytes()
    except FileNotFoundError:
        if is_ours(path) and any(path.iterdir()):
            raise IndexRefused(f"building the index {path} did not come to its end; {again}") from None
        raise IndexRefused(
            f"{path} is not an index: it has no {MANIFEST}; make one: reground index CORPUS --out INDEX"
        ) from None
    except OSError as error:
        raise IndexRefused(f"the index {path} cannot be read: {error.strerror}") from None
    return _parse(content, path, again)


def read_unfinished(path: Path) -> Manifest | None:
    """The manifest of a build that was interrupted, if there is one that can be gone on with."""
    try:
        return _parse((path / _UNFINISHED).read_bytes(), path, "")
    except (OSError, IndexRefused):
        return None


def _parse(content: bytes, path: Path, again: str) -> Manifest:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        raise IndexRefused(f"the index {path} is damaged: its {MANIFEST} is not JSON; {again}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise IndexRefused(f"{path} is not an index of reground: its {MANIFEST} is of another format")
    if record.get("version") != VERSION:
        raise IndexRefused(
            f"the index {path} has format version {record.get('version')}, this reground reads {VERSION}; {again}"
        )
    try:
        manifest = Manifest.model_validate(record)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise IndexRefused(f"the index {path} is damaged: its {MANIFEST} has no valid {where}; {again}") from None
    if not _is_generation(manifest.generation):
        raise IndexRefused(f"the index {path} is damaged: its {MANIFEST} names no generation; {again}")
    return manifest


def check_files(path: Path, manifest: Manifest, *, whole: bool | None = None) -> bool:
    """Compare a generation with its manifest: sizes always, contents of a small index or if `whole` says so.

    Returns whether contents were compared. Raises IndexRefused naming the first file that differs.
    """
    folder = path / manifest.generation
    total = sum(check.size for check in manifest.files.values())
    read = whole if whole is not None else total <= _CHECKED_BYTES
    for name, check in manifest.files.items():
        flaw = _flaw(folder / name, check, read)
        if flaw:
            raise IndexRefused(
                f"the index {path} is damaged: {manifest.generation}/{name} {flaw}; "
                f"build it again: reground index CORPUS --out {path}"
            )
    return read


def _flaw(file: Path, check: FileCheck, read: bool) -> str:
    try:
        size = file.stat().st_size
        if size != check.size:
            return f"has {size} bytes instead of {check.size}"
        if read and _crc32(file) != check.crc32:
            return "has other content than was written"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def _crc32(file: Path) -> int:
    crc = 0
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            crc = zlib.crc32(block, crc)
    return crc


def holds_index(path: Path) -> bool:
    """Whether a folder is an index, whole or damaged. Other programs write a manifest.json too, and beside other files
    theirs is one document of many."""
    manifest = path / MANIFEST
    if not manifest.is_file():
        return False
    try:
        record = json.loads(manifest.read_bytes())
    except (OSError, ValueError, RecursionError):
        record = None
    return (isinstance(record, dict) and record.get("format") == FORMAT) or is_ours(path)


def is_ours(path: Path) -> bool:
    """Whether a folder holds nothing but what an index consists of."""
    names = {MANIFEST, MANIFEST + ".part", _UNFINISHED, _UNFINISHED + ".part", LOCK}
    return all(entry.name in names or _is_generation(entry.name) for entry in path.iterdir())


def _is_generation(name: str) -> bool:
    return name.startswith(_PREFIX) and name.removeprefix(_PREFIX).isalnum()


class Hold:
    """Protects a generation's folder from cleaning while this object lives, or until `release`."""

    def __init__(self, folder: Path) -> None:
        self.release: Callable[[], object] = lambda: None
        try:
            handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # the check of the files will say what is wrong
        self.release = weakref.finalize(self, os.close, handle)
        with contextlib.suppress(OSError):  # a file system without locks: the index can be read all the same
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)


class Building:
    """A generation in the making; see `building`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.base: Manifest | None = None
        self.name = f"{_PREFIX}{secrets.token_hex(4)}"
        self.folder = path / self.name

    def start(self, base: Manifest | None) -> None:
        """Make the new generation's folder; for an update, with the content of the generation of `base`."""
        self.base = base
        self.folder.mkdir()
        (self.folder / LOCK).touch()
        if base is not None:
            _link_tree(self.path / base.generation, self.folder)

    def publish(self, manifest: Manifest) -> None:
        """Make this generation the index, for all who may read its folder: tantivy keeps some files to its user."""
        for file in self.folder.rglob("*.json"):
            shutil.copymode(self.folder / LOCK, file)
        self._name(manifest, MANIFEST)
        (self.path / _UNFINISHED).unlink(missing_ok=True)

    def keep(self, described: Callable[[Building], Manifest]) -> None:
        """Copy this generation, sharing its files, for the next build to begin with if this one does not come to its
        end. Nothing may write meanwhile. The copy kept before goes."""
        copy = Building(self.path)
        copy.start(None)
        copy.base = self.base
        _link_tree(self.folder, copy.folder)
        self._name(described(copy), _UNFINISHED)
        clean(self.path, self.name)

    def _name(self, manifest: Manifest, file: str) -> None:
        part = self.path / f"{file}.part"
        with part.open("w", encoding="utf-8") as out:
            out.write(manifest.model_dump_json(indent=1))
            out.flush()
            os.fsync(out.fileno())
        part.replace(self.path / file)

    def checks(self) -> dict[str, FileCheck]:
        """Sizes and checksums of the generation's files. Those of shared files are taken from the old manifest."""
        earlier = self.base.files if self.base is not None else {}
        checks = {}
        for file in sorted(self.folder.rglob("*")):
            name = file.relative_to(self.folder).as_posix()
            if not file.is_file() or file.name.endswith(".lock") or name == LOCK:
                continue
            old = earlier.get(name)
            is_shared = old is not None and file.stat().st_nlink > 1
            checks[name] = old if old and is_shared else FileCheck(size=file.stat().st_size, crc32=_crc32(file))
        return checks


def _link_tree(old: Path, new: Path) -> None:
    for file in old.rglob("*"):
        target = new / file.relative_to(old)
        if file.name.endswith(LOCK):
            continue  # each generation has locks of its own
        if file.is_dir():
            target.mkdir(exist_ok=True)
        elif file.suffix in (".json", ".sqlite"):
            shutil.copyfile(file, target)  # these are rewritten; all others are never changed once written
        else:
            try:
                os.link(file, target)
            except OSError:
                shutil.copyfile(file, target)


@contextmanager
def building(path: Path) -> Iterator[Building]:
    """Lock the index at `path` for building. Unpublished generations, and those that no reader holds, are removed.

    Raises IndexBusy where another process builds it, ConfigurationError where the folder holds anything else, and
    StorageError where the disk refuses.
    """
    path.mkdir(parents=True, exist_ok=True)
    if not is_ours(path):
        raise ConfigurationError(f"{path} holds other files and no index: choose another folder with --out")
    lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IndexBusy(f"the index {path} is being built by another process; try again when it is done") from None
        try:
            clean(path)
            with _writing(path):
                yield Building(path)
        finally:
            clean(path)  # only by the one who has the lock: to others a generation in the making looks like a leftover
    finally:
        os.close(lock)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say in one line that the disk refused: SQLite has errors of its own for it, tantivy and Lance have none."""
    try:
        yield
    except (sqlite3.Error, ValueError, RuntimeError) as error:
        message, is_quoted, _ = str(error).partition(_SYSTEM)
        if not is_quoted and not isinstance(error, sqlite3.Error):
            raise
        why = re.split("['\":]", message)[-1].strip() if is_quoted else error
        raise StorageError(f"cannot write the index {path}: {why}; what was there before is kept") from error


def clean(path: Path, making: str = "") -> None:
    """Remove the generations that neither a manifest names nor a reader holds, but for the one in the making.

    If the manifest cannot be read, everything stays until another one replaces it.
    """
    current, unfinished = "", read_unfinished(path)
    if (path / MANIFEST).exists():
        try:
            current = read_manifest(path).generation
        except IndexRefused:
            return
    for folder in path.glob(_PREFIX + "*"):
        needed = (current, making, unfinished.generation if unfinished is not None else "")
        if folder.name not in needed and not _is_held(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_held(folder: Path) -> bool:
    """Whether a reader holds a generation's folder."""
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS files (
  id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INTEGER, mtime_ns INTEGER, seen_ns INTEGER,
  digest TEXT, skipped TEXT, kind TEXT, partly TEXT, shadowed INTEGER, guessed TEXT, reader INTEGER);
CREATE TABLE IF NOT EXISTS documents (key INTEGER PRIMARY KEY, file INTEGER, content INTEGER, round INTEGER);
"""


@dataclass(slots=True)
class FileEntry:
    """A file of the corpus, as the table `files` has it.

    seen_ns: when it was last looked at; 0 for a file to be looked at again in any case. skipped: why it gave no
    document, and kind the same in a word. partly: what of it was not read. shadowed: whether a document of it was left
    out because another file has its id; such a file is read again at every update, for the other may be gone. guessed:
    its guessed encoding. reader: the version of what read it (`documents.Format`).
    """

    id: int
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


class Ledger:
    """Files and documents of one index. Changes are kept by `close`."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # A half-written ledger is thrown away with the folder it lies in, so no journal is needed.
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("PRAGMA cache_size = -65536")
        self._db.executescript(_TABLES)
        self._db.execute("BEGIN")

    def save(self) -> None:
        """Write out what came so far, and be ready for more."""
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")

    def close(self) -> None:
        """Write everything out."""
        self._db.execute("COMMIT")
        self._db.close()

    def fact(self, name: str) -> str | None:
        """A fact about the index as a whole."""
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def state(self, name: str, value: str) -> None:
        """Set a fact."""
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def files(self) -> dict[str, FileEntry]:
        """All files by name."""
        return _files(self._db)

    def put_file(self, name: str) -> int:
        """The number of a file, new or known."""
        self._db.execute("INSERT OR IGNORE INTO files (name) VALUES (?)", (name,))
        return int(self._db.execute("SELECT id FROM files WHERE name = ?", (name,)).fetchone()[0])

    def describe_file(self, entry: FileEntry) -> None:
        """Record what a file was like when it was read."""
        self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", astuple(entry))

    def drop_file(self, entry: FileEntry) -> None:
        """Forget a file; its documents must be gone."""
        self._db.execute("DELETE FROM files WHERE id = ?", (entry.id,))

    def add(self, key: int, file: int, content: int, round_: int) -> bool:
        """Enter a document. False, and no change, where its key is known."""
        added = self._db.execute("INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?)", (key, file, content, round_))
        return added.rowcount == 1

    def document(self, key: int) -> tuple[int, int, int]:
        """A known document's file, content hash and the round that last saw it."""
        row = self._db.execute("SELECT file, content, round FROM documents WHERE key = ?", (key,)).fetchone()
        return row[0], row[1], row[2]

    def see(self, key: int, content: int, round_: int) -> None:
        """A round has seen a document with this content; its file stays."""
        self._db.execute("UPDATE documents SET content = ?, round = ? WHERE key = ?", (content, round_, key))

    def unseen(self, file: int, round_: int) -> Iterator[tuple[int, int]]:
        """Key and content hash of the documents of a file that a round has not seen."""
        rows = self._db.execute("SELECT key, content FROM documents WHERE file = ? AND round < ?", (file, round_))
        for row in rows:
            yield row[0], row[1]

    def drop_unseen(self, file: int, round_: int) -> None:
        """Forget the documents of a file that a round has not seen."""
        self._db.execute("DELETE FROM documents WHERE file = ? AND round < ?", (file, round_))

    def count(self) -> int:
        """How many documents there are."""
        return int(self._db.execute("SELECT count(*) FROM documents").fetchone()[0])


def peek(path: Path) -> tuple[str | None, dict[str, FileEntry]]:
    """Read a ledger without changing it: the corpus folder and the files. Raises sqlite3.Error."""
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as db:
        source = db.execute("SELECT value FROM facts WHERE name = 'source'").fetchone()
        return (source[0] if source else None), _files(db)


def _files(db: sqlite3.Connection) -> dict[str, FileEntry]:
    rows = db.execute(
        "SELECT id, name, size, mtime_ns, seen_ns, digest, skipped, kind, partly, shadowed, guessed, reader FROM files"
    )
    return {row[1]: FileEntry(*row) for row in rows}

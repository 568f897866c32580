"""The ledger of an index: which files and documents it was made from, so that an update reads only what changed.

It is in SQLite, so millions of documents and the search for repeated ids need little memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS files (
  id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INTEGER, mtime_ns INTEGER, seen_ns INTEGER,
  digest TEXT, skipped TEXT, kind TEXT, partly TEXT, shadowed INTEGER, guessed TEXT, reader INTEGER);
CREATE TABLE IF NOT EXISTS documents (key INTEGER PRIMARY KEY, file INTEGER, content INTEGER, round INTEGER);
"""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the corpus. `skipped`: why it gave no document, and `kind` the same in a word. `guessed`: its guessed
    encoding. `partly`: what of it was not read.

    seen_ns: when it was last looked at; 0 for a file to be looked at again in any case. shadowed: whether a document of
    it was left out because another file has its id; such a file is read again at every update, for the other may be
    gone. reader: the version of what read it (`readers.version`).
    """

    id: int
    name: str
    size: int
    mtime_ns: int
    seen_ns: int
    digest: str
    skipped: str
    kind: str
    partly: str
    shadowed: bool | int
    guessed: str
    reader: int


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
        self._db.execute(
            "UPDATE files SET size = ?, mtime_ns = ?, seen_ns = ?, digest = ?, skipped = ?, kind = ?, "
            "partly = ?, shadowed = ?, guessed = ?, reader = ? WHERE id = ?",
            (
                entry.size, entry.mtime_ns, entry.seen_ns, entry.digest, entry.skipped, entry.kind, entry.partly,
                entry.shadowed, entry.guessed, entry.reader, entry.id,
            ),
        )  # fmt: skip

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

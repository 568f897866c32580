"""The file of votes: one SQLite file (WAL) that several sessions, servers and judges may share.

A vote is committed and on the disk before it is acknowledged, so neither kill -9 nor a power cut loses one.
"""

from __future__ import annotations

import secrets
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from reground.core.errors import DataError, StorageError
from reground.core.language import storable_text

Verdict = Literal["first", "second", "tie", "bad"]
"""The better answer in the pair's own order, or neither; "bad" says that neither is any good."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
Kind = Literal["person", "model"]
LONGEST_NAME = 60
_APPLICATION = 0x72674152
"""SQLite's application_id of these files."""
_FORMAT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS secret (value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS votes (
    id INTEGER PRIMARY KEY, pair TEXT NOT NULL, question TEXT NOT NULL, judge TEXT NOT NULL, kind TEXT NOT NULL,
    round INTEGER NOT NULL, verdict TEXT NOT NULL, at TEXT NOT NULL, UNIQUE (kind, judge, round, pair));
CREATE INDEX IF NOT EXISTS votes_of ON votes (kind, pair);
CREATE TABLE IF NOT EXISTS skips (
    id INTEGER PRIMARY KEY, pair TEXT NOT NULL, judge TEXT NOT NULL, round INTEGER NOT NULL, at TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS skips_of ON skips (judge, round);
CREATE TABLE IF NOT EXISTS rounds (
    judge TEXT NOT NULL, round INTEGER NOT NULL, at TEXT NOT NULL, UNIQUE (judge, round));
"""


@dataclass(frozen=True)
class Vote:
    """One verdict. round: from 1; a judge who begins again is in the next one."""

    pair: str
    question: str
    judge: str
    kind: Kind
    round: int
    verdict: Verdict


def judge_name(text: str) -> str:
    """A person's name as it is kept: one line of visible characters. Empty where there is none."""
    visible = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in unicodedata.normalize("NFC", text))
    return " ".join(storable_text(visible).split())[:LONGEST_NAME].strip()


class Votes:
    """An open file of votes. Raises StorageError where it cannot be read or written, DataError for another file."""

    def __init__(self, path: Path, *, fresh: bool = True) -> None:
        """fresh: make the file if there is none; otherwise that is a DataError."""
        self.path = path
        if not fresh and not path.is_file():
            raise DataError("there are no votes yet", path=path)
        with self._working():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StorageError(f"cannot make the folder {path.parent}: {error.strerror}") from None
            self._db = sqlite3.connect(path, isolation_level=None, timeout=30.0)
            try:
                self.secret = self._prepared()
            except BaseException:
                self._db.close()
                raise

    @contextmanager
    def _working(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error) or "malformed" in str(error):
                raise DataError(f"not a file of votes: {error}", path=self.path) from None
            raise StorageError(f"{self.path}: {error}") from None

    def _prepared(self) -> bytes:
        """Make what is lacking, and return the file's secret."""
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (tables,) = self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if tables and application != _APPLICATION:
            raise DataError("not a file of votes, but a database of something else", path=self.path)
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > _FORMAT:
            raise DataError(f"votes of format {version}; this reground reads {_FORMAT}", path=self.path)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(f"PRAGMA application_id={_APPLICATION}")
        self._db.execute(f"PRAGMA user_version={_FORMAT}")
        for statement in _TABLES.split(";"):
            self._db.execute(statement)
        self._db.execute(
            "INSERT INTO secret SELECT ? WHERE NOT EXISTS (SELECT * FROM secret)", (secrets.token_bytes(32),)
        )
        (secret,) = self._db.execute("SELECT value FROM secret ORDER BY rowid LIMIT 1").fetchone()
        assert isinstance(secret, bytes)
        return secret

    def add(self, vote: Vote) -> bool:
        """Keep a vote, and return when it is on the disk. False where this judge's vote in this round is already."""
        values = (vote.pair, vote.question, vote.judge, vote.kind, vote.round, vote.verdict, _now())
        sql = "INSERT OR IGNORE INTO votes (pair,question,judge,kind,round,verdict,at) VALUES (?,?,?,?,?,?,?)"
        with self._working():
            return self._db.execute(sql, values).rowcount == 1

    def skip(self, pair: str, judge: str, round: int) -> None:
        """Note that a judge skipped a pair."""
        with self._working():
            sql = "INSERT INTO skips (pair,judge,round,at) VALUES (?,?,?,?)"
            self._db.execute(sql, (pair, judge, round, _now()))

    def begin_round(self, judge: str, round: int) -> None:
        """Put a person into a round; a round that has begun stays as it is."""
        with self._working():
            self._db.execute("INSERT OR IGNORE INTO rounds VALUES (?,?,?)", (judge, round, _now()))

    def round_of(self, judge: str) -> int:
        """The round that a person is in."""
        with self._working():
            (found,) = self._db.execute("SELECT MAX(round) FROM rounds WHERE judge=?", (judge,)).fetchone()
        return int(found or 1)

    def voted(self, judge: str, kind: Kind, round: int) -> set[str]:
        """The pairs that a judge voted on in a round."""
        sql = "SELECT pair FROM votes WHERE judge=? AND kind=? AND round=?"
        with self._working():
            return {pair for (pair,) in self._db.execute(sql, (judge, kind, round))}

    def skipped(self, judge: str, round: int) -> dict[str, int]:
        """The pairs that a person skipped in a round, with the place of the last time."""
        sql = "SELECT pair, MAX(id) FROM skips WHERE judge=? AND round=? GROUP BY pair"
        with self._working():
            return dict(self._db.execute(sql, (judge, round)).fetchall())

    def counts(self, kind: Kind) -> Counter[str]:
        """The number of votes on each pair."""
        with self._working():
            sql = "SELECT pair, COUNT(*) FROM votes WHERE kind=? GROUP BY pair"
            return Counter(dict(self._db.execute(sql, (kind,)).fetchall()))

    def all(self) -> list[Vote]:
        """Every vote, in the order of voting."""
        with self._working():
            rows = self._db.execute("SELECT pair,question,judge,kind,round,verdict FROM votes ORDER BY id").fetchall()
        return [Vote(*row) for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

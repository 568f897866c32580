"""The journal's two tables, and the statements on them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from reground.core.errors import JournalError

if TYPE_CHECKING:
    from psycopg import Connection

SCHEMA_VERSION = 1
Row = tuple[str, str, str, int, str, str, float, str]
"""run, question, span, ordinal, fingerprint, result, elapsed, checksum"""
_LOCK = 0x7267726E64  # of those who make the tables

# An index entry has at most 2,700 bytes; names and ids have any length.
_MAKE = """
CREATE TABLE IF NOT EXISTS reground_journal (version integer NOT NULL, id text NOT NULL);
CREATE TABLE IF NOT EXISTS reground_effects (
    id bigint GENERATED ALWAYS AS IDENTITY, run text NOT NULL, question text NOT NULL, span text NOT NULL,
    ordinal bigint NOT NULL, fingerprint text NOT NULL, result text NOT NULL, elapsed double precision NOT NULL,
    sum text NOT NULL);
CREATE INDEX IF NOT EXISTS reground_effects_of ON reground_effects (left(run, 200), left(question, 200));
"""
_OF_RUN = "left(run, 200) = left(%(run)s, 200) AND run = %(run)s"
_OF_QUESTION = "left(question, 200) = left(%(question)s, 200) AND question = %(question)s"
_READ = "SELECT id, sum, span, ordinal, fingerprint, result, elapsed FROM reground_effects"
# One statement, so one round trip and one commit. The setting holds for this commit alone, which works behind a pooler
# too. remote_apply promises more than on.
_WRITE = """
WITH durable AS (SELECT set_config('synchronous_commit',
    CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true))
INSERT INTO reground_effects (run, question, span, ordinal, fingerprint, result, elapsed, sum)
SELECT n.run, n.question, n.span, n.ordinal, n.fingerprint, n.result, n.elapsed, n.sum
FROM durable, unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::float8[],
    %s::text[]) WITH ORDINALITY AS n (run, question, span, ordinal, fingerprint, result, elapsed, sum, place)
"""
_UNLESS_THERE = """
WHERE NOT EXISTS (SELECT FROM reground_effects AS e
    WHERE left(e.run, 200) = left(n.run, 200) AND left(e.question, 200) = left(n.question, 200)
    AND (e.run, e.question, e.span, e.ordinal, e.fingerprint, e.result, e.elapsed, e.sum)
    = (n.run, n.question, n.span, n.ordinal, n.fingerprint, n.result, n.elapsed, n.sum))
"""


def prepare(db: Connection[Any], place: str) -> str:
    """Make the tables if there are none, and return the database's own id.

    Raises JournalError for tables of a newer reground, and for an encoding that cannot hold every text.
    """
    ((encoding,),) = db.execute("SHOW server_encoding")
    if encoding != "UTF8":
        raise JournalError(
            f"{place} has the encoding {encoding}, and a journal needs UTF8: CREATE DATABASE ... ENCODING 'UTF8'"
            " TEMPLATE template0"
        )
    ((there,),) = db.execute("SELECT to_regclass('reground_journal') IS NOT NULL")
    if not there:
        with db.transaction():
            db.execute("SET LOCAL synchronous_commit TO on")  # run folders keep the id
            db.execute("SELECT pg_advisory_xact_lock(%s::bigint)", (_LOCK,))
            db.execute(_MAKE)
            db.execute(
                "INSERT INTO reground_journal SELECT %s, %s WHERE NOT EXISTS (SELECT FROM reground_journal)",
                (SCHEMA_VERSION, secrets.token_hex(16)),
            )
    ((version, name),) = db.execute("SELECT version, id FROM reground_journal")
    if not 0 < version <= SCHEMA_VERSION:
        raise JournalError(f"{place} is a journal of format {version}; this reground reads {SCHEMA_VERSION}")
    return str(name)


def read(db: Connection[Any], run: str, question: str) -> list[tuple[int, str, tuple[str, int, str, str, float]]]:
    """The rows of one question in the order of writing: number, checksum, and an effect's values."""
    rows = db.execute(
        f"{_READ} WHERE {_OF_RUN} AND {_OF_QUESTION} ORDER BY id", {"run": _stored(run), "question": _stored(question)}
    ).fetchall()
    return [
        (row, mark, (_given(span), ordinal, _given(request), _given(result), elapsed))
        for row, mark, span, ordinal, request, result, elapsed in rows
    ]


def write(db: Connection[Any], rows: Sequence[Row], *, again: bool) -> None:
    """Write all rows or none, and return when the disk has them.

    again: an earlier try may have succeeded without a reply, so that rows that are there already are left out.
    """
    columns: Iterable[list[Any]] = map(list, zip(*rows, strict=True))
    values = [[_stored(each) if isinstance(each, str) else each for each in column] for column in columns]
    db.execute(f"{_WRITE}{_UNLESS_THERE if again else ''} ORDER BY n.place", values)


def delete(db: Connection[Any], run: str) -> None:
    """Drop a run's rows."""
    db.execute(f"DELETE FROM reground_effects WHERE {_OF_RUN}", {"run": _stored(run)})  # noqa: S608


def _stored(text: str) -> str:
    """A text as PostgreSQL can keep it: without the character NUL."""
    return text.replace("\1", "\1\1").replace("\0", "\1\2") if "\0" in text or "\1" in text else text


def _given(text: str) -> str:
    return re.sub("\1([\1\2])", lambda found: "\1" if found[1] == "\1" else "\0", text) if "\1" in text else text

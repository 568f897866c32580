"""The file of votes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.arena.votes import LONGEST_NAME, Vote, Votes, judge_name
from reground.core.errors import DataError, StorageError
from reground.core.journal import SqliteJournal

VOTE = Vote("p", "q", "anna", "person", 1, "first")


def test_a_vote_is_kept_once_a_round(tmp_path: Path) -> None:
    with closing(Votes(tmp_path / "v.sqlite")) as votes:
        assert votes.add(VOTE)
        assert not votes.add(Vote("p", "q", "anna", "person", 1, "second"))
        assert votes.add(Vote("p", "q", "anna", "model", 1, "tie"))
        assert votes.add(Vote("p", "q", "anna", "person", 2, "bad"))
    with closing(Votes(tmp_path / "v.sqlite", fresh=False)) as votes:
        assert [vote.verdict for vote in votes.all()] == ["first", "tie", "bad"]
        assert votes.counts("person") == {"p": 2}
        assert votes.voted("anna", "person", 2) == {"p"}


def test_several_open_files_share_votes_rounds_and_the_secret(tmp_path: Path) -> None:
    with closing(Votes(tmp_path / "v.sqlite")) as one, closing(Votes(tmp_path / "v.sqlite")) as other:
        assert one.secret == other.secret
        one.begin_round("anna", 2)
        one.skip("p", "anna", 2)
        assert other.round_of("anna") == 2
        assert other.round_of("ben") == 1
        assert other.skipped("anna", 2) == {"p": 1}
    with closing(Votes(tmp_path / "w.sqlite")) as another:
        assert another.secret != one.secret


def test_another_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    SqliteJournal(tmp_path / "journal.sqlite").close()
    before = (tmp_path / "journal.sqlite").read_bytes()
    with pytest.raises(DataError, match="a database of something else"):
        Votes(tmp_path / "journal.sqlite")
    assert (tmp_path / "journal.sqlite").read_bytes() == before
    (tmp_path / "text").write_text("no database, but long enough to be looked at" * 9)
    with pytest.raises(DataError, match="not a file of votes"):
        Votes(tmp_path / "text")
    with pytest.raises(DataError, match="there are no votes yet"):
        Votes(tmp_path / "none", fresh=False)
    assert not (tmp_path / "none").exists()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    Votes(tmp_path / "v.sqlite").close()
    with closing(sqlite3.connect(tmp_path / "v.sqlite")) as db:
        db.execute("PRAGMA user_version=9")
    with pytest.raises(DataError, match="votes of format 9"):
        Votes(tmp_path / "v.sqlite")


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot make the folder"):
        Votes(tmp_path / "file" / "v.sqlite")
    with pytest.raises(StorageError):
        Votes(tmp_path)


@given(st.text(max_size=200))
def test_a_name_is_one_short_line_that_can_be_kept(text: str) -> None:
    name = judge_name(text)
    assert judge_name(name) == name
    assert len(name) <= LONGEST_NAME
    assert name.isprintable()
    name.encode()


def test_names_that_look_alike_are_one() -> None:
    assert judge_name("  Zoe\u0308 \n Braun\u202e ") == judge_name("Zo\u00eb Braun") == "Zo\u00eb Braun"

"""Mail under names that do not say that it is mail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reground.retrieval.documents import read_documents
from reground.retrieval.filetypes import known_as
from reground.retrieval.scan import scan
from tests.retrieval import files
from tests.retrieval.corpora import write

ONE = files.mail("The river", "The Danube is long.", id_="1@x")
TWO = files.mail("The other", "The Seine is short.", id_="2@x")


def test_the_messages_of_a_maildir_and_a_mailbox_without_suffix_are_read(tmp_path: Path) -> None:
    mails = {
        "Maildir/cur/1700000000.M1P2.host:2,S": ONE, "Maildir/new/1700000001.M1P2.host": TWO, "mh/17": ONE,
        "Inbox": files.mbox(ONE, TWO), "change.patch": files.mbox(TWO),
    }  # fmt: skip
    write(tmp_path, {**mails, "Maildir/cur/notes": "From: what I remember\n\nNothing.", "readings": "Dear diary\n"})
    found = scan(tmp_path)
    assert [file.name for file in found.files] == sorted(mails)
    assert [each.path for each in found.unread] == ["Maildir/cur/notes", "readings"]
    titles = {file.name: [document.title for document in read_documents(file)] for file in found.files}
    assert titles["Inbox"] == ["The river", "The other"]
    assert titles["Maildir/new/1700000001.M1P2.host"] == ["The other"]
    assert titles["mh/17"] == ["The river"] and titles["change.patch"] == ["The other"]


@pytest.mark.parametrize(
    ("beginning", "suffix"),
    [
        (b"Received: from a\r\n\tby b\r\nFrom: a@b\r\nSubject: s\r\n\r\nHello", ".eml"),
        (b"From a@b Mon Jan  1 00:00:00 2024\nFrom: a@b\nDate: today\n\nHello", ".mbox"),
        (b"DKIM-Signature: v=1;\n" + b" b=0123456789abcdef;\n" * 1000 + b"From: a@b\nDate: today\n\nHello", ".eml"),
        (b"From a@b Mon Jan  1 00:00:00 2024\nDear Bob", ""),
        (b"From: the beginning\nto the end\nDate: today\n", ""),
        (b"Metadata-Version: 2.4\nName: click\nVersion: 8\n\nFrom: x", ""),
        (b" From: a@b\nDate: today\n\n", ""),
        (b"From: a@b\nDate: \0\0", ""),
        (b"", ""),
    ],
)
def test_headers_make_a_message(beginning: bytes, suffix: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(beginning)
    assert known_as("file", tmp_path / "file") == suffix
    assert known_as("file.md", tmp_path / "file") == known_as("file.png", tmp_path / "file") == ""


def test_a_pipe_and_what_is_gone_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert known_as("pipe", tmp_path / "pipe") == known_as("gone", tmp_path / "gone") == ""

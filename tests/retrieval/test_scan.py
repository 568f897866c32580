"""What is left out of a corpus, and why, and mail under names that do not say that it is mail."""

import os
from pathlib import Path

import pytest

from reground.core.errors import DataError
from reground.retrieval.documents import format_of, known_as, line, read_documents, scan
from reground.retrieval.index import build_index
from reground.retrieval.settings import IndexReport, Skipped
from tests.retrieval import files
from tests.retrieval.corpora import write


def left_out(source: Path) -> dict[str, tuple[str, str]]:
    return {each.path: (each.kind, each.why) for each in scan(source).unread}


def test_every_file_is_read_or_left_out_with_a_reason(tmp_path: Path) -> None:
    readable = [
        "Makefile",
        "a.md",
        "a/b/d.html",
        "a/c.TXT",
        "b.xlsx",
        "c.py",
        "d.mbox",
        "e.ODT",
        "g.jsonl.gz",
        "j.json",
    ]
    names = ["b.png", "c.doc", "d.xyz", ".hidden.md", ".git/e.md", "node_modules/f.md", "g.zip", "no suffix"]
    write(tmp_path, dict.fromkeys([*readable, *names], "x"))
    os.mkfifo(tmp_path / "pipe.txt")
    assert [file.name for file in scan(tmp_path).files] == readable
    assert left_out(tmp_path) == {
        ".git": ("hidden", "is hidden"),
        ".hidden.md": ("hidden", "is hidden"),
        "b.png": ("image", "is an image"),
        "c.doc": ("old", "is in an old or closed format; save it as .docx to have it read"),
        "d.xyz": ("other", "is of a kind that is not read"),
        "g.zip": ("archive", "is an archive; unpack it first"),
        "no suffix": ("other", "is of a kind that is not read"),
        "node_modules": ("hidden", "is a folder of other programs"),
        "pipe.txt": ("other", "is a device or a pipe, not a file"),
    }
    with pytest.raises(DataError, match="is a device or a pipe"):
        scan(tmp_path / "pipe.txt")


def test_links_that_leave_or_turn_in_a_circle_are_named(tmp_path: Path) -> None:
    write(tmp_path, {"outside/secret.txt": "x", "in/real.txt": "x", "in/sub/more.txt": "x"})
    links = {
        "leak.txt": "../outside/secret.txt", "folder": "../outside", "alias.txt": "real.txt", "self": "self",
        "sub/up": "..", "twin": "sub", "broken.txt": "nowhere",
    }  # fmt: skip
    for name, target in links.items():
        (tmp_path / "in" / name).symlink_to(target)
    found = scan(tmp_path / "in")
    assert [file.name for file in found.files] == ["alias.txt", "real.txt", "sub/more.txt"]
    assert {each.path: each.why for each in found.unread} == {
        "broken.txt": "is a link to nothing",
        "folder": "is a link that leaves the folder",
        "leak.txt": "is a link that leaves the folder",
        "self": "is a link in a circle",
        "sub/up": "is a link in a circle",
        "twin": "is a link to a folder of this corpus, which is read there",
    }
    assert {each.kind for each in found.unread} == {"link"}


def test_an_index_that_lies_among_the_documents_is_none_of_them(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", "site/manifest.json": "{}", "site/data-1/b.md": "x", "site/c.md": "x"})
    build_index(tmp_path, tmp_path / "my.idx")
    assert [file.name for file in scan(tmp_path).files] == [
        "a.md", "site/c.md", "site/data-1/b.md", "site/manifest.json",
    ]  # fmt: skip
    assert left_out(tmp_path) == {"my.idx": ("hidden", "is an index of reground")}


def test_a_folder_that_is_closed_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", "closed/b.md": "x"})
    (tmp_path / "closed").chmod(0)
    try:
        if os.access(tmp_path / "closed", os.R_OK):
            pytest.skip("nothing is closed to this user")
        assert left_out(tmp_path) == {"closed": ("failed", "is a folder that cannot be opened: Permission denied")}
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_what_stands_beside_a_beir_corpus_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"corpus.jsonl": '{"id": "1", "text": "x"}', "queries.jsonl": "x", "qrels/test.tsv": "x"})
    kinds = {path: kind for path, (kind, _) in left_out(tmp_path).items()}
    assert kinds == {"qrels": "beside", "queries.jsonl": "beside"}


@pytest.mark.parametrize("name", ["a.txt", "a.html"])
def test_a_file_that_is_too_large_is_not_opened(tmp_path: Path, name: str) -> None:
    format_ = format_of(name)
    assert format_ is not None and format_.most is not None
    most = format_.most << 20
    write(tmp_path, {"b.md": "x"})
    with (tmp_path / name).open("wb") as file:
        file.truncate(most)
    assert [file.name for file in scan(tmp_path).files] == [name, "b.md"]
    os.truncate(tmp_path / name, most + (1 << 20))
    why = f"is too large: {(most >> 20) + 1} MB, and at most {most >> 20} MB are read"
    assert left_out(tmp_path)[name] == ("large", why)


def test_a_file_that_grew_too_large_leaves_the_index(tmp_path: Path) -> None:
    write(tmp_path / "docs", {"a.md": "x", "b.md": "y"})
    assert build_index(tmp_path / "docs", tmp_path / "idx").documents == 2
    os.truncate(tmp_path / "docs" / "b.md", 300 << 20)
    report = build_index(tmp_path / "docs", tmp_path / "idx")
    assert (report.documents, report.removed, [each.kind for each in report.skipped]) == (1, 1, ["large"])


def test_nothing_to_read_names_what_there_was(tmp_path: Path) -> None:
    write(tmp_path, {"a.doc": "x", "b.png": "x", "c.png": "x"})
    with pytest.raises(DataError, match=r"no document found among 3 files \(2 images, 1 in an old format\); reground"):
        scan(tmp_path)


def report(*kinds: str) -> IndexReport:
    skipped = tuple(Skipped(path=f"{n}.x", why=f"is {kind}", kind=kind) for n, kind in enumerate(kinds))
    return IndexReport(
        path=Path("i"), source=Path("my docs"), language="ja", name="i", documents=1, passages=1, skipped=skipped
    )


def test_the_line_names_few_files_and_counts_many() -> None:
    assert line(report()) == line(report("hidden", "beside")) == ""
    assert line(report("image", "hidden", "large")) == "not read: 0.x (is image), 2.x (is large)"
    assert line(report("image", "image", "encrypted", "link", "hidden")) == (
        "not read: 4 files (2 images, 1 encrypted, 1 link); list them: reground index 'my docs' --language ja --report"
    )


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

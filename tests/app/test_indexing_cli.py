"""Indexing as a user meets it: Ctrl-C, progress, skipped files, encodings and languages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import reground
from reground.app.cli import run
from reground.core.errors import ConfigurationError
from reground.models.scripted import ScriptedModel
from reground.retrieval.index import open_index
from tests.retrieval.corpora import write
from tests.retrieval.scripts import JAPANESE
from tests.servers import in_order, serving
from tests.signals import heed_ctrl_c

SECONDS = 4.0  # a second where nothing else runs; reading the whole text takes far longer


@pytest.fixture(autouse=True)
def cats(home: Path) -> None:
    write(home, {"docs/cats.md": "# Cats\n\nCats purr.\n"})


def large_text(megabytes: int) -> str:
    sentence = "The word number {} stands here among other words and goes on until the end of the line. "
    lines = "".join(sentence.format(i * 7919 % 100_003) + ("\n\n" if i % 9 == 0 else "") for i in range(12_000))
    return lines * megabytes


@pytest.mark.parametrize(("seconds", "size"), [(0.3, 40), (3.0, 100)])
@pytest.mark.parametrize("command", ["index", "ask"])
def test_ctrl_c_stops_the_indexing_of_a_large_text(home: Path, command: str, seconds: float, size: int) -> None:
    index = home / "docs.idx"
    assert run(["index", "docs", "--out", str(index)]) == 0
    before = open_index(index).name
    write(home, {"docs/large.txt": large_text(size)})
    arguments = {
        "index": ["index", "docs", "--out", str(index)],
        "ask": ["ask", "Why?", "--corpus", "docs", "--method", "rag", "--model", "openai/x"],
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "reground", *arguments[command]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    deadline = time.monotonic() + 60
    old = set(index.glob("data-*"))
    while not (set(index.glob("data-*")) - old or [*home.glob("home/**/data-*")]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(seconds)
    assert child.poll() is None, "the text is too small to be caught in the middle"
    child.send_signal(signal.SIGINT)
    sent = time.monotonic()
    _, err = child.communicate(timeout=120)
    assert time.monotonic() - sent < SECONDS
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert ("large.txt" in err and " MB" in err) == (seconds > 2), "a line of progress after two seconds"
    assert open_index(index, verify=True).name == before
    (home / "docs" / "large.txt").write_text("Not large any more.")
    assert run(["index", "docs", "--out", str(index)]) == 0
    assert len(list(index.glob("data-*"))) == 1


def ask(*arguments: str) -> list[str]:
    return ["ask", "What do cats do?", "--method", "rag", "--model", "openai/mock", "--corpus", "docs", *arguments]


def test_ask_names_skipped_files_and_guessed_encodings(home: Path, capsys) -> None:
    write(home, {f"docs/{i}.txt": b"\0\1\2" for i in range(5)})
    write(home, {"docs/old.txt": "Кошки мурлыкают, когда они довольны жизнью.".encode("cp1251")})
    for is_new in (True, False):  # what did not change is said once
        with serving(in_order("They purr [1].")) as server:
            assert run([*ask("--json", "--base-url", server.url)]) == 0
        said = capsys.readouterr()
        assert ("not read: 5 files (5 binary); list them: reground index docs --report\n" in said.err) == is_new
        assert ("old.txt (windows-1251)" in said.err) == is_new
        answer = json.loads(said.out)
        assert answer["skipped"] == [
            {"path": f"{i}.txt", "why": "is binary, not text", "kind": "binary"} for i in range(5)
        ]
        assert "old.txt (windows-1251)" in answer["notes"][0]
    assert run(["index", "docs", "--out", "docs.idx"]) == 0
    said = capsys.readouterr()
    assert "not read: 5 files (5 binary); list them" in said.out
    assert "old.txt (windows-1251)" in said.out


def test_a_report_lists_every_file_and_keeps_the_index_of_ask(home: Path, capsys) -> None:
    rows = "name,value\n" + "x,1\n" * 200_001
    write(home, {"docs/a.doc": "x", "docs/.git/x.md": "x", "docs/b.png": "x", "docs/c.txt": "\0", "docs/d.csv": rows})
    with serving(in_order("They purr [1].")) as server:
        assert run([*ask("--base-url", server.url)]) == 0
    said = capsys.readouterr().err
    assert "not read: a.doc (is in an old or closed format; save it as .docx to have it read)" in said
    assert ".git" not in said, "a hidden file is expected"
    assert run(["index", "docs", "--report"]) == 0
    said = capsys.readouterr().out
    for line in (
        "not read  .git: is hidden\n",
        "not read  a.doc: is in an old or closed format; save it as .docx to have it read\n",
        "not read  b.png: is an image\n",
        "not read  c.txt: is binary, not text\n",
        "in part   d.csv: only 200,000 rows",
        "not read: 4 files (1 hidden, 1 in an old format, 1 image, 1 binary)\n",
        "(0 documents read, 2 unchanged, 0 removed",
    ):
        assert line in said
    assert run(["index", "docs", "--report", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(each["path"], each["kind"]) for each in report["skipped"]] == [
        (".git", "hidden"), ("a.doc", "old"), ("b.png", "image"), ("c.txt", "binary"),
    ]  # fmt: skip
    assert [each["path"] for each in report["partly"]] == ["d.csv"]
    assert run(["index", "docs"]) == 2
    assert "give a folder for the index: --out INDEX" in capsys.readouterr().err


def test_brackets_in_the_name_of_an_index_are_printed(home: Path, capsys) -> None:
    for name in ("notes [old].idx", "notes [", "[/]"):
        assert run(["index", "docs", "--out", name]) == 0
        assert f"1 document in {name} (1 document read" in " ".join(capsys.readouterr().out.split())


def test_ask_takes_the_language_of_the_documents(home: Path, capsys) -> None:
    write(home, {"docs/haus.md": "# Bau\n\nDie Häuser der Stadt sind alt.\n"})
    found = {}
    for language in ("en", "German"):
        with serving(in_order("Alt [1].")) as server:
            question = ["ask", "Hausern", *ask()[2:], "--base-url", server.url, "--json", "--language", language]
            assert run(question) == (0 if language == "German" else 4), "nothing is found in English"
        found[language] = json.loads(capsys.readouterr().out)["citations"]
    assert (found["en"], [citation["passage_id"] for citation in found["German"]]) == ([], ["haus.md"])
    assert len(list((home / "home").glob("**/manifest.json"))) == 2, "an index for each language"
    (home / "reground.toml").write_text('language = "klingon"\n')
    assert run(ask()) == 2
    assert "no stemmer for the language 'klingon'" in capsys.readouterr().err


def test_an_index_of_another_language_is_refused(home: Path, capsys) -> None:
    assert run(["index", "docs", "--out", "docs.idx", "--language", "de"]) == 0
    with serving(in_order("They purr [1].")) as server:
        question = [*ask("--base-url", server.url), "--corpus", "docs.idx"]
        assert run([*question, "--language", "german"]) == 0
        assert "--corpus was given 2 times" in capsys.readouterr().err
        assert run([*question, "--language", "fr"]) == 2
    assert "was made with the language de: leave --language out" in capsys.readouterr().err


def test_the_library_takes_a_language_and_finds_japanese_without_one(home: Path) -> None:
    write(home, {f"japanese/{name}.txt": text for name, text in JAPANESE.items()})
    for language in (None, "ja", "en"):
        result = reground.ask(
            "日本で一番高い山は何ですか", method="rag", model=ScriptedModel(["富士山 [1]"]),
            corpus="japanese", language=language, settings={"k": 1},
        )  # fmt: skip
        assert [citation.passage_id for citation in result.citations] == ["fuji.txt"]
    with pytest.raises(ConfigurationError, match="no stemmer for the language 'xx'"):
        reground.ask("Why?", method="rag", model=ScriptedModel(["."]), corpus="japanese", language="xx")


def with_stub(home: Path, module: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line where a package is broken: another one stands before it."""
    write(home, {f"stubs/{module}/__init__.py": code})
    path = os.pathsep.join([str(home / "stubs"), *(entry for entry in sys.path if entry)])
    command = [sys.executable, "-m", "reground", *arguments]
    return subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_reader_that_is_missing_costs_its_files_and_no_more(home: Path, capsys) -> None:
    write(home, {"docs/page.html": "<title>Owls</title><p>Owls hoot at night and sleep by day."})
    broken = 'raise ImportError("lxml.html.clean is now a separate project\\nInstall it")'
    done = with_stub(home, "lxml", broken, "index", "docs", "--out", "docs.idx")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert (
        "not read: page.html (cannot be read: ImportError: lxml.html.clean is now a separate project Install it" in said
    )
    assert "1 passage from 1 document" in said
    assert run(["index", "docs", "--out", "docs.idx"]) == 0  # mended, though the file is as it was
    assert "2 passages from 2 documents" in " ".join(capsys.readouterr().out.split())


def test_a_corpus_of_which_nothing_can_be_read_is_one_clear_line(home: Path) -> None:
    write(home, {"pages/page.html": "<p>Owls hoot.", "pages/empty.txt": ""})
    done = with_stub(home, "lxml", 'raise ImportError("no cleaner")', "index", "pages", "--out", "p.idx")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: pages: no document with text in 2 files: empty.txt (holds no text), page.html (")
    assert "no cleaner" in line


@pytest.mark.parametrize("error", ["RecursionError('too deep')", "MemoryError()", "KeyError('x')"])
def test_a_reader_that_breaks_costs_one_file(home: Path, error: str) -> None:
    write(home, {"docs/old.txt": "Кошки мурлыкают.".encode("cp1251")})
    code = f"def from_bytes(*_, **__): raise {error}\n"
    done = with_stub(home, "charset_normalizer", code, "index", "docs", "--out", "docs.idx", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["documents"] == 1
    assert [skipped["path"] for skipped in report["skipped"]] == ["old.txt"]

"""`reground demo` as a user meets it, and what its articles and questions need to be asked and answered."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

import reground
from reground.app.cli import run
from reground.app.cli.demo import show_answer
from reground.core.evidence import Passage
from reground.demo import corpus_path, questions_path
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

QUESTIONS = [json.loads(line) for line in questions_path().read_text(encoding="utf-8").splitlines()]
RAG = ["--method", "rag", "--model", "openai/mock"]
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def knows(body: dict[str, object]) -> str:
    """A model that knows nothing by heart and finds the sea in the passages."""
    return "Answer: the Baltic Sea" if "vistula" in str(body).lower() else "Answer: the Black Sea"


@pytest.fixture(autouse=True)
def server(home: Path, monkeypatch) -> Iterator[MockOpenAI]:
    with serving(MockOpenAI(knows)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "reground", "demo", *arguments]


def test_memory_and_articles_stand_side_by_side_with_their_marks(capsys, monkeypatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # a terminal, where prose is wrapped,
    monkeypatch.setenv("TERM", "dumb")  # without colours
    assert run(["demo", "1", *RAG]) == 0
    said = capsys.readouterr().out
    memory, _, articles = said.partition("rag: with the articles")
    assert QUESTIONS[0]["question"] in " ".join(said.split())
    assert "✗ wrong; expected: Baltic Sea or the Baltic" in memory
    assert "✓ right; expected: Baltic Sea or the Baltic" in articles
    assert "vistula.md" in articles
    assert re.search(r"direct: \d+ s, \d+ tokens; rag: \d+ s, [\d.k]+ tokens", articles)
    assert "Measured:" not in articles
    assert all(len(line) <= 80 for line in said.splitlines())
    assert not CONTROL.search(said)
    assert run(["demo", "1", *RAG]) == 0
    assert "(replayed)" in capsys.readouterr().out


def test_a_question_is_chosen_by_its_number_or_its_words(capsys) -> None:
    assert run(["demo", *RAG, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["number"] == 15, "one that the default model knows"
    for asked in ("9", QUESTIONS[8]["question"]):
        assert run(["demo", asked, *RAG, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["number"], said["expected"]) == (9, ["Earl of Pembroke"])
        assert [(each["method"], each["right"]) for each in said["answers"]] == [("direct", False), ("rag", False)]


def test_a_question_of_ones_own_has_no_expected_answer_and_no_mark(capsys) -> None:
    assert run(["demo", "Which river flows through Warsaw?", *RAG]) == 0
    said = capsys.readouterr().out
    assert "expected" not in said and "✓" not in said and "✗" not in said
    assert run(["demo", "Which river flows through Warsaw?", *RAG, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["number"], found["expected"], found["answers"][0]["right"]) == (None, None, None)


@pytest.mark.parametrize("asked", ["0", "21", "9" * 5000])
def test_a_number_that_is_none_of_them_is_refused(asked: str, capsys) -> None:
    assert run(["demo", asked, *RAG]) == 2
    assert "reground demo --list" in capsys.readouterr().err


def test_the_questions_are_listed(capsys, server: MockOpenAI) -> None:
    assert run(["demo", "--list"]) == 0
    said = capsys.readouterr().out
    assert all(len(line) <= 80 for line in said.splitlines())
    assert re.search(r"^20 How many comets", said, re.MULTILINE)
    assert run(["demo", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["question"] for each in listed] == [each["question"] for each in QUESTIONS]
    assert server.received == []


@pytest.mark.parametrize("around", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"PYTHONIOENCODING": "ascii"}])
def test_a_pipe_gets_no_colours_and_an_old_terminal_no_signs_it_lacks(around: dict[str, str]) -> None:
    done = subprocess.run(
        command("1", *RAG), capture_output=True, check=False, timeout=120, env={**os.environ, "COLUMNS": "80", **around}
    )
    said = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert not CONTROL.search(said)
    assert "wrong; expected" in said and "right; expected" in said
    assert ("✓" in said) == ("PYTHONIOENCODING" not in around) and "\\u2713" not in said


@pytest.mark.parametrize("coloured", [True, False])
def test_a_correction_is_coloured_on_a_terminal_and_marked_everywhere(coloured: bool, tmp_path: Path) -> None:
    retriever = ScriptedRetriever([Passage(id="vistula.md", title="Vistula", text="It flows into the Baltic Sea.")])
    left = ["It flows into the Black Sea.", "It flows into the Baltic Sea [1]."]
    model = ScriptedModel(lambda messages, sampling: left.pop(0) if len(left) > 1 else left[0])
    result = reground.ask("Which sea?", method="rat", model=model, corpus=retriever, home=tmp_path)
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=coloured, color_system="standard" if coloured else "auto")
    show_answer(console, "rat", result, ["Baltic Sea"])
    said = out.getvalue()
    assert ("\x1b[9;31m[- Black" in said, "\x1b[32m{+ Baltic" in said) == (coloured, coloured)
    assert "[- Black" in said and "{+ Baltic" in said
    assert ("\x1b" in said) == coloured


ARTICLES = {path.name: path.read_text(encoding="utf-8") for path in sorted(corpus_path().glob("*.md"))}

by_id = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])


def gold(question):
    return question["metadata"]["gold_ids"]


def words(text):
    return re.findall(r"\w+", text.lower())


def test_there_are_36_articles_and_20_questions_and_most_articles_serve_one():
    assert len(ARTICLES) == 36
    assert len(QUESTIONS) == 20
    assert len({question["id"] for question in QUESTIONS}) == len({each["question"] for each in QUESTIONS}) == 20
    assert len({name for question in QUESTIONS for name in gold(question)}) >= 25


def test_an_article_has_a_title_and_120_to_220_words():
    for name, text in ARTICLES.items():
        title, _, body = text.partition("\n")
        assert re.fullmatch(r"# \S.*", title), name
        assert 120 <= len(body.split()) <= 220, name
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*\.md", name)


@by_id
def test_a_question_needs_articles_that_exist_hold_its_answer_and_does_not_tell_it(question):
    assert set(question) == {"id", "question", "golden_answers", "metadata"}
    assert len(gold(question)) == len(set(gold(question))) == question["metadata"]["hops"]
    assert question["metadata"]["hops"] in (2, 3)
    texts = [" ".join(ARTICLES[name].split()) for name in gold(question)]
    assert any(answer in text for answer in question["golden_answers"] for text in texts)
    asked = words(question["question"])
    for answer in question["golden_answers"]:
        size = len(words(answer))
        assert words(answer) not in [asked[start : start + size] for start in range(len(asked))]


async def test_bm25_finds_a_gold_article_among_the_first_three(tmp_path):
    pytest.importorskip("tantivy")
    from reground.retrieval.index import build_index, open_index

    build_index(corpus_path(), tmp_path / "index")
    retriever = open_index(tmp_path / "index")
    for question in QUESTIONS:
        results = await retriever.retrieve(question["question"], k=3)
        assert {passage.id.split("#")[0].rsplit("/", 1)[-1] for passage in results} & set(gold(question))
    await retriever.aclose()

"""`reground compare --preset`: the papers' experiments from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.app.cli import run
from reground.testing.openai_server import MockOpenAI
from tests.servers import serving

QUESTIONS = [
    {"id": f"q{i}", "question": f"Who wrote book {i}?", "golden_answers": [f"Writer {i}"], "metadata": {"split": "dev"}}
    for i in range(3)
]
PASSAGES = [{"id": f"d{i}", "title": f"Book {i}", "text": f"Book {i} was written by Writer {i}."} for i in range(3)]


@pytest.fixture
def data(home: Path, monkeypatch) -> Path:
    folder = home / "data" / "hotpotqa"
    folder.mkdir(parents=True)
    for name, lines in {"questions": QUESTIONS, "corpus": PASSAGES}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setenv("COLUMNS", "200")
    return folder.parent


def said(body: dict[str, object]) -> str:
    asked = str(body["messages"])
    return "book 1" if "search queries" in asked else "Answer: Writer 1"


def test_a_paper_is_tried_as_far_as_there_are_data(data: Path, capfd) -> None:
    with serving(MockOpenAI(said)) as server:
        command = [
            "compare", "--preset", "rewriter-claims", "--data", str(data), "--model", "openai/m", "--base-url",
            server.url, "--out", "out", "--quiet", "--judge", "openai/m",
        ]  # fmt: skip
        assert run([*command, "--dry-run"]) == 0
        dry = capfd.readouterr()
        assert "rewriter-hotpotqa" in dry.out
        assert "rewriter-ambignq cannot be tried" in dry.err
        assert not Path("out").exists()
        assert run(command) == 3, "some could not be tried"
        shown = capfd.readouterr()
    assert "Published and measured" in shown.out
    written = Path("out/claims.md").read_text()
    assert "| rewriter-hotpotqa | rewrite_retrieve_read@none | token F1 | 0.449 |" not in written, "that was trained"
    assert "| rewriter-hotpotqa | rewrite_retrieve_read@none | token F1 | 0.439 |" in written
    assert "Rewrite-Retrieve-Read, table 2" in written
    assert "auto-eval" not in Path("out/rewriter-hotpotqa/report.md").read_text(), "no claim of this paper is judged"


def test_compare_needs_a_task_or_a_preset(data: Path, capfd) -> None:
    assert run(["compare", "--data", str(data)]) == 2
    assert "--task" in capfd.readouterr().err
    assert run(["compare", "--data", str(data), "--preset", "rat-claim"]) == 2
    assert "rat-claims" in capfd.readouterr().err


def test_a_claim_that_ends_before_its_first_question_does_not_end_the_others(data: Path, capfd) -> None:
    Path("out/rewriter-hotpotqa").mkdir(parents=True)
    command = ["compare", "--preset", "rewriter-claims", "--data", str(data), "--model", "openai/m", "--out", "out"]
    assert run([*command, "--quiet", "--set", "max_tokens=many"]) == 3
    assert "rewriter-hotpotqa was not tried" in capfd.readouterr().err
    assert run([*command, "--quiet", "--set", "max_tokens=[many]"]) == 3
    assert "cannot be '[many]'" in capfd.readouterr().err, "brackets are part of an error, such as those of an extra"

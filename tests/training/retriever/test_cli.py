"""`reground train retriever` from the outside: documents in, a better embedder out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.app.cli import run
from tests.data import need_data
from tests.retrieval.corpora import jsonl
from tests.training.retriever.tiny import ANIMALS, COLOURS, tiny_embedder


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    docs = [
        {"id": f"{animal}-{colour}", "title": f"{animal} {colour}", "text": f"a {colour} {animal} lives in the house ."}
        for animal in ANIMALS
        for colour in COLOURS
    ]
    asked = [{"question": f"where does the {d['title']} live ?", "passage": d["id"], "id": d["id"]} for d in docs]
    (tmp_path / "docs.jsonl").write_text(jsonl(docs))
    (tmp_path / "asked.jsonl").write_text(jsonl(asked))
    return tmp_path


def train(*command: str) -> int:
    return run(["train", "retriever", *command])


@pytest.mark.parametrize("task", ["hotpotqa", "bamboogle", "musique"])
def test_questions_that_measure_are_refused(work: Path, task: str, capfd: pytest.CaptureFixture[str]) -> None:
    (work / "data").mkdir()
    assert (
        train("data", "--tasks", f"hotpotqa_train,{task}", "--data", str(work / "data"), "--corpus", "docs.jsonl") == 2
    )
    err = capfd.readouterr().err
    assert "error: " in err
    assert "is for measuring" in err or "no such benchmark file" in err
    assert train("data", "--tasks", task, "--data", str(work / "data"), "--corpus", "docs.jsonl") == 2
    assert f"error: {task} is for measuring" in capfd.readouterr().err
    assert not (work / "runs").exists()


def test_own_documents_and_questions_to_an_embedder(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("lancedb", reason="needs the extra [dense]")
    pytest.importorskip("datasets", reason="needs the extra [train]")
    assert train("fit", "--out", "out") == 2
    assert "run reground train retriever data first" in capfd.readouterr().err
    data = ("data", "--corpus", "docs.jsonl", "--questions", "asked.jsonl", "--out", "out", "--seed", "1")
    assert train(*data, "--dry-run") == 0
    assert not Path("out").exists()
    assert train(*data) == 0
    assert "rows to train on" in capfd.readouterr().out
    used = json.loads(Path("out/questions.json").read_text())["asked.jsonl"]
    assert used["ids"] and used["held_out"]
    assert not set(used["ids"]) & set(used["held_out"])
    assert train("rank", "--out", "out", "--dry-run") == 0
    assert f"four weights to {len(used['ids'])} questions" in capfd.readouterr().out
    assert train("rank", "--out", "out", "--quiet") == 0
    assert "--rerank links:out" in capfd.readouterr().out
    assert train("eval", "--out", "out", "--quiet") == 0
    assert "| BM25 > links | " in capfd.readouterr().out
    assert run(["ask", "where does the red cat live?", "--corpus", "docs.jsonl", "--rerank", "links:absent"]) == 2
    assert "error: there is no absent: reground train retriever rank writes one" in capfd.readouterr().err

    base = tiny_embedder(work / "tiny")
    fit = ("fit", "--out", "out", "--base", str(base), "--epochs", "2", "--learning-rate", "0.005", "--threads", "1")
    assert train(*fit, "--dry-run") == 0
    told = capfd.readouterr().out
    assert "steps of 16 rows" in told and " s, 0 MB for weights and optimizer" in told
    assert not Path("out/fit").exists()
    assert train(*fit) == 0
    told = capfd.readouterr().out
    assert "--embedder st/out/retriever" in told
    assert f"{len(used['held_out'])} held-out questions among " in told
    assert not list(Path("out/fit/retriever").glob("checkpoint-*"))
    assert train(*fit) == 0
    assert "is fitted already" in capfd.readouterr().out
    assert train(*fit, "--scale", "10") == 2
    assert "scale (was 20.0)" in capfd.readouterr().err
    assert train(*fit, "--scale", "10", "--fresh") == 0
    page = Path("out/report.md").read_text()
    assert "| fit | scale | questions | recall@3 before | after |" in page
    assert "| 1 | 20.0 | " in page and "| 2 | 10.0 | " in page

    assert train("eval", "--out", "out", "--quiet") == 0
    told = capfd.readouterr().out
    assert "| BM25 + trained | " in told
    measured = json.loads(Path("out/eval.json").read_text())["asked.jsonl"]
    assert measured["questions"] == len(used["held_out"])
    assert set(measured["systems"]) == {
        "BM25",
        "BM25 > links",
        "base",
        "BM25 + base",
        "trained",
        "BM25 + trained",
    }
    assert "| BM25 + trained | " in Path("out/report.md").read_text()
    assert run(["index", "docs.jsonl", "--out", "idx", "--kind", "hybrid", "--embedder", "st/out/retriever"]) == 0


def test_documents_alone_are_enough(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "The mill stands at the river. It grinds the flour of the valley. Nobody knows its age."
    (work / "docs").mkdir()
    for number in range(12):
        (work / "docs" / f"mill{number}.txt").write_text(f"{text} It is the mill number {number}.")
    assert train("data", "--corpus", "docs", "--out", "out") == 0
    assert "sentences: " in capfd.readouterr().out
    assert train("data", "--out", "out") == 2
    assert "give --tasks, or --corpus" in capfd.readouterr().err


def test_a_benchmark_gives_rows(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = need_data("popqa", "questions_with_passages.jsonl").parent.parent
    assert train("data", "--tasks", "popqa_train", "--limit", "30", "--data", str(data), "--out", "out") == 0
    assert "popqa_train: " in capfd.readouterr().out
    rows = [json.loads(line) for line in Path("out/data/retriever.jsonl").read_text().splitlines()]
    assert 15 <= len(rows) <= 30
    assert all(row["positive_id"].startswith("pq-") and row["positive_id"] not in row["negative_ids"] for row in rows)

"""`reground train critics collect` from the outside, against a model behind a loopback server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.test_eval_cli import QUESTIONS, Server, call, data, server

__all__ = ["data", "server"]
GROWN = "--task nq_open_train --limit 2 --simulations 4 --set retrieval=false --set candidates=1 --out out"
SMALL = tuple(GROWN.split())


@pytest.fixture(autouse=True)
def training(data: Path) -> None:
    (data / "nq_open").mkdir()
    (data / "nq_open" / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in QUESTIONS))


def test_trees_are_collected_told_of_and_kept(server: Server, data: Path, capfd) -> None:
    assert call(server, data, "train", "critics", "collect", *SMALL) == 0
    out, err = capfd.readouterr()
    assert "2 trees in out/trees: mean reward 1.000" in out
    assert err.count("4 visits, mean reward 1.000") == 2
    asked = len(server.asked)
    assert asked > 0
    kept = json.loads(Path("out/questions.json").read_text())
    assert kept["task"] == "nq_open_train"
    assert {f"{name}.json" for name in kept["ids"]} == {path.name for path in Path("out/trees").iterdir()}
    tree = json.loads(next(Path("out/trees").iterdir()).read_text())
    assert tree["metadata"]["model"] == "openai/m"
    assert "secret-key" not in "".join(p.read_text(errors="replace") for p in Path("out").rglob("*") if p.is_file())
    assert call(server, data, "train", "critics", "collect", *SMALL, "--quiet") == 0
    out, err = capfd.readouterr()
    assert "2 trees" in out
    assert err == ""
    assert len(server.asked) == asked


def test_a_question_without_a_tree_is_named_and_the_exit_code_says_so(server: Server, data: Path, capfd) -> None:
    server.down = "book 0"
    assert call(server, data, "train", "critics", "collect", *SMALL, "--limit", "0") == 3
    out, err = capfd.readouterr()
    assert "5 trees" in out
    assert "b0 has no tree: ModelError" in err


@pytest.mark.parametrize(("limit", "most"), [("calls", 1), ("tokens", 20)])
def test_a_budget_bounds_one_tree(limit: str, most: int, server: Server, data: Path, capfd) -> None:
    assert call(server, data, "train", "critics", "collect", *SMALL, f"--budget-{limit}", str(most)) == 0
    assert capfd.readouterr().err.count(", stopped by ") == 2
    assert len(server.asked) == {"calls": 2, "tokens": 0}[limit]


def test_a_task_of_rankings_is_planned_as_one(server: Server, data: Path, capfd) -> None:
    folder = Path("books")
    (folder / "qrels").mkdir(parents=True)
    queries = [{"_id": f"b{i}", "text": f"Who wrote book {i}?"} for i in range(3)]
    documents = [{"_id": f"w{i}", "title": "", "text": f"Writer {i} wrote it."} for i in range(9)]
    for name, records in (("queries", queries), ("corpus", documents)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    lines = [f"b{i}\tw{i}\t1\n" for i in range(3)]
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    order = ("--limit", "3", "--simulations", "4", "--set", "candidates=1", "--task", f"beir_train:{folder}")
    assert call(server, data, "train", "critics", "collect", *order, "--out", "out") == 0
    out, err = capfd.readouterr()
    assert "3 trees" in out
    assert "has no tree" not in err
    assert json.loads(Path("out/config.json").read_text())["method"] == "cr_planner+ranking"
    assert call(server, data, "train", "critics", "collect", *order, "--set", "answer=form", "--out", "other") == 2
    assert "rankings" in capfd.readouterr().err

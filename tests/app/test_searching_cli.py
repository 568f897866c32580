from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.app.cli import run
from reground.evaluation.metrics.ranking import read_run
from tests.retrieval.corpora import write


@pytest.fixture(autouse=True)
def docs(home: Path) -> None:
    write(home / "docs", {"bridge.md": "# Charles Bridge\n\nThe bridge was begun in 1357.",
                          "tower.md": "# Tower\n\nThe tower was finished in 1889."})  # fmt: skip


def test_passages_are_printed_with_their_place_and_score(capsys) -> None:
    assert run(["retrieve", "when was the bridge begun", "--corpus", "docs", "-k", "1"]) == 0
    out = capsys.readouterr().out
    assert "[1] Charles Bridge" in out and "bridge.md" in out and "1357" in out and "1889" not in out


def test_a_long_place_and_a_tab_are_printed_as_they_are(tmp_path: Path, capsys) -> None:
    deep = Path(*["a-long-folder"] * 8)
    (tmp_path / deep).mkdir(parents=True)
    (tmp_path / deep / "bridge.md").write_text("# Charles Bridge\n\nbegun\t1357")
    assert run(["retrieve", "bridge", "--corpus", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"Charles Bridge   {deep}/bridge.md" in out
    assert "begun\t1357" in out


def test_as_json(capsys) -> None:
    assert run(["retrieve", "tower", "--corpus", "docs", "--json"]) == 0
    (passage,) = json.loads(capsys.readouterr().out)
    assert passage["id"] == "tower.md" and passage["score"] > 0


def test_a_file_of_queries_gives_a_trec_run(capsys) -> None:
    Path("queries.tsv").write_text('q1\tbridge begun\n\n{"id": "q2", "query": "tower finished"}\n')
    out = Path("run.txt")
    assert run(["retrieve", "--queries", "queries.tsv", "--corpus", "docs", "--out", "run.txt"]) == 0
    found = read_run(out)
    assert max(found["q1"], key=found["q1"].__getitem__) == "bridge.md"
    assert max(found["q2"], key=found["q2"].__getitem__) == "tower.md"
    capsys.readouterr()
    assert run(["retrieve", "--queries", "queries.tsv", "--corpus", "docs"]) == 0
    assert capsys.readouterr().out == out.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a query"),
        (["x"], "--corpus DIR or --web ENGINE"),
        (["x", "--web", "frozen:absent.jsonl"], "reground freeze"),
        (["x", "--web", "brave,frozen:a"], "a snapshot is searched alone"),
    ],
)
def test_what_is_missing_is_said(arguments: list[str], said: str, capsys) -> None:
    assert run(["retrieve", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_line_that_is_no_query_is_named(capsys) -> None:
    Path("queries.tsv").write_text("q1\tbridge\nno tab\n")
    assert run(["retrieve", "--queries", "queries.tsv", "--corpus", "docs"]) == 2
    assert "queries.tsv:2" in capsys.readouterr().err


def test_a_run_is_written_beside_what_is_printed(capsys) -> None:
    Path("queries.tsv").write_text("q1\tbridge begun\n")
    assert run(["retrieve", "bridge begun", "--corpus", "docs", "--out", "one.txt"]) == 0
    assert "[1] Charles Bridge" in capsys.readouterr().out
    assert max(read_run(Path("one.txt"))["1"].items(), key=lambda each: each[1])[0] == "bridge.md"
    assert run(["retrieve", "--queries", "queries.tsv", "--corpus", "docs", "--json", "--out", "several.txt"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "q1"
    assert [*read_run(Path("several.txt"))] == ["q1"]


def test_a_byte_order_mark_and_separators_within_a_query_are_read(capsys) -> None:
    queries = Path("queries.jsonl")
    lines = [{"id": "q1", "query": "bridge\u2028begun"}, {"id": "q2", "query": "tower\u0085finished"}]
    queries.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8-sig")
    assert run(["retrieve", "--queries", "queries.jsonl", "--corpus", "docs", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["id"], each["passages"][0]["id"]) for each in found] == [("q1", "bridge.md"), ("q2", "tower.md")]

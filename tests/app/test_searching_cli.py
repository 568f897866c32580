from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.app.cli import run
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
    assert f"Charles Bridge   {deep}/bridge.md" in out and "begun\t1357" in out


def test_as_json(capsys) -> None:
    assert run(["retrieve", "tower", "--corpus", "docs", "--json"]) == 0
    (passage,) = json.loads(capsys.readouterr().out)
    assert passage["id"] == "tower.md" and passage["score"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x"], "--corpus DIR or --web ENGINE"),
        ([" ", "--corpus", "docs"], "empty"),
    ],
)
def test_what_is_missing_is_said(arguments: list[str], said: str, capsys) -> None:
    assert run(["retrieve", *arguments]) == 2
    assert said in capsys.readouterr().err

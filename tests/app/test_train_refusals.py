"""What a stage of a training needs and has not is said in a line, before anything is asked or written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.app.cli import run
from tests.app.test_eval_cli import QUESTIONS
from tests.app.test_train_reader_cli import with_gold_passages
from tests.training.hand_made import planted

MEASURES = "is for measuring"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Here are benchmarks, documents, an empty training and one with trees, and wrong settings."""
    monkeypatch.chdir(with_gold_passages(tmp_path).parent)
    (tmp_path / "data" / "nq_open").mkdir()
    (tmp_path / "data" / "nq_open" / "train.jsonl").write_text("".join(json.dumps(each) + "\n" for each in QUESTIONS))
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "a.txt").write_text("A note.")
    Path("few.toml").write_text("validation = 2\n")
    Path("two.toml").write_text("complete = 2\n")
    Path("gold.toml").write_text("gold_documents = true\n")
    Path("docs.toml").write_text('kinds = "docs"\n')
    planted(tmp_path / "trees", 3)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("reader data --data data --tasks hotpotqa", MEASURES),
        ("reader data --data data --tasks hotpotqa_train --rerank magic", "magic"),
        ("reader data --data data --methods rag,rat", "methods cannot be 'rag,rat'; did you mean rar"),
        ("reader data --data data --questions nowhere.csv --corpus shelf", "there is no such file of questions"),
        ("reader fit --data nowhere", "nowhere"),
        ("reader data --config two.toml", "complete is a share between 0 and 1"),
        ("agent grow --data data --corpus shelf --task nq_open", MEASURES),
        ("agent mix --add nowhere.jsonl", "there are no training data yet"),
        ("agent mix", "nothing has been grown here: run reground train agent grow first"),
        ("agent mix --by ranking", "there is no ranking here: run reground train agent rank first"),
        ("agent fit", "mixture.jsonl"),
        ("rewriter ppo --data data --corpus shelf --task nq_open", MEASURES),
        ("rewriter ppo --data data --corpus shelf --task nq_open_train --reward hit=x", "--reward is retrieval, paper"),
        (
            "rewriter ppo --data data --corpus shelf --task nq_open_train",
            "whose answers retrieval can reward, too few to set aside validation = 64",
        ),
        ("rewriter warmup", "run reground train rewriter collect first"),
        (
            "rewriter ppo --data data --corpus shelf --task nq_open_train --config few.toml",
            "run reground train rewriter",
        ),
        ("critics --task bamboogle", MEASURES),
        ("critics collect --task hotpotqa", MEASURES),
        ("critics", "no trees here: collect some with reground train critics collect"),
        ("critics fit", "out/data"),
        ("critics eval", "no trained critic"),
        ("critics fit --config docs.toml --out trees", "no critic judges 'docs'; did you mean doc"),
        ("critics data --config gold.toml --out trees", "there are no questions here: collect trees first"),
    ],
)
def test_what_cannot_be_done_says_why(command: str, why: str, folder: Path, capfd) -> None:
    if command.split()[0] in ("rewriter", "reader") or "fit" in command:
        pytest.importorskip("accelerate", reason="needs the extra [train]")
    out = [] if "--out" in command else ["--out", "out"]
    assert run(["train", *command.split(), *out]) in (1, 2)
    err = " ".join(capfd.readouterr().err.split())
    assert why in err
    assert "Traceback" not in err

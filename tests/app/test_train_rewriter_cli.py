"""`reground train rewriter` from the outside: all four stages with a tiny model and a model behind a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs the extra [train]")
pytest.importorskip("accelerate", reason="needs the extra [train]")

from reground.app.cli import run
from tests.app.test_eval_cli import QUESTIONS, Server, data, server
from tests.app.test_reranking import docs
from tests.training.tiny import tiny_llama

__all__ = ["data", "docs", "server"]


@pytest.fixture
def training(data: Path) -> Path:
    """The questions, which are also those of a training split, and a shelf that knows who wrote what."""
    (data / "nq_open").mkdir()
    for split in ("train", "dev"):
        (data / "nq_open" / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in QUESTIONS))
    corpus = data / "shelf"
    corpus.mkdir()
    for number in range(len(QUESTIONS)):
        (corpus / f"{number}.txt").write_text(f"A note of the library: Writer {number} has written book {number}.")
    return corpus


@pytest.mark.slow
def test_all_stages_one_after_the_other(server: Server, data: Path, training: Path, tmp_path: Path, capfd) -> None:
    out, base = str(tmp_path / "out"), str(tiny_llama(tmp_path / "base"))
    given = ("--corpus", str(training), "--data", str(data), "--out", out)
    served = ("--model", "openai/m", "--base-url", server.url)
    collect = ["train", "rewriter", "collect", "--task", "nq_open_train", *given, *served, "--limit", "4"]
    assert run([*collect, "--dry-run"]) == 0
    assert "collect: 4 questions, at most 12 calls" in capfd.readouterr().out
    assert not server.received
    config = tmp_path / "rewriter.toml"
    config.write_text(
        'passages_only = true\nproof = "passages"\nvalidation = 2\nreply_tokens = 3\ncollapse_invalid = 1.1\n'
    )
    configured = ("--config", str(config))
    assert run([*collect, *configured]) == 0
    assert len(server.received) == 4, "one rewriting a question, and no reader"
    few = (*configured, "--epochs", "2", "--batch", "4", "--threads", "1")
    assert run(["train", "rewriter", "warmup", "--out", out, "--base", base, *few]) == 0
    said = capfd.readouterr()
    assert "4 rewritings and 2 copies" in said.out
    assert f"--rewriter hf/{out}/warmup" in " ".join(said.out.split())
    short = ("--iterations", "2", "--episodes", "8", "--batch", "4", "--learning-rate", "1e-4")
    learn = ["train", "rewriter", "ppo", "--task", "nq_open_train", *given, *short, "--threads", "1", *configured]
    assert run([*learn, "--dry-run"]) == 0
    assert f"16 replies to {len(QUESTIONS) - 2} questions, 2 for validation" in capfd.readouterr().out
    assert run(learn) == 0
    said = capfd.readouterr()
    assert "iteration 2 of 2: reward " in said.err
    assert (tmp_path / "out" / "model" / "config.json").is_file()
    page = (tmp_path / "out" / "report.md").read_text()
    assert "## fit/ppo" in page
    assert "4 questions to learn from, 2 others for validation, none of which was in the warm-up's data." in page
    assert "of which" not in said.err
    assert run([*learn, "--passages", "2"]) == 2
    assert "has other settings: method.total (was 3)" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("setting", "why"), [("no_such=1", "has a setting 'no_such'"), ("content=x", "the setting content of")]
)
def test_settings_of_the_method_count_without_a_reader_too(
    setting: str, why: str, data: Path, training: Path, tmp_path: Path, capfd
) -> None:
    (tmp_path / "few.toml").write_text("validation = 2\n")
    given = ("--corpus", str(training), "--data", str(data), "--config", str(tmp_path / "few.toml"))
    ppo = ["train", "rewriter", "ppo", "--task", "nq_open_train", *given, "--out", str(tmp_path / "out")]
    assert run([*ppo, "--set", setting]) == 2
    assert why in " ".join(capfd.readouterr().err.split())

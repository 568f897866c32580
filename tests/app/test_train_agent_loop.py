"""`reground train agent loop`: a generation with a tiny model and a scripted teacher, from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the extra [train]")
pytest.importorskip("accelerate", reason="needs the extra [train]")

from reground.app.cli import run
from tests.app.test_train_agent_cli import given  # noqa: F401  a fixture
from tests.training.tiny import tiny_llama

CONFIG = """
generations = 1
validation = "nq_open_test"
validation_limit = 1
test_task = "nq_open_test"
test_limit = 1
no_untrained = true
limit = 2
epochs = 2
max_length = 128
learning_rate = 0.001
threads = 1

[settings]
samples = 2
max_searches = 1
checks = false
max_tokens = 6
"""


@pytest.mark.timeout(600)
def test_a_configuration_file_runs_the_whole_loop_and_resumes(given, tmp_path: Path, capfd) -> None:  # noqa: F811
    server, options = given
    data = tmp_path / "data" / "nq_open"
    (data / "test.jsonl").write_text((data / "train.jsonl").read_text().replace('"b', '"t').replace("book", "volume"))
    config = tmp_path / "loop.toml"
    config.write_text(CONFIG)
    base = str(tiny_llama(tmp_path / "small", context=4096))
    out = tmp_path / "out"
    loop = ["train", "agent", "loop", "--config", str(config), "--task", "nq_open_train", *options]
    loop += ["--bases", base, "--out", str(out)]
    assert run([*loop, "--dry-run"]) == 0
    assert "gen1: fit" in capfd.readouterr().out
    assert not server.received
    assert run(loop) == 0, capfd.readouterr().err
    said = " ".join(capfd.readouterr().out.split())
    assert "gen1: choose the pass of small-unranked on the validation questions pass " in said
    assert json.loads((out / "gen1" / "small.json").read_text())["scores"]
    page = (out / "report.md").read_text()
    assert "### exact match on the test questions" in page
    assert "| small, generation 1, unranked | 2 | " in page
    assert "generations-test.svg" in page
    assert (out / "generations-test.svg").exists()
    paid, kept = len(server.received), (out / "gen1" / "small" / "model.safetensors").stat().st_mtime_ns
    assert run(loop) == 0
    assert len(server.received) == paid, "what is finished is not paid again"
    assert (out / "gen1" / "small" / "model.safetensors").stat().st_mtime_ns == kept
    assert (out / "report.md").read_text() == page
    capfd.readouterr()
    assert run([*loop, "--epochs", "3"]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "other settings: epochs (was '2.0'); use them, or give another --out" in said

"""The benchmark runs; what it measures is for people to read."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [train]")

from benchmarks import ppo
from tests.training.tiny import tiny_llama


def test_both_ways_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps({"question": f"a b {each}"}) + "\n" for each in "cdefgh"))
    base = tiny_llama(tmp_path / "base")
    ppo.main([str(base), str(questions), "--layers", "1", "--replies", "4", "--rounds", "1"])
    out = capsys.readouterr().out
    assert "4 replies" in out
    assert all(f"| {stage} |" in out for stage in ppo.STAGES)

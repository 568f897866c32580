"""Training commands where the extra [train] is not installed: what needs it says so, and the rest works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys

for name in ("torch", "transformers", "accelerate", "peft"):
    sys.modules[name] = None
from reground.app.cli import main

main()
"""
ROW = '{"question": "q", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
NEEDS = "training needs the extra [train]: pip install 'reground[train]'"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("agent fit", NEEDS),
        ("agent mix", "nothing has been grown here"),
        ("agent rank", "nothing has been grown here"),
        ("agent loop --task nq_open_train --dry-run", "gen2: fit smollm2 as smollm2"),
        ("reader fit", NEEDS),
        ("reader data --tasks nq_open", "nq_open is for measuring"),
        ("rewriter warmup", NEEDS),
        ("rewriter ppo --task nq_open_train --limit 2", NEEDS),
    ],
)
def test_a_training_command_without_torch(command: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("mixture", "warmup", "reader"):
        (tmp_path / "data" / f"{name}.jsonl").write_text(ROW + "\n")
    call = [sys.executable, "-c", SCRIPT, "train", *command.split(), "--out", str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    said = " ".join((done.stdout + done.stderr).split())
    assert says in said
    assert "internal error" not in said

"""What most tests of commands and of `reground.ask` begin with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Path:
    """The current folder, with a place for runs of its own, a key, and no server or data of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    for name in ("OPENAI_BASE_URL", "OLLAMA_HOST", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def docs(home: Path) -> Path:
    """Two documents in the current folder, in docs/."""
    folder = home / "docs"
    folder.mkdir()
    (folder / "danube.md").write_text("# Danube\n\nThe Danube flows through Vienna and is 2850 km long.\n")
    (folder / "seine.md").write_text("# Seine\n\nThe Seine flows through Paris and is 775 km long.\n")
    return folder


@pytest.fixture
def bamboogle(home: Path) -> list[str]:
    """A benchmark of five questions in the current folder; the options that name it."""
    folder = home / "data" / "bamboogle"
    folder.mkdir(parents=True)
    lines = [{"id": f"b{i}", "question": f"Who wrote book {i}?", "golden_answers": [f"W{i}"]} for i in range(5)]
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ["--task", "bamboogle", "--data", "data"]

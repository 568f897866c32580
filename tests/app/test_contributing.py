"""The tutorial in CONTRIBUTING.md is executed: its file, its command, its test."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

from reground.app.cli import run
from tests.servers import in_order, model_of, serving

TEXT = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(mark: str) -> str:
    found = re.search(rf"<!-- {re.escape(mark)} -->\n```\w+\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None, mark
    return found.group(1)


def test_the_tutorials_test_passes() -> None:
    namespace: dict[str, object] = {"__name__": "second_look_tutorial"}
    module = type(sys)("second_look_tutorial")
    sys.modules["second_look_tutorial"] = module
    try:
        exec(compile(block("file: second_look.py"), "second_look.py", "exec"), namespace)
        exec(compile(block("test"), "CONTRIBUTING.md", "exec"), namespace)
    finally:
        del sys.modules["second_look_tutorial"]
    assert namespace["METHOD"] is namespace["SecondLook"]


def test_the_tutorials_command_works(home: Path, capsys) -> None:
    (home / "second_look.py").write_text(block("file: second_look.py"))
    (home / "docs").mkdir()
    (home / "docs" / "tower.md").write_text("# The tower\n\nStephen Sauvestre was the tower's architect.\n")
    arguments = shlex.split(block("command"))[1:]
    with serving(in_order("Gustave built it.", "Stephen Sauvestre designed it.")) as server:
        code = run([*arguments, *model_of(server), "--json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    assert json.loads(said.out)["answer"] == "Stephen Sauvestre designed it."


def test_the_task_of_the_tutorial_is_measured(home: Path, monkeypatch, capsys) -> None:
    monkeypatch.delenv("REGROUND_DATA", raising=False)
    (home / "riddles.py").write_text(block("file: riddles.py"))
    arguments = shlex.split(block("task command"))[1:]
    with serving(in_order("Answer: a clock")) as server:
        assert run([*arguments, *model_of(server), "-q"]) == 0, capsys.readouterr().err
    summary = json.loads((home / "runs" / "riddles" / "summary.json").read_text())
    assert summary["metrics"]["accuracy"]["mean"] == 0.5

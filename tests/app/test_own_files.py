"""A method file of the user's own that fails says where, and a run folder can be read back."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reground.app import catalogue
from reground.app.cli import run
from reground.testing.openai_server import MockOpenAI
from tests.servers import in_order, serving

METHOD = '''"""Fails."""
from dataclasses import dataclass
from reground.core.answers import Answer


@dataclass(frozen=True, kw_only=True)
class Fails:
    """Fails."""

    model: object
    form: object = None

    async def solve(self, question, run, /):
        said = await run.ask(self.model, question, name="x")
        return Answer(text={"a": 1}[said])


METHOD = Fails
'''


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    (tmp_path / "data").mkdir()
    return tmp_path


def questions(home: Path, count: int = 3) -> list[str]:
    """A small benchmark's questions, and the options that name them."""
    folder = home / "data" / "bamboogle"
    folder.mkdir(parents=True)
    lines = [{"id": f"b{i}", "question": f"Who wrote book {i}?", "golden_answers": [f"W{i}"]} for i in range(count)]
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ["--task", "bamboogle", "--data", "data"]


def test_an_exception_in_a_users_own_method_names_its_file_and_line(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    (home / "fails.py").write_text(METHOD)
    with serving(in_order("b")) as server:
        arguments = ["ask", "Why?", "--method", "./fails.py", "--model", "openai/mock", "--base-url", server.url, "-q"]
        assert run(arguments) == 2
    said = capsys.readouterr().err
    assert "fails.py:15, in solve: KeyError: 'b'" in said
    assert "internal error" not in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(("text", "line"), [("x = 1\ny = absent\n", 2), ("x = 1\n\ndef (\n", 3), ("1 / 0", 1)])
def test_a_method_file_that_cannot_be_loaded_names_the_line(
    text: str, line: int, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    (home / f"broken{line}.py").write_text(text)
    assert run(["ask", "Why?", "--method", f"./broken{line}.py"]) == 2
    assert f"broken{line}.py:{line}" in capsys.readouterr().err


@pytest.fixture
def plugin(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The module of an installed method, `my_methods.py`, still empty."""
    monkeypatch.syspath_prepend(str(home))
    info = home / "my_methods-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[reground.methods]\nmine = my_methods:METHOD\n")
    importlib.invalidate_caches()
    catalogue.methods.cache_clear()
    yield home / "my_methods.py"
    sys.modules.pop("my_methods", None)
    catalogue.methods.cache_clear()


def test_an_exception_in_an_installed_method_names_its_file_and_line(
    capsys: pytest.CaptureFixture[str], plugin: Path
) -> None:
    plugin.write_text(METHOD)
    with serving(in_order("b")) as server:
        arguments = ["ask", "Why?", "--method", "mine", "--model", "openai/mock", "--base-url", server.url, "-q"]
        assert run(arguments) == 2
    said = capsys.readouterr().err
    assert "my_methods.py:15, in solve: KeyError: 'b'" in said
    assert "internal error" not in said


def test_an_installed_method_that_cannot_be_read_spoils_no_other(
    capsys: pytest.CaptureFixture[str], plugin: Path
) -> None:
    plugin.write_text("x = 1\ndef (\n")
    assert {"direct", "mine"} <= set(catalogue.methods())
    assert run(["ask", "Why?", "--method", "mine"]) == 2
    assert "mine (my_methods:METHOD) cannot be imported:" in (said := capsys.readouterr().err)
    assert "my_methods.py:2: SyntaxError" in said


def test_failed_questions_give_their_reasons_once_each(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    task = questions(home)
    (home / "reground.toml").write_text("attempts = 1\n")
    with serving(MockOpenAI(lambda body: "Answer: W0")) as server:
        server.misbehave("500:boom 1", "500:boom 2", "malformed:{")
        arguments = ["eval", *task, "--method", "direct", "--model", "openai/mock", "--base-url", server.url]
        assert run([*arguments, "--out", "RUN", "-j", "1", "-q"]) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "2 x TransientModelError: " in out and "500: boom" in out
    assert "1 x TransientModelError: " in out and "malformed" in out


def test_a_run_folder_is_listed_and_one_question_shown_by_its_id(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    task = questions(home)
    with serving(MockOpenAI(lambda body: "<think>Hm.</think>Answer: W0")) as server:
        arguments = ["eval", *task, "--method", "direct", "--model", "openai/mock", "--base-url", server.url]
        assert run([*arguments, "--out", "RUN", "-q"]) == 0
    capsys.readouterr()
    assert run(["show", "RUN"]) == 0
    listed = capsys.readouterr().out
    assert all(f"b{i}~0" in listed for i in range(3))
    for name in ("b1~0", "b1"):
        assert run(["show", "RUN", name]) == 0
        said = capsys.readouterr().out
        assert "Who wrote book 1?" in said and "book 2" not in said
        assert "thought: Hm." in said
    assert run(["show", "RUN", "b9~0"]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert run(["show", "."]) == 0
    assert run(["show", "data"]) == 2
    assert "not a run folder" in capsys.readouterr().err

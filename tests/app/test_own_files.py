"""A method file of the user's own that fails says where, and a run folder can be read back."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reground.app import catalogue
from reground.app.cli import run
from reground.testing.openai_server import MockOpenAI
from tests.servers import in_order, model_of, serving

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


pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(("text", "line"), [("x = 1\ny = absent\n", 2), ("x = 1\n\ndef (\n", 3), ("1 / 0", 1)])
def test_a_method_file_that_cannot_be_loaded_names_the_line(text: str, line: int, capsys, home: Path) -> None:
    (home / f"broken{line}.py").write_text(text)
    assert run(["ask", "Why?", "--method", f"./broken{line}.py"]) == 2
    assert f"broken{line}.py:{line}" in capsys.readouterr().err


@pytest.fixture
def plugin(home: Path, monkeypatch) -> Iterator[Path]:
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


@pytest.mark.parametrize("method", ["./my_methods.py", "mine"])
def test_an_exception_in_a_users_own_method_names_its_file_and_line(method: str, capsys, plugin: Path) -> None:
    plugin.write_text(METHOD)
    with serving(in_order("b")) as server:
        assert run(["ask", "Why?", "--method", method, *model_of(server), "-q"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "my_methods.py:15, in solve: KeyError: 'b'" in line
    assert "internal error" not in line


def test_an_installed_method_that_cannot_be_read_spoils_no_other(capsys, plugin: Path) -> None:
    plugin.write_text("x = 1\ndef (\n")
    assert {"direct", "mine"} <= set(catalogue.methods())
    assert run(["ask", "Why?", "--method", "mine"]) == 2
    assert "mine (my_methods:METHOD) cannot be imported:" in (said := capsys.readouterr().err)
    assert "my_methods.py:2: SyntaxError" in said


def test_failed_questions_give_their_reasons_once_each(capsys, home: Path, bamboogle: list[str]) -> None:
    (home / "reground.toml").write_text("attempts = 1\n")
    with serving(MockOpenAI(lambda body: "Answer: W0")) as server:
        server.misbehave("500:boom 1", "500:boom 2", "malformed:{")
        arguments = ["eval", *bamboogle, "--limit", "3", "--method", "direct", *model_of(server), "--out", "RUN", "-q"]
        assert run([*arguments, "-j", "1"]) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "2 x TransientModelError: " in out and "500: boom" in out
    assert "1 x TransientModelError: " in out and "malformed" in out


def test_a_run_folder_is_listed_and_one_question_shown_by_its_id(capsys, bamboogle: list[str]) -> None:
    with serving(MockOpenAI(lambda body: "<think>Hm.</think>Answer: W0")) as server:
        assert run(["eval", *bamboogle, "--method", "direct", *model_of(server), "--out", "RUN", "-q"]) == 0
    capsys.readouterr()
    assert run(["show", "RUN"]) == 0
    listed = capsys.readouterr().out
    assert all(f"b{i}~0" in listed for i in range(5))
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

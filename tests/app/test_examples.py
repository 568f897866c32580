"""The examples, and the tutorial in CONTRIBUTING.md with its file, its command and its test, are executed."""

from __future__ import annotations

import html
import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

from rich.cells import cell_len

import reground
from reground.app.cli import run
from reground.core.trajectory import read_trajectories
from reground.models.scripted import ScriptedModel
from tests.data import ROOT
from tests.servers import in_order, model_of, serving

EXAMPLES = ROOT / "examples"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_a_retriever_of_your_own(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path))
    assert await load("your_own_retriever").main() == "Three to five minutes [1]. (from tea)"


def test_ask_documents(docs: Path, monkeypatch, capsys) -> None:
    with serving(in_order("The Danube [1].")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        load("ask_documents").main(str(docs), "Which river flows through Vienna?", "openai/mock")
    said = capsys.readouterr().out
    assert said.startswith("The Danube [1].")
    assert "calls" in said


def test_the_pictures_in_the_readme_are_what_their_recordings_draw() -> None:
    def words(picture: str) -> list[str]:
        return re.findall(r"<text[^>]*>([^<]*)<", picture)

    images = ROOT / "docs" / "images"
    drawn = load("draw_trajectory").draw(next(read_trajectories(images / "trajectory.jsonl")))
    moving = load("record_terminal").draw((images / "first-minutes.cast").read_text(encoding="utf-8"))
    for name, picture in (("trajectory", drawn), ("first-minutes", moving)):
        assert words(picture) == words((images / f"{name}.svg").read_text(encoding="utf-8"))
        assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")  # it loads nothing


def test_a_terminal_is_recorded_and_drawn_with_what_was_shown_for_a_while(tmp_path: Path) -> None:
    terminal = load("record_terminal")
    wait = "printf 'begun\\r'; sleep 0.5; printf '\\033[2K<ended>\\n'"
    terminal.record([wait, "echo $((40 + 2))"], tmp_path / "recording.cast")
    picture = terminal.draw((tmp_path / "recording.cast").read_text(encoding="utf-8"))
    lines = re.findall(r"<g( class=\"once\")? style=[^>]*><text[^>]*>([^<]*)<", picture)
    assert {("", "&lt;ended&gt;"), ("", "42"), (' class="once"', "begun")} <= {*lines}


def test_an_answer_is_drawn_as_it_is_printed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    (tmp_path / "danube.md").write_text("# Danube\n\nThe Danube flows through Vienna.\n")
    model = ScriptedModel(["The Danube flows through Vienna [1]."])
    question = "Which river flows through Vienna?"
    result = reground.ask(question, method="rag", model=model, corpus=tmp_path, home=tmp_path / ".home")
    drawn = load("draw_answer").draw(result, question=question, command="--corpus docs ドナウ")
    said = html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)<", drawn))).replace("\xa0", " ")
    widths = re.findall(r'textLength="([\d.]+)"[^>]*>([^<]*ドナウ[^<]*)<', drawn)
    assert [float(width) for width, _ in widths] == [cell_len(html.unescape(said)) * 12.2 for _, said in widths] != []
    for part in (question, "--corpus docs", "Supported by", "danube.md:3", "1 call"):
        assert part in said
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


def test_every_example_is_tested() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    assert all(path.stem in tested for path in EXAMPLES.glob("*.py"))


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

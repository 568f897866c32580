"""The examples are executed."""

from __future__ import annotations

import html
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from rich.cells import cell_len

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


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


def test_ask_documents(tmp_path: Path, monkeypatch, capsys) -> None:
    from tests.servers import in_order, serving

    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "danube.md").write_text("# Danube\n\nThe Danube flows through Vienna.\n")
    with serving(in_order("The Danube [1].")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        load("ask_documents").main(str(docs), "Which river flows through Vienna?", "openai/mock")
    said = capsys.readouterr().out
    assert said.startswith("The Danube [1].")
    assert "calls" in said


def test_the_picture_in_the_readme_is_what_its_recording_draws() -> None:
    from reground.core.trajectory import read_trajectories

    def words(picture: str) -> list[str]:
        return re.findall(r"<text[^>]*>([^<]*)<", picture)

    images = EXAMPLES.parent / "docs" / "images"
    drawn = load("draw_trajectory").draw(next(read_trajectories(images / "trajectory.jsonl")))
    assert words(drawn) == words((images / "trajectory.svg").read_text(encoding="utf-8"))
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")  # it loads nothing


def test_an_answer_is_drawn_as_it_is_printed(tmp_path: Path, monkeypatch) -> None:
    import reground
    from reground.models.scripted import ScriptedModel

    monkeypatch.syspath_prepend(str(EXAMPLES))
    (tmp_path / "danube.md").write_text("# Danube\n\nThe Danube flows through Vienna.\n")
    model = ScriptedModel(["The Danube flows through Vienna [1]."])
    question = "Which river flows through Vienna?"
    result = reground.ask(question, method="rag", model=model, corpus=tmp_path, home=tmp_path / ".home")
    drawn = load("draw_answer").draw(result, question=question, command="--corpus docs ドナウ")
    said = html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)<", drawn))).replace("\xa0", " ")
    widths = re.findall(r'textLength="([\d.]+)"[^>]*>([^<]*ドナウ[^<]*)<', drawn)
    assert [float(width) for width, _ in widths] == [cell_len(html.unescape(said)) * 12.2 for _, said in widths] != []
    for part in (question, "--corpus docs", "Supported by", "danube.md:3", "1 calls"):
        assert part in said
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


def test_every_example_is_tested() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    assert all(path.stem in tested for path in EXAMPLES.glob("*.py"))

"""The Python examples of the documentation: what they import is there, and those about evaluation run."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from reground.evaluation.runner import EvalSettings
from reground.methods.cr_planner import CRPlanner
from reground.models.scripted import ScriptedModel
from reground.training.trees import collect_trees
from reground.treesearch.settings import Settings
from tests.data import ROOT, need_data
from tests.evaluation.fakes import SumTask

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize(
    "code",
    [pytest.param(code, id=f"{page.stem}-{number}") for page in PAGES for number, code in enumerate(examples(page))],
)
def test_what_an_example_imports_is_there_and_public(code: str) -> None:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            for name in node.names:
                importlib.import_module(name.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None and "._" not in node.module
            module = importlib.import_module(node.module)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


def run(code: str, **instead: str) -> dict[str, Any]:
    """Run an example with something else in the place of what only its reader has."""
    for old, new in instead.items():
        assert old in code
        code = code.replace(old, new)
    found: dict[str, Any] = {"ScriptedModel": ScriptedModel}
    exec(compile(code, "example", "exec"), found)
    return found


def test_an_evaluation_from_python_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = examples(ROOT / "docs/how-to/evaluate.md")[0]
    need_data("hotpotqa")
    places = {
        'load_model("openai/my-model")': "ScriptedModel(lambda messages, sampling: 'Answer: yes')",
        'Path("data")': repr(need_data()),
        'Path("runs/mine")': repr(tmp_path / "mine"),
    }
    result = run(f"from pathlib import PosixPath\n{code}", **places)["result"]
    assert len(result.records) == 50
    assert "mean=" in capsys.readouterr().out


def test_trees_are_read_from_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = iter(["Answer: wrong", "Answer: 0"] * 100)
    model = ScriptedModel(lambda messages, sampling: next(said))
    planner = CRPlanner(model=model, form=SumTask().form, retrieval=False, candidates=2)
    settings = EvalSettings(method="cr_planner", model="scripted", limit=1)
    asyncio.run(collect_trees(SumTask(1), planner, settings, Settings(simulations=8), tmp_path / "TREES"))
    run(
        f"from pathlib import PosixPath\n{examples(ROOT / 'docs/how-to/evaluate.md')[1]}",
        **{'Path("TREES")': repr(tmp_path / "TREES")},
    )
    assert "Answer: 0" in capsys.readouterr().out

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError
from reground.evaluation.tasks import _registry, folder_schemes, load_task, task_names
from tests.data import ROOT
from tests.evaluation.trajectories import write_jsonl


def test_every_folder_of_the_benchmark_data_is_a_task_by_name() -> None:
    names = task_names()
    assert names == sorted(set(names))
    ours = {"hotpotqa", "2wikimultihopqa", "musique", "bamboogle", "bamtwoogle", "nq_open", "ambignq", "popqa"}
    assert {*ours, "triviaqa", "strategyqa", "mmlu", "agieval", "theoremqa", "scifact"} <= set(names)
    assert folder_schemes() == ["beir", "beir_train", "bright"]


def test_a_task_is_loaded_by_name(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "bamboogle" / "questions.jsonl", [{"id": "1", "question": "q", "golden_answers": ["a"]}])
    assert load_task("bamboogle", tmp_path).examples()[0].id == "1"


def test_a_folder_of_ones_own_is_a_task(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "queries.jsonl", [{"_id": "1", "text": "q"}])
    write_jsonl(tmp_path / "corpus.jsonl", [{"_id": "d", "text": "x"}])
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\td\t1\n")
    assert load_task(f"beir:{tmp_path}", tmp_path / "elsewhere").name == tmp_path.name


def test_an_unknown_task_gets_near_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no task is called 'hotpot_qa'; did you mean hotpotqa"):
        load_task("hotpot_qa", tmp_path)
    with pytest.raises(ConfigurationError, match=r"no task is called 'bier:x'; did you mean beir:DIR"):
        load_task("bier:x", tmp_path)
    with pytest.raises(ConfigurationError, match=r"there are .*bamboogle"):
        load_task("zzzzzz", tmp_path)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder for installed packages, and a registry that has not looked around yet."""
    monkeypatch.syspath_prepend(str(tmp_path))
    _registry._where.cache_clear()
    yield tmp_path
    _registry._where.cache_clear()
    sys.modules.pop("my_tasks", None)
    importlib.invalidate_caches()


def install(folder: Path, module: str) -> None:
    info = folder / "my_tasks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-tasks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[reground.tasks]\nmine = {module}\n")
    importlib.invalidate_caches()


def test_outsiders_come_in_by_an_entry_point(fresh: Path) -> None:
    (fresh / "my_tasks.py").write_text("TASKS = {'mine': lambda root: ('loaded', root)}\n")
    install(fresh, "my_tasks")
    assert "mine" in task_names()
    assert load_task("mine", fresh) == ("loaded", fresh)


def test_a_broken_plugin_is_named(fresh: Path) -> None:
    install(fresh, "my_missing_tasks")
    with pytest.raises(ConfigurationError, match=r"the task plugin mine \(my_missing_tasks\) cannot be imported"):
        task_names()


def test_the_reference_names_every_task_and_its_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "reference" / "tasks.md").read_text(encoding="utf-8")
    for name in task_names():
        assert f"`{name}`" in page, name
    program, expected = re.search(
        r"```python\n(from pathlib.*?print\(scores\.means\))  # (\{.*?\})\n```", page, re.S
    ).groups()
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    exec(program, space)
    assert str(space["scores"].means) == expected  # type: ignore[attr-defined]

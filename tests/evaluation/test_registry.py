import importlib
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError
from reground.evaluation import tasks as registry
from reground.evaluation.task import Task
from reground.evaluation.tasks import load_task, load_training_task, task_names
from tests.data import ROOT
from tests.evaluation.trajectories import write_jsonl


def test_an_unknown_task_gets_near_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no task is called 'hotpot_qa'; did you mean hotpotqa"):
        load_task("hotpot_qa", tmp_path)
    with pytest.raises(ConfigurationError, match=r"no task is called 'bier:x'; did you mean beir:DIR"):
        load_task("bier:x", tmp_path)
    with pytest.raises(ConfigurationError, match=r"there are .*bamboogle"):
        load_task("zzzzzz", tmp_path)


RIDDLES = """
from reground.core.answers import PHRASE
from reground.evaluation.task import Example, Score, Task


class Riddles(Task):
    name, form, primary = "riddles", PHRASE, "exact"

    def examples(self):
        return [Example(id="1", question="What has hands but cannot clap?", golden_answers=("clock",))]

    async def score(self, example, trajectory, sandbox):
        return {"exact": Score(value=float(trajectory.answer.text == "clock"))}
"""


def forget() -> None:
    registry._loaders.cache_clear()
    registry._plugins.cache_clear()
    importlib.invalidate_caches()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder for installed packages, and a registry that has not looked around yet."""
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    yield tmp_path
    sys.modules.pop("my_tasks", None)
    forget()


def install(folder: Path, module: str, text: str | None = None) -> None:
    info = folder / "my_tasks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-tasks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[reground.tasks]\nmine = {module}\n")
    if text is not None:
        (folder / f"{module.partition(':')[0]}.py").write_text(text)
    importlib.invalidate_caches()


def test_the_minecraft_task_comes_in_by_the_door_of_outsiders() -> None:
    assert {point.value for point in entry_points(group="reground.tasks", name="minecraft")} == {
        "reground_minecraft.task"
    }, "install the project again: pip install -e ."
    assert {"minecraft", "minecraft_zero_shot"} <= set(task_names())


@pytest.mark.parametrize("named", ["my_tasks", "my_tasks:TASKS"])
@pytest.mark.parametrize("loader", ["Riddles", "lambda root: Riddles()"])
def test_outsiders_come_in_by_an_entry_point(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, named: str, loader: str
) -> None:
    """A module or its mapping; a task that has its questions in itself needs no data."""
    monkeypatch.setenv("REGROUND_DATA", str(fresh if "root" in loader else "/nowhere"))
    install(fresh, named, RIDDLES + f"TASKS = {{'mine': {loader}}}\n")
    assert "mine" in task_names()
    task = load_task("mine")
    assert isinstance(task, Task) and task.name == "riddles"
    assert (*task.demonstrations(), *task.solutions()) == (), "what may be empty need not be written"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, r"No module named 'my_tasks'"),
        ("import absent_module\n", r"my_tasks\.py:1, in <module>: No module named 'absent_module'"),
        ("\nTASKS = {\n", r"my_tasks\.py:2: SyntaxError: "),
        ("1 / 0\n", r"my_tasks\.py:1, in <module>: ZeroDivisionError: "),
    ],
)
def test_a_broken_plugin_is_named_and_spoils_no_other_task(fresh: Path, text: str | None, why: str) -> None:
    install(fresh, "my_tasks", text)
    with pytest.raises(ConfigurationError, match=rf"the task plugin mine \(my_tasks\) cannot be imported: .*{why}"):
        load_task("mine", fresh)
    assert "hotpotqa" in task_names()


def test_a_name_that_is_taken_stays_with_the_task_that_has_it(fresh: Path) -> None:
    write_jsonl(fresh / "bamboogle" / "questions.jsonl", [{"id": "7", "question": "q", "golden_answers": ["a"]}])
    install(fresh, "my_tasks", RIDDLES + "TASKS = {'bamboogle': Riddles}\n")
    assert load_task("bamboogle", fresh).examples()[0].id == "7"


def test_a_file_of_ones_own_holds_tasks(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(RIDDLES + "TASKS = {'riddles': Riddles}\n")
    two.write_text(RIDDLES + "TASKS = {'riddles': Riddles, 'riddles_train': Riddles}\n")
    assert load_task(str(one)).name == load_task(f"{one}:riddles").name == load_task(f"{two}:riddles").name
    assert load_training_task(f"{two}:riddles_train").name == "riddles"
    with pytest.raises(ConfigurationError, match=r"there are .*two\.py:riddles, .*two\.py:riddles_train"):
        load_task(str(two))
    with pytest.raises(ConfigurationError, match=r"one\.py:riddles is for measuring"):
        load_training_task(f"{one}:riddles")
    one.write_text("1 / 0\n")
    with pytest.raises(ConfigurationError, match=r"the task file .* cannot be loaded: .*one\.py:1, in <module>: Zero"):
        load_task(str(one))
    one.write_text("x = 1\n")
    with pytest.raises(ConfigurationError, match=r"it has no TASKS"):
        load_task(str(one))
    with pytest.raises(ConfigurationError, match=r"there is no task file .*three\.py"):
        load_task(str(tmp_path / "three.py"))


def test_the_reference_names_every_task() -> None:
    page = (ROOT / "docs" / "reference" / "tasks.md").read_text(encoding="utf-8")
    assert task_names() == sorted(set(task_names()))
    for name in (*task_names(), *(f"{scheme}:DIR" for scheme in ("beir", "beir_train", "bright"))):
        assert f"`{name}`" in page, name

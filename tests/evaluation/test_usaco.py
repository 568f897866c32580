"""Contest problems: input and output, each problem's own limits, and no way round the judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.core.errors import DataError
from reground.core.evidence import Passage
from reground.core.trajectory import RetrieveStep, read_trajectories
from reground.evaluation.report import build_reports
from reground.evaluation.results import read_run
from reground.evaluation.runner import EvalSettings, evaluate
from reground.evaluation.task import Task
from reground.evaluation.tasks.usaco import TASKS
from reground.methods.baselines import RAG, Direct
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.evaluation.programs import scored
from tests.sandbox.needed import some_sandbox

PROBLEMS: list[dict[str, object]] = [
    {
        "id": "haystacks",
        "question": "The first line holds N. Each of the next N lines holds the height of a haystack. "
        "Print the largest sum of two neighbours.",
        "level": "bronze",
        "time_limit_s": 1.0,
        "memory_limit_mib": 128,
        "cases": [
            {"input": "3\n1\n5\n4\n", "output": "9\n"},
            {"input": "2\n-1\n-2\n", "output": "-3\n"},
            {"input": "4\n9\n0\n0\n8\n", "output": "9"},
        ],
        "solution": "n = int(input())\nh = [int(input()) for _ in range(n)]\nprint(max(map(sum, zip(h, h[1:]))))\n",
    },
    {
        "id": "gates",
        "question": "A line holds the letters of the gates a cow walks through. Print how many differ.",
        "cases": [{"input": "abca\n", "output": "3\n"}],
    },
]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load(tmp_path, *map(json.dumps, PROBLEMS))


def load(root: Path, *lines: str) -> Task:
    (root / "usaco").mkdir()
    (root / "usaco" / "problems.jsonl").write_text("\n".join(lines))
    return TASKS["usaco"](root)


async def judged(task: Task, code: str) -> tuple[float | None, float | None, str]:
    scores = await scored(task, task.examples()[0], f"```python\n{code}\n```", some_sandbox())
    return scores["pass@1"].value, scores["cases passed"].value, scores["pass@1"].why


async def test_the_reference_passes(task: Task) -> None:
    assert await judged(task, str(PROBLEMS[0]["solution"])) == (1.0, 1.0, "passed")
    assert await judged(task, f"{PROBLEMS[0]['solution']}\nimport sys\nsys.exit(0)") == (1.0, 1.0, "passed")


async def test_the_first_failing_case_is_named(task: Task) -> None:
    value, part, why = await judged(task, "print(9)")
    assert (value, part) == (0.0, pytest.approx(1 / 3))
    assert why.startswith("case 2: wrong answer: line 1: expected '-3'")
    assert (await judged(task, "print('passed')"))[:2] == (0.0, 0.0)


async def test_each_problem_has_its_own_limits(task: Task) -> None:
    assert (await judged(task, "while True: pass"))[2].startswith("case 1: timeout")
    assert (await judged(task, "x = bytearray(300 * 2**20)\nprint(9)"))[2].startswith("case 1: memory")


async def test_without_a_sandbox_it_is_unscored(task: Task) -> None:
    scores = await scored(task, task.examples()[0], "print(1)", None)
    assert {score.value for score in scores.values()} == {None}


def test_a_question_states_the_limits_and_no_case(task: Task) -> None:
    first, second = task.examples()
    assert "1 seconds and 128 MiB" in first.question
    assert "4 seconds and 256 MiB" in second.question
    assert "abca" not in second.question
    assert task.solutions() == [PROBLEMS[0]["solution"]]
    assert task.demonstrations() == ()
    assert "no example calls" not in task.form.instruction, "a contest's program has to call what it defines"


def test_a_level_is_metadata_that_reports_go_by(task: Task, tmp_path: Path) -> None:
    first, second = task.examples()
    assert first.metadata == {"level": "bronze"}
    assert second.metadata == {}, "a problem without one is in no group"


async def test_a_report_groups_by_level(task: Task, tmp_path: Path) -> None:
    model = ScriptedModel(lambda messages, sampling: f"```python\n{PROBLEMS[0]['solution']}\n```")
    settings = EvalSettings(method="direct", model="scripted", limit=None)
    await evaluate(task, Direct(model=model, form=task.form), settings, tmp_path / "run", sandbox=some_sandbox())
    (report,) = build_reports([tmp_path / "run"], by="level")
    (table,) = [each for each in report.tables if "level" in each.title]
    assert any("bronze" in cell and "1.000" in " ".join(row) for row in table.rows for cell in row)


def test_a_problem_without_cases_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"problems.jsonl:2: the field cases is unusable"):
        load(tmp_path, json.dumps(PROBLEMS[0]), json.dumps({"id": "x", "question": "y", "cases": []}))


def test_two_problems_with_one_id_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"problems.jsonl:3: the id 'haystacks' is that of an earlier problem"):
        load(tmp_path, *map(json.dumps, [*PROBLEMS, PROBLEMS[0]]))


async def test_the_bank_leaves_out_the_problem_that_is_being_solved(tmp_path: Path) -> None:
    load(tmp_path, *map(json.dumps, PROBLEMS))
    bank = [Passage(id=f"{each['id']}{piece}", text=str(each["question"])) for each in PROBLEMS for piece in ("", "#2")]
    (tmp_path / "usaco" / "corpus.jsonl").write_text('{"id": "haystacks", "text": "a bank"}')
    task = TASKS["usaco"](tmp_path)
    assert getattr(task, "corpus", None) == tmp_path / "usaco" / "corpus.jsonl"
    method = RAG(model=ScriptedModel(["```python\n1\n```"] * 2), retriever=ScriptedRetriever(bank), form=task.form, k=2)
    settings = EvalSettings("rag", "scripted", limit=None, concurrency=1)
    await evaluate(task, method, settings, tmp_path / "run", sandbox=some_sandbox())
    for example, other in (("haystacks", "gates"), ("gates", "haystacks")):
        every = read_trajectories(read_run(tmp_path / "run").trajectories)
        (told,) = [each for each in every if each.metadata["example"] == example]
        (found,) = [step for step in told.steps if isinstance(step, RetrieveStep)]
        assert {passage.id for passage in found.passages} == {other, f"{other}#2"}

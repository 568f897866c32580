"""HumanEval and MBPP: reference programs pass, wrong ones do not, and completions come in several forms."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from reground.core.evidence import Passage
from reground.core.trajectory import RetrieveStep, read_trajectories
from reground.evaluation.results import read_run
from reground.evaluation.runner import EvalSettings, evaluate
from reground.evaluation.task import Task
from reground.evaluation.tasks.code import TASKS, UNSCORABLE, CodeTask, imported
from reground.methods.baselines import RAG
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from tests.data import need_data
from tests.evaluation.trajectories import scored
from tests.sandbox.needed import some_sandbox

PROMPT = (
    "from typing import List\n\n\ndef helper(x):\n    return x + 1\n\n\ndef total(values: List[int]) -> int:\n"
    '    """The sum of the successors.\n    >>> total([1])\n    2\n    """\n'
)
RECORD = {
    "task_id": "T/0",
    "prompt": PROMPT,
    "entry_point": "total",
    "canonical_solution": "    return sum(helper(v) for v in values)\n",
    "test": (
        "def check(candidate):\n    assert candidate([]) == 0\n    assert candidate([1, 2]) == helper(1) + helper(2)\n"
    ),
}
BODY = "    return sum(v + 1 for v in values)"


def write(root: Path, name: str, *records: dict[str, object]) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return root


def human(root: Path) -> Task:
    return TASKS["humaneval"](write(root, "humaneval/HumanEval.jsonl", RECORD))


@pytest.mark.parametrize(
    "text",
    [
        f"```python\n{PROMPT}{BODY}\n```",
        f"Here it is:\n```python\ndef total(values: List[int]) -> int:\n{BODY}\n```\nThat is all.",
        BODY,
        "return sum(v + 1 for v in values)",
        "```python\nfrom __future__ import annotations\n\ndef total(values):\n    return sum(map(helper, values))\n```",
        "```python\ntotal = lambda values: sum(values) + len(values)\n```",
    ],
)
async def test_a_completion_may_be_whole_or_the_body_alone(text: str, tmp_path: Path) -> None:
    task = human(tmp_path)
    score = (await scored(task, task.examples()[0], text, some_sandbox()))["pass@1"]
    assert (score.value, score.why) == (1.0, "passed")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("return 0", "wrong answer: AssertionError in: assert candidate([1, 2])"),
        ("```python\ndef helper(x):\n    return 0\n\ndef total(values):\n    return 0\n```", "wrong answer"),
        ("```python\nprint('passed')\n```", "wrong answer"),
        ("return 1 / 0", "exception: ZeroDivisionError"),
        ("", "wrong answer"),
        ("def total(values) return 5", "syntax"),
    ],
)
async def test_a_wrong_program_does_not_pass(text: str, why: str, tmp_path: Path) -> None:
    task = human(tmp_path)
    score = (await scored(task, task.examples()[0], text, some_sandbox()))["pass@1"]
    assert score.value == 0.0
    assert score.why.startswith(why)


async def test_what_cannot_be_run_here_is_unscored_not_wrong(tmp_path: Path) -> None:
    task = human(tmp_path)
    score = (await scored(task, task.examples()[0], BODY, None))["pass@1"]
    assert score.value is None and "sandbox" in score.why
    record = RECORD | {"test": "import no_such_package\n" + str(RECORD["test"])}
    task = TASKS["humaneval"](write(tmp_path, "humaneval/HumanEval.jsonl", record))
    score = (await scored(task, task.examples()[0], BODY, some_sandbox()))["pass@1"]
    assert score.value is None and "no_such_package" in score.why


def test_what_a_method_sees_has_no_tests_and_no_solution(tmp_path: Path) -> None:
    task = human(tmp_path)
    example = task.examples()[0]
    assert "sum of the successors" in example.question
    assert "candidate" not in example.question
    assert example.golden_answers == ()
    assert any("candidate" in text for text in task.solutions())
    assert any("helper(v) for v" in text for text in task.solutions())
    assert task.demonstrations()


def mbpp_record(number: int, **more: object) -> dict[str, object]:
    return {
        "task_id": number,
        "text": "Write a function that doubles.",
        "code": "def twice(x):\r\n    return 2 * x",
        "test_list": ["assert twice(2) == 4"],
        "test_setup_code": "",
        **more,
    }


async def test_mbpp_shows_its_tests_and_none_of_its_own_problems_as_a_demonstration(tmp_path: Path) -> None:
    records = [mbpp_record(2), mbpp_record(11, test_setup_code="n = 2"), mbpp_record(600)]
    task = TASKS["mbpp"](write(tmp_path, "mbpp/mbpp.jsonl", *records))
    assert [example.id for example in task.examples()] == ["11"]
    assert "assert twice(2) == 4" in task.examples()[0].question
    assert task.demonstrations()
    assert not any("twice" in demo.answer for demo in task.demonstrations())
    assert all("The program has to satisfy" in demo.question for demo in task.demonstrations())
    sandbox = some_sandbox()
    assert (await scored(task, task.examples()[0], "def twice(x):\n    return x + x", sandbox))["pass@1"].value == 1
    assert (await scored(task, task.examples()[0], "def twice(x):\n    return x", sandbox))["pass@1"].value == 0


@pytest.mark.parametrize(
    ("name", "file", "size", "step"),
    [
        ("humaneval", "humaneval/HumanEval.jsonl", 164, 16),
        ("humaneval_plus", "humaneval/HumanEvalPlus-OriginFmt.jsonl.gz", 164, 40),
        ("mbpp", "mbpp/mbpp.jsonl", 500, 50),
        ("mbpp_plus", "mbpp/MbppPlus-OriginFmt.jsonl", 378, 90),
        ("classeval", "classeval/ClassEval_data.jsonl", 100, 9),
    ],
)
async def test_reference_programs_pass_on_the_real_data(name: str, file: str, size: int, step: int) -> None:
    if "plus" in name:
        pytest.importorskip("numpy")
    task, sandbox = TASKS[name](need_data(*file.split("/")).parent.parent), some_sandbox()
    assert isinstance(task, CodeTask) and len(task.examples()) == size
    chosen = [
        problem
        for problem in list(task.problems.values())[::step]
        if not (name == "classeval" and (problem.example.id in UNSCORABLE or imported(problem.solution)))
    ]
    ran = await asyncio.gather(*(sandbox.execute(problem.program(problem.solution)) for problem in chosen))
    failed = {each.example.id: run.detail for each, run in zip(chosen, ran, strict=True) if not run.passed}
    assert (failed, len(chosen) >= 4) == ({}, True)


@pytest.mark.parametrize(
    ("name", "file", "identity", "wrong"),
    [
        (
            "humaneval_plus",
            "humaneval/HumanEvalPlus-OriginFmt.jsonl.gz",
            "HumanEval/32",
            "def find_zero(xs): return -100",
        ),
        ("mbpp", "mbpp/mbpp.jsonl", "367", "class Node:\n    pass\ndef is_tree_balanced(root): return False"),
    ],
)
async def test_problems_whose_tests_need_care_can_be_solved_and_failed(
    name: str, file: str, identity: str, wrong: str
) -> None:
    """HumanEval/32's test is wrong upstream; MBPP 367 builds its trees after the program."""
    task = TASKS[name](need_data(*file.split("/")).parent.parent)
    assert isinstance(task, CodeTask)
    problem, sandbox = task.problems[identity], some_sandbox()
    passed = await sandbox.execute(problem.program(problem.solution))
    assert passed.passed, passed.detail
    assert not (await sandbox.execute(problem.program(wrong))).passed


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
    scores = await scored(task, task.examples()[0], "print(1)", None)
    assert {score.value for score in scores.values()} == {None}, "there is no sandbox"


async def test_each_problem_has_its_own_limits(task: Task) -> None:
    assert (await judged(task, "while True: pass"))[2].startswith("case 1: timeout")
    assert (await judged(task, "x = bytearray(300 * 2**20)\nprint(9)"))[2].startswith("case 1: memory")


def test_a_question_states_the_limits_and_no_case(task: Task) -> None:
    first, second = task.examples()
    assert (first.metadata, second.metadata) == ({"level": "bronze"}, {})
    assert "1 seconds and 128 MiB" in first.question
    assert "4 seconds and 256 MiB" in second.question
    assert "abca" not in second.question
    assert task.solutions() == [PROBLEMS[0]["solution"]]
    assert task.demonstrations() == ()
    assert "no example calls" not in task.form.instruction, "a contest's program has to call what it defines"


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


SOLUTION = """class Till:
    def __init__(self):
        self.sums = []

    def add(self, amount):
        self.sums.append(amount)
        return math.fsum(self.sums)

    @staticmethod
    def zero():
        return 0
"""
ADD = """class TillTestAdd(unittest.TestCase):
    def test_add(self):
        till = Till()
        self.assertEqual(till.add(2), 2)
        till.sums.append(3)
        self.assertEqual(till.add(1), 6)
"""
ZERO = "class TillTestZero(unittest.TestCase):\n    def test_zero(self):\n        self.assertEqual(Till.zero(), 0)\n"
CLASS_RECORD = {
    "task_id": "C/0",
    "skeleton": "import math\n\nclass Till:\n    def __init__(self):\n        self.sums = []\n\n"
    "    def add(self, amount):\n"
    "        '''Add and give the sum.'''\n\n    @staticmethod\n    def zero():\n        '''Nothing.'''\n",
    "test": f"import unittest\n\n{ADD}\n\n{ZERO}",
    "solution_code": f"import math\n\n{SOLUTION}",
    "import_statement": ["import math"],
    "class_name": "Till",
    "methods_info": [
        {
            "method_name": "add",
            "method_description": 'def add(self, amount):\n        """The sum."""',
            "test_code": ADD,
        },
        {"method_name": "zero", "method_description": 'def zero():\n        """Zero."""', "test_code": ZERO},
        {"method_name": "gone", "method_description": "def gone(): pass", "test_code": ZERO},
        {"method_name": "__init__", "method_description": "def __init__(self): pass", "test_code": ""},
    ],
}


def load_class(root: Path, name: str, **more: object) -> CodeTask:
    (root / "classeval").mkdir(exist_ok=True)
    (root / "classeval" / "ClassEval_data.jsonl").write_text(json.dumps(CLASS_RECORD | more))
    task = TASKS[name](root)
    assert isinstance(task, CodeTask)
    return task


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("return 0", "return 0", 1.0),
        ("return 0", "return 1", 0.0),
        ("self.sums = []", "raise OSError", 0.0),
        ("class Till", "class Tally", 0.0),
    ],
)
async def test_a_class_is_scored_by_all_its_tests(old: str, new: str, value: float, tmp_path: Path) -> None:
    task = load_class(tmp_path, "classeval")
    (example,) = task.examples()
    assert "Add and give the sum" in example.question and "assertEqual" not in example.question
    scores = await scored(task, example, SOLUTION.replace(old, new), some_sandbox())
    assert {name: score.value for name, score in scores.items()} == {"pass@1": value}


@pytest.mark.parametrize(
    "text",
    [
        "def add(self, amount):\n    self.sums += [amount]\n    return sum(self.sums)",
        "    def add(self, amount):\n        self.sums += [amount]\n        return sum(self.sums)",
        (
            "import itertools\n\ndef add(self, amount):\n    self.sums += [amount]\n"
            "    return [*itertools.accumulate(self.sums)][-1]"
        ),
        f"```python\n{SOLUTION}```",
        f"```python\n{SOLUTION}\ntill = Till()\nprint(till.add(int(input())))\nprint(till.zero)```",
        "```python\n    def add(self, amount):\n        self.sums += [amount]\n        return sum(self.sums)\n```\n"
        "Use it:\n```python\ntill = Till()\nprint(till.add(2))\n```",
    ],
)
async def test_a_method_takes_its_place_in_the_class(text: str, tmp_path: Path) -> None:
    task = load_class(tmp_path, "classeval_method")
    assert [example.id for example in task.examples()] == ["C/0/add", "C/0/zero"]
    assert (await scored(task, task.examples()[0], text, some_sandbox()))["pass@1"].value == 1.0


async def test_a_decorated_method_takes_its_place(tmp_path: Path) -> None:
    task, sandbox = load_class(tmp_path, "classeval_method"), some_sandbox()
    zero = task.examples()[1]
    assert "Add and give the sum" in zero.question
    assert "self.sums = []" in zero.question, "the skeleton has the constructor"
    assert "math.fsum" not in zero.question
    assert "return 0" not in zero.question
    assert zero.question.count("import math") == 1
    assert task.form.name == "program"
    assert "method" in task.form.instruction
    assert "complete" not in task.form.instruction
    assert (await scored(task, zero, "@staticmethod\ndef zero():\n    return 0", sandbox))["pass@1"].value == 1.0
    assert (await scored(task, zero, "@staticmethod\ndef zero():\n    return 1", sandbox))["pass@1"].value == 0.0


async def test_what_cannot_be_judged_here_is_unscored(tmp_path: Path) -> None:
    sandbox = some_sandbox()
    absent = load_class(tmp_path, "classeval", import_statement=["import no_such_package"])
    score = (await scored(absent, absent.examples()[0], SOLUTION, sandbox))["pass@1"]
    assert score.value is None
    assert "no_such_package" in score.why
    hidden = load_class(tmp_path, "classeval", import_statement=["import pydantic"])
    score = (await scored(hidden, hidden.examples()[0], SOLUTION, sandbox))["pass@1"]
    assert score.value is None
    assert "let the sandbox see" in score.why
    unfit = load_class(tmp_path, "classeval", task_id="ClassEval_48")
    score = (await scored(unfit, unfit.examples()[0], SOLUTION, sandbox))["pass@1"]
    assert (score.value, score.why) == (None, UNSCORABLE["ClassEval_48"])
    unfit = load_class(tmp_path, "classeval_method", task_id="ClassEval_25")
    assert (await scored(unfit, unfit.examples()[0], SOLUTION, sandbox))["pass@1"].value == 1.0


async def test_a_method_that_cannot_be_judged_alone_is_unscored() -> None:
    root = need_data("classeval", "ClassEval_data.jsonl").parent.parent
    task = TASKS["classeval_method"](root)
    example = next(each for each in task.examples() if each.id == "ClassEval_25/load_cookies")
    score = (await scored(task, example, "def load_cookies(self):\n    return {}", some_sandbox()))["pass@1"]
    assert (score.value, score.why) == (None, UNSCORABLE[example.id])

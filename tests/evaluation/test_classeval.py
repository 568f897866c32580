"""ClassEval: whole classes and single methods, on a class of our own and on real ones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from reground.evaluation.tasks.code import TASKS, UNSCORABLE, CodeTask, absent_packages, imported
from tests.data import need_data
from tests.evaluation.programs import scored
from tests.sandbox.needed import some_sandbox

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
RECORD = {
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


def load(root: Path, name: str, **more: object) -> CodeTask:
    (root / "classeval").mkdir(exist_ok=True)
    (root / "classeval" / "ClassEval_data.jsonl").write_text(json.dumps(RECORD | more))
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
    task = load(tmp_path, "classeval")
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
    task = load(tmp_path, "classeval_method")
    assert [example.id for example in task.examples()] == ["C/0/add", "C/0/zero"]
    assert (await scored(task, task.examples()[0], text, some_sandbox()))["pass@1"].value == 1.0


async def test_a_decorated_method_takes_its_place(tmp_path: Path) -> None:
    task, sandbox = load(tmp_path, "classeval_method"), some_sandbox()
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
    absent = load(tmp_path, "classeval", import_statement=["import no_such_package"])
    score = (await scored(absent, absent.examples()[0], SOLUTION, sandbox))["pass@1"]
    assert score.value is None
    assert "no_such_package" in score.why
    hidden = load(tmp_path, "classeval", import_statement=["import pydantic"])
    score = (await scored(hidden, hidden.examples()[0], SOLUTION, sandbox))["pass@1"]
    assert score.value is None
    assert "let the sandbox see" in score.why
    unfit = load(tmp_path, "classeval", task_id="ClassEval_48")
    score = (await scored(unfit, unfit.examples()[0], SOLUTION, sandbox))["pass@1"]
    assert (score.value, score.why) == (None, UNSCORABLE["ClassEval_48"])
    unfit = load(tmp_path, "classeval_method", task_id="ClassEval_25")
    assert (await scored(unfit, unfit.examples()[0], SOLUTION, sandbox))["pass@1"].value == 1.0


async def test_a_method_that_cannot_be_judged_alone_is_unscored() -> None:
    root = need_data("classeval", "ClassEval_data.jsonl").parent.parent
    task = TASKS["classeval_method"](root)
    example = next(each for each in task.examples() if each.id == "ClassEval_25/load_cookies")
    score = (await scored(task, example, "def load_cookies(self):\n    return {}", some_sandbox()))["pass@1"]
    assert (score.value, score.why) == (None, UNSCORABLE[example.id])


async def test_reference_classes_pass_on_the_real_data() -> None:
    task = TASKS["classeval"](need_data("classeval", "ClassEval_data.jsonl").parent.parent)
    assert isinstance(task, CodeTask)
    assert len(task.examples()) == 100
    sandbox = some_sandbox()
    chosen = [
        problem
        for problem in list(task.problems.values())[::9]
        if problem.example.id not in UNSCORABLE and not absent_packages(imported(problem.solution + problem.tests))
    ]
    assert len(chosen) >= 6
    plain = [problem for problem in chosen if not imported(problem.solution)]
    found = await asyncio.gather(*(sandbox.execute(problem.program(problem.solution)) for problem in plain))
    failed = {p.example.id: e.detail for p, e in zip(plain, found, strict=True) if not e.passed}
    assert failed == {}


def test_the_methods_of_the_real_data_are_there_and_no_reference_is_shown() -> None:
    path = need_data("classeval", "ClassEval_data.jsonl")
    task = TASKS["classeval_method"](path.parent.parent)
    assert len(task.examples()) == 410
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        references = [
            line.strip()
            for info in record["methods_info"]
            for line in info["solution_code"].splitlines()[1:]
            if len(line.strip()) > 20 and line.strip() not in record["skeleton"]
        ]
        for info in record["methods_info"]:
            question = next(e.question for e in task.examples() if e.id == f"{record['task_id']}/{info['method_name']}")
            assert not [line for line in references if line in question]

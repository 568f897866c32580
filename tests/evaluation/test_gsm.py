"""GSM8K and GSM-Hard: by program within 1e-3, and written answers by math-verify."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import DataError
from reground.evaluation.metrics.numbers import as_number, same_number, within
from reground.evaluation.tasks.mathematics import PROGRAM_DEMONSTRATIONS, TASKS, WRITTEN_DEMONSTRATIONS
from tests.data import need_data
from tests.evaluation.programs import scored
from tests.sandbox.needed import some_sandbox


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        (-2.5, -2.5),
        ("1,234.5", 1234.5),
        ("$ 18", 18.0),
        ("-1e3", -1000.0),
        (True, None),
        (None, None),
        ([3], None),
        ("18 dollars", None),
        ("inf", None),
        ("nan", None),
        (float("inf"), None),
        (float("nan"), None),
        (10**400, None),
        ("", None),
    ],
)
def test_what_counts_as_a_number(value: object, number: float | None) -> None:
    assert as_number(value) == number  # type: ignore[arg-type]


@given(st.floats(-1e6, 1e6), st.floats(-1, 1))
def test_within_is_the_absolute_difference(target: float, offset: float) -> None:
    assert within(target + offset, target) == (abs(target + offset - target) < 1e-3)


@pytest.mark.parametrize(
    ("written", "target", "same"),
    [
        ("18", 18.0, True),
        ("18.0004", 18.0, True),
        ("18.002", 18.0, False),
        ("-9,867,630", -9867630.0, True),
        ("$\\frac{1}{2}$", 0.5, True),
        ("$\\frac{1}{3}$", 0.5, False),
        ("1/2", 0.5, True),
        ("no idea", 5.0, False),
        ("", 5.0, False),
        ("9" * 500 + "!", 5.0, False),
    ],
)
def test_a_written_number_is_compared_by_value(written: str, target: float, same: bool) -> None:
    pytest.importorskip("math_verify")
    assert same_number(written, target) is same


def write(root: Path) -> Path:
    (root / "gsm8k").mkdir()
    (root / "gsm_hard").mkdir()
    eight = {"id": "g-0", "question": "What is 2 and 3?", "answer": "2 + 3 = <<2+3=5>>5\n#### 5", "final": "5"}
    hard = {"input": "What is 2 less 9?", "code": "def solution():\n    return 2 - 9\n", "target": -7.0}
    (root / "gsm8k" / "test.jsonl").write_text(json.dumps(eight))
    (root / "gsm_hard" / "gsmhardv2.jsonl").write_text(json.dumps(hard))
    return root


@pytest.mark.parametrize(
    ("body", "value", "why"),
    [
        ("return 5", 1.0, "expected 5, got 5"),
        ("return 5.0004", 1.0, "expected 5"),
        ("return '5'", 1.0, "expected 5"),
        ("return 5.002", 0.0, "expected 5, got 5.002"),
        ("return True", 0.0, "expected 5, got True"),
        ("return float('inf')", 0.0, "expected 5, got 'inf'"),
        ("print(5)", 0.0, "expected 5, got None"),
        ("return 5 / 0", 0.0, "exception: ZeroDivisionError"),
        ("return (", 0.0, "syntax"),
    ],
)
async def test_a_program_is_scored_by_its_result(body: str, value: float, why: str, tmp_path: Path) -> None:
    task = TASKS["gsm8k"](write(tmp_path))
    text = f"Let me think.\n```python\ndef solution():\n    {body}\n```"
    score = (await scored(task, task.examples()[0], text, some_sandbox()))["accuracy"]
    assert score.value == value
    assert score.why.startswith(why)


async def test_negative_targets_and_written_answers(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    root = write(tmp_path)
    hard = TASKS["gsm_hard"](root)
    program = "```python\ndef solution():\n    return 2 - 9\n```"
    assert (await scored(hard, hard.examples()[0], program, some_sandbox()))["accuracy"].value == 1.0
    written = TASKS["gsm_hard_cot"](root)
    example = written.examples()[0]
    for text, value in (("2 - 9 is less.\nAnswer: -7", 1.0), ("Answer: 7", 0.0), ("Answer: $-7.00", 1.0), ("", 0.0)):
        assert (await scored(written, example, text, None))["accuracy"].value == value


async def test_without_a_sandbox_programs_are_unscored(tmp_path: Path) -> None:
    task = TASKS["gsm8k"](write(tmp_path))
    assert (await scored(task, task.examples()[0], "x", None))["accuracy"].value is None


def test_an_answer_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = write(tmp_path) / "gsm_hard" / "gsmhardv2.jsonl"
    path.write_text(path.read_text() + "\n" + json.dumps({"input": "x", "code": "y", "target": "many"}))
    with pytest.raises(DataError, match=r"gsmhardv2.jsonl:2: the answer 'many' is not a number"):
        TASKS["gsm_hard"](tmp_path)


async def test_the_demonstrations_are_right() -> None:
    sandbox = some_sandbox()
    from reground.core.programs import Program

    for program, written in zip(PROGRAM_DEMONSTRATIONS, WRITTEN_DEMONSTRATIONS, strict=True):
        source = program.answer.removeprefix("```python\n").removesuffix("```")
        found = await sandbox.execute(Program(source=source, returns="solution()"))
        assert within(found.value, float(written.answer)), program


@pytest.mark.parametrize(("name", "file"), [("gsm8k", "test.jsonl"), ("gsm_hard", "gsmhardv2.jsonl")])
def test_the_real_data_load(name: str, file: str) -> None:
    root = need_data(name, file).parent.parent
    for variant in (name, f"{name}_cot"):
        task = TASKS[variant](root)
        assert task.name == variant
        assert len(task.examples()) == len(task.solutions()) == 1319
        assert task.primary == "accuracy"
        assert task.demonstrations()


async def test_reference_programs_of_gsm_hard_reach_their_targets() -> None:
    path = need_data("gsm_hard", "gsmhardv2.jsonl")
    task, sandbox = TASKS["gsm_hard"](path.parent.parent), some_sandbox()
    codes = [json.loads(line)["code"] for line in path.read_text().splitlines()]
    chosen = range(0, 1319, 130)
    values = [
        (await scored(task, task.examples()[i], f"```python\n{codes[i]}\n```{tail}", sandbox))["accuracy"].value
        for i in chosen
        for tail in ("", "\nTo get the answer, run:\n```python\nprint(solution())\n```\n```text\n5\n```")
    ]
    assert values == [1.0] * len(values)

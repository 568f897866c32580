"""GSM8K, GSM-Hard and TheoremQA: numbers by program and in writing, and typed answers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.evaluation.metrics.numbers import as_number, read_quantities, read_quantity, same_number
from reground.evaluation.task import Task, hidden_documents
from reground.evaluation.tasks.mathematics import TASKS, extract_typed, same_answer
from tests.data import need_data
from tests.evaluation.trajectories import answered, scored, write_jsonl
from tests.sandbox.needed import some_sandbox


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0), ("1,234.5", 1234.5), ("$ 18", 18.0), ("-1e3", -1000.0), (True, None), (None, None),
        ("18 dollars", None), ("inf", None), (float("inf"), None), (10**400, None), ("", None),
    ],
)  # fmt: skip
def test_what_counts_as_a_number(value: object, number: float | None) -> None:
    assert as_number(value) == number  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "target", "same"),
    [
        ("18", 18.0, True), ("18.0004", 18.0, True), ("18.002", 18.0, False), ("-9,867,630", -9867630.0, True),
        ("$\\frac{1}{2}$", 0.5, True), ("$\\frac{1}{3}$", 0.5, False), ("18 dollars", 18.0, True),
        ("no idea", 5.0, False), ("", 5.0, False), ("9" * 500 + "!", 5.0, False),
    ],
)  # fmt: skip
def test_a_written_number_is_compared_by_value(written: str, target: float, same: bool) -> None:
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
        ("return '5'", 1.0, "expected 5"),
        ("return 5.002", 0.0, "expected 5, got 5.002"),
        ("return True", 0.0, "expected 5, got True"),
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
    root = write(tmp_path)
    hard = TASKS["gsm_hard"](root)
    program = "```python\ndef solution():\n    return 2 - 9\n```"
    assert (await scored(hard, hard.examples()[0], program, some_sandbox()))["accuracy"].value == 1.0
    written = TASKS["gsm_hard_cot"](root)
    example = written.examples()[0]
    assert (await scored(hard, hard.examples()[0], program, None))["accuracy"].value is None, "there is no sandbox"
    for text, value in (("2 - 9 is less.\nAnswer: -7", 1.0), ("Answer: 7", 0.0), ("Answer: $-7.00", 1.0), ("", 0.0)):
        assert (await scored(written, example, text, None))["accuracy"].value == value


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


def item(id: str, answer: object, kind: str, picture: bool = False) -> dict[str, object]:
    return {"id": id, "question": f"What is {id}?", "answer": answer, "answer_type": kind, "has_picture": picture}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/3", 1 / 3), ("2\\pi", 2 * math.pi), ("3.5 x 10^{-5} m", 3.5e-5), ("1.2×10⁻⁵", 1.2e-5),
        ("$-6 \\times 10^{25}$ kg", -6e25), ("\\frac{\\sqrt{2}}{2}", math.sqrt(2) / 2), ("$\\frac12$", 0.5),
        ("\\dfrac{16}{3}\\ \\text{cm}^2", 16 / 3), ("1,234,567.5", 1234567.5), ("approximately 0.33", 0.33),
        ("1/3 ≈ 0.333...", 0.333), ("25 \\text{ m/s}^2", 25), ("3 per m^-2", 3), ("10\\%", 0.1), ("\\boxed{42}", 42),
        ("5!", 120), ("-2^2", -4), ("2^{-1}", 0.5), ("\\ln 2", math.log(2)), ("2\\sqrt 3", 2 * math.sqrt(3)),
        ("3(4 + 1)", 15), ("\\left(\\frac{3}{4}\\right)^2", 9 / 16), ("45°", 45), ("−3", -3), ("5 / hour", 5),
        ("between 3 and 5", None), ("3 1/2", None), ("1.2.3", None), ("9^9^9^9", None), ("(-1)^0.5", None),
        ("1/0", None), ("1e999", None), ("2.5!", None), ("", None), ("1" * 301, None), ("((" * 140, None),
    ],
)  # fmt: skip
def test_quantities(text: str, value: float | None) -> None:
    found = read_quantity(text)
    assert found is None if value is None else found == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[1, 2]", [1, 2]),
        ("(1, 2)", [1, 2]),
        ("$\\{1; 2\\}$", [1, 2]),
        ("x = 1 and y = 2", [1, 2]),
        ("x = [1, 2]", [1, 2]),
        ("\\begin{pmatrix} 1 \\\\ -2 \\end{pmatrix}", [1, -2]),
        ("[[1, 0], [0, 1]]", [1, 0, 0, 1]),
        ("(1/2, (1+2)/3)", [0.5, 1]),
        ("[1, a]", None),
        ("[]", None),
        ("1," * 2000, None),
    ],
)
def test_lists_of_quantities(text: str, values: list[float] | None) -> None:
    found = read_quantities(text)
    assert found is None if values is None else found == pytest.approx(values)


NUMBERS = st.one_of(st.integers(1, 999).map(str), st.floats(0.01, 99).map(lambda x: f"{x:.3f}"))
LATEX = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda ab: rf"\frac{{{ab[0]}}}{{{ab[1]}}}"),
        st.tuples(inner, inner).map(lambda ab: rf"({ab[0]} + {ab[1]})"),
        st.tuples(inner, inner).map(lambda ab: rf"{ab[0]} \cdot {ab[1]}"),
        inner.map(lambda a: rf"\sqrt{{{a}}}"),
        inner.map(lambda a: rf"\left({a}\right)^{{2}}"),
        inner.map(lambda a: rf"{a} \pi"),
    ),
    max_leaves=4,
).flatmap(lambda positive: st.sampled_from([positive, f"-{positive}", f"3 - {positive}"]))


@settings(max_examples=60)
@given(LATEX)
def test_latex_is_read_as_math_verify_reads_it(latex: str) -> None:
    math_verify = pytest.importorskip("math_verify")
    parsed = math_verify.parse(f"${latex}$", parsing_timeout=None)
    if not parsed or isinstance(parsed[0], str):
        return
    theirs = complex(parsed[0].evalf())
    ours = read_quantity(latex)
    if abs(theirs.imag) > 1e-9:
        assert ours is None
    else:
        assert ours == pytest.approx(theirs.real, rel=1e-6)


@given(st.text(st.sampled_from("0123456789.+-*/^!()[]{}\\frac sqrt pi e=%,x "), max_size=60))
def test_any_text_is_a_finite_number_or_none(text: str) -> None:
    found = read_quantity(text)
    assert found is None or math.isfinite(found)
    for value in read_quantities(text) or []:
        assert math.isfinite(value)


@pytest.mark.parametrize(
    ("phrase", "gold", "kind", "right"),
    [
        ("104", 100.0, "float", True),
        ("104.1", 100.0, "float", False),
        ("0", 0.0, "float", True),
        ("0.01", 0.0, "float", False),
        ("16.3", 16, "integer", True),
        ("16.6", 16, "integer", False),
        ("no idea", 16, "integer", None),
        ("[2, 1]", [1, 2], "list of integer", True),
        ("[1, 2, 2]", [1, 2], "list of integer", False),
        ("0.25 and 1/3", [0.333, 0.25], "list of float", True),
        ("True.", True, "bool", True),
        ("No, it is not", False, "bool", True),
        ("maybe", True, "bool", None),
        ("(b)", "(b)", "option", True),
        ("Option (c)", "(b)", "option", False),
        ("both", "(b)", "option", None),
    ],
)
def test_answers_are_compared_by_type(phrase: str, gold: object, kind: str, right: bool | None) -> None:
    assert same_answer(phrase, gold, kind) is right  # type: ignore[arg-type]


def test_a_list_is_not_taken_for_a_citation() -> None:
    assert extract_typed("By [1], so:\nAnswer: [3]") == "[3]"
    assert extract_typed("**Answer:** `16`.") == "16"
    assert extract_typed("Therefore the answer is 5.") == "5"


async def test_questions_with_pictures_are_left_out_and_counted(tmp_path: Path) -> None:
    records = [item("a", 1.5, "float"), item("b", 2, "integer", picture=True), item("c", True, "bool")]
    write_jsonl(tmp_path / "theoremqa" / "test.jsonl", records)
    task = TASKS["theoremqa"](tmp_path)
    assert isinstance(task, Task)
    assert [example.id for example in task.examples()] == ["a", "c"]
    assert task.examples()[1].question == "What is c?\nThe answer is True or False."
    assert task.solutions() == ["What is a?", "What is c?"]
    assert len(TASKS["theoremqa_pictures"](tmp_path).examples()) == 3
    right = await task.score(task.examples()[0], answered("So 3/2.\nAnswer: 3/2"), None)
    assert right["accuracy"].value == 1.0
    unread = await task.score(task.examples()[0], answered("Answer: not known"), None)
    assert (unread["accuracy"].value, unread["accuracy"].why) == (0.0, "no float can be read from the answer")
    assert (await task.score(task.examples()[0], answered(None), None))["accuracy"].value is None


def test_the_mathematical_questions_and_a_corpus_beside_them(tmp_path: Path) -> None:
    fields = {"a": "Math", "b": "Physics", "c": "Math"}
    lines = [{**item(name, 1, "integer", picture=name == "c"), "field": field} for name, field in fields.items()]
    (tmp_path / "theoremqa").mkdir()
    write_jsonl(tmp_path / "theoremqa" / "test.jsonl", lines)
    task = TASKS["theoremqa_math"](tmp_path)
    assert (task.name, [each.id for each in task.examples()]) == ("theoremqa_math", ["a"])
    assert getattr(task, "corpus", None) is None
    write_jsonl(tmp_path / "theoremqa" / "corpus.jsonl", [{"id": "a", "text": "the same problem"}])
    task = TASKS["theoremqa_math"](tmp_path)
    assert getattr(task, "corpus", None) == tmp_path / "theoremqa" / "corpus.jsonl"
    assert hidden_documents(task, task.examples()[0]) == {"a"}

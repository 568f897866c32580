"""Worked examples for few-shot prompts: one fence, right programs, and nothing that a benchmark asks."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reground.core.answers import PAL, PROGRAM, AnswerForm, Demonstration
from reground.core.programs import Program
from reground.evaluation.data import demonstrations, worked
from reground.evaluation.tasks import load_task
from reground.evaluation.tasks.code import FROM_DOCSTRING, FROM_TESTS
from reground.evaluation.tasks.mathematics import PROGRAM_DEMONSTRATIONS
from reground.methods.shared.prompts import general, shown
from tests.data import need_data
from tests.sandbox.needed import some_sandbox

PROGRAMS = [
    *((each, PROGRAM) for each in (*FROM_DOCSTRING, *FROM_TESTS, *general(PROGRAM))),
    *((each, PAL) for each in (*PROGRAM_DEMONSTRATIONS, *general(PAL))),
]


@pytest.mark.parametrize(("example", "form"), PROGRAMS)
def test_a_program_is_shown_in_one_fence_and_read_back_whole(example: Demonstration, form: AnswerForm) -> None:
    said = shown(example, form)
    assert said.count("```") == 2
    assert form.extract(said) == example.answer.strip()


@pytest.mark.parametrize("solved", worked("program"), ids=lambda solved: solved["signature"])
async def test_a_worked_program_satisfies_its_tests(solved: dict[str, Any]) -> None:
    source, name = f"def {solved['signature']}:\n{solved['body']}", solved["signature"].partition("(")[0]
    program = Program(source=source, tests="\n".join(solved["tests"]), exports=(name,))
    ran = await some_sandbox().execute(program)
    assert ran.passed, ran.detail


def words(text: str) -> frozenset[str]:
    common = "write function python program that find returns given from with does docstring says this have answer"
    return frozenset(re.findall(r"\w{4,}", text.casefold())) - set(common.split())


@pytest.mark.parametrize(
    ("examples", "names"),
    [
        ([each["asked"] for each in worked("program")], ("humaneval", "mbpp", "mbpp_plus")),
        ([each.question for each in general(PROGRAM)], ("humaneval", "mbpp", "mbpp_plus")),
        ([each.question.split("\n")[0] for each in demonstrations("theorem")], ("theoremqa",)),
    ],
)
def test_no_worked_problem_is_close_to_one_of_a_benchmark(examples: list[str], names: tuple[str, ...]) -> None:
    root = need_data(names[0]).parent
    for name in names:
        for problem in load_task(name, root).examples():
            theirs = words(problem.question)
            for ours in map(words, examples):
                assert len(theirs & ours) <= 0.6 * len(ours), problem.question

"""Worked examples for few-shot prompts: one fence, right programs, and nothing that a benchmark asks."""

from __future__ import annotations

from typing import Any

import pytest

from reground.core.answers import PAL, PROGRAM, AnswerForm, Demonstration
from reground.core.programs import Program
from reground.evaluation.data import worked
from reground.evaluation.tasks.code import FROM_DOCSTRING, FROM_TESTS
from reground.evaluation.tasks.mathematics import PROGRAM_DEMONSTRATIONS
from reground.methods.shared.prompts import general, shown
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

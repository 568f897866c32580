"""What CR-Planner reads in a reply."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import CHOICE, FORMS, NUMBER, PAL, PHRASE, PLAN, PROGRAM, TEXT, AnswerForm
from reground.methods._cr_planner.parsing import complete_answer, key, read_step

CODE = "Here it is:\n```python\ndef f(x):\n    return x\n```\nDone."


@pytest.mark.parametrize(
    ("reply", "step"),
    [
        ("The Seine has 775 km.", "The Seine has 775 km."),
        ("Step 3: The Seine has 775 km. [END]", "The Seine has 775 km."),
        ("**Next step:** Look [END] and more", "Look"),
        ("Step 1: One.\n\nStep 2: Two.\nStep 3: Three.", "One."),
        ("One.\nStep 2: Two.", "One."),
        ('One.\n<passage number="1">\nmade up\n</passage>', "One."),
        ("One.\nSearch query: more", "One."),
        ("Two parts.\n\nBoth of one step.", "Two parts.\n\nBoth of one step."),
        ("steps are needed", "steps are needed"),
        ("[END]", ""),
        (" \n", ""),
        ("...", ""),
        ("Step 2:", ""),
    ],
)
def test_one_step_is_read_without_its_label_and_without_what_was_run_ahead(reply: str, step: str) -> None:
    assert read_step(reply, PHRASE) == step


def test_lines_of_a_plan_behind_the_answer_and_lines_of_code_are_no_further_steps() -> None:
    plan = "That is all.\nAnswer:\nSTEP 1: mine log\nSTEP 2: craft planks"
    assert read_step(plan, PLAN) == plan
    code = "```python\n# code\nstep 2: x\n```"
    assert read_step(code, PROGRAM) == code


@pytest.mark.parametrize(
    ("form", "step", "answer"),
    [
        (PHRASE, "It is 2850 km.\nAnswer: the Danube", "It is 2850 km.\nAnswer: the Danube"),
        (PHRASE, "It is 2850 km. Answer: the Danube", "It is 2850 km. Answer: the Danube"),
        (PHRASE, "It is 2850 km.", ""),
        (PHRASE, "Answer:", ""),
        (PHRASE, "Answer: ...", ""),
        (PHRASE, "**Final answer:** Danube", "**Final answer:** Danube"),
        (NUMBER, "Answer: 1,200", "Answer: 1,200"),
        (NUMBER, "Answer: many", ""),
        (NUMBER, "The sum is 7.", ""),
        (CHOICE, "Answer: B", "Answer: B"),
        (CHOICE, "Answer: unclear", ""),
        (TEXT, "All is known.\nAnswer: Two\n\nparagraphs.", "Two\n\nparagraphs."),
        (TEXT, "All is known. The answer: two words inside a line", ""),
        (PLAN, "Answer:\nSTEP 1: mine log", "STEP 1: mine log"),
        (PROGRAM, CODE, CODE),
        (PROGRAM, CODE.replace("\n```\nDone.", ""), ""),
        (PROGRAM, "```python\nfor each x: do it\n```", ""),
        (PROGRAM, "```\n'a note'\n```", ""),
        (PROGRAM, "```\nprint(1)\n```", "```\nprint(1)\n```"),
        (PROGRAM, "```text\nprint(1)\n```", ""),
        (PROGRAM, "```python\n\x00\n```", ""),
        (PROGRAM, "Answer: print(1)", ""),
        (PAL, CODE, ""),
        (PAL, CODE.replace("f(x)", "solution()"), CODE.replace("f(x)", "solution()")),
    ],
)
def test_a_complete_answer_is_one_that_the_form_can_read(form: AnswerForm, step: str, answer: str) -> None:
    assert complete_answer(step, form) == answer


replies = st.text(max_size=60) | st.lists(
    st.sampled_from(
        [
            "Step 1: a",
            "STEP 2:",
            "Answer:",
            "Answer: x 3 B",
            "```python",
            "```",
            "x = 1",
            "[END]",
            "<passage",
            "\n",
            "**",
        ]
    ),
    max_size=8,
).map("\n".join)


@given(replies, st.sampled_from(list(FORMS.values())))
def test_any_reply_is_read_without_an_error_and_reading_again_changes_no_meaning(reply: str, form: AnswerForm) -> None:
    step = read_step(reply, form)
    assert step == step.strip()
    assert step in reply
    answer = complete_answer(step, form)
    assert answer in step
    if answer:
        assert form.extract(answer)
    assert key(step) == key(key(step))


def test_a_deeply_nested_program_is_no_crash() -> None:
    assert complete_answer("```python\n" + "(" * 5000 + "\n```", PROGRAM) == ""
    assert complete_answer("```python\nx = " + "-" * 20000 + "1\n```", PROGRAM) in {
        "",
        "```python\nx = " + "-" * 20000 + "1\n```",
    }

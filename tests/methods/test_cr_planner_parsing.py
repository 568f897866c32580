"""What CR-Planner reads in a reply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import CHOICE, FORMS, NUMBER, PAL, PHRASE, PLAN, PROGRAM, TEXT, AnswerForm
from reground.methods.cr_planner import QUERY, complete_answer, read_step
from reground.methods.shared.steps import alike

CODE = "Here it is:\n```python\ndef f(x):\n    return x\n```\nDone."
PAL_CODE = CODE.replace("f(x)", "solution()").replace("return x", "return 2")


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
        ("[END]", ""),
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
        (PHRASE, "It is 2850 km.", ""),
        (PHRASE, "Answer: ...", ""),
        (PHRASE, "**Final answer:** Danube", "**Final answer:** Danube"),
        (NUMBER, "Answer: 1,200", "Answer: 1,200"),
        (NUMBER, "Answer: many", ""),
        (CHOICE, "Answer: B", "Answer: B"),
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
        (PAL, PAL_CODE, PAL_CODE),
        (PAL, PAL_CODE.replace("\n", "\r\n"), PAL_CODE.replace("\n", "\r\n")),
    ],
)
def test_a_complete_answer_is_one_that_the_form_can_read(form: AnswerForm, step: str, answer: str) -> None:
    assert complete_answer(step, form) == answer


ENDS = [
    (PHRASE, "Answer: the Danube"),
    (PHRASE, "It is 2850 km long. Answer: the Danube"),
    (PHRASE, "It is 2850 km long [1]. So the final answer is: the Danube."),
    (PHRASE, "Both are known.\nThus, the answer: the Danube"),
    (PHRASE, "To find the answer: compare the lengths.\nAnswer: the Danube"),
    (PHRASE, "**The answer is:** the Danube"),
    (PHRASE, "Answer: the Danube\n\nIt is longer by 2075 km."),
    (PHRASE, "Answer: none"),
    (PHRASE, "Answer: To Kill a Mockingbird"),
    (PHRASE, "Answer: We Need to Talk About Kevin"),
    (PHRASE, "Answer: First Blood"),
    (PHRASE, "Answer: The Unknown Soldier"),
    (NUMBER, "2 + 3 = 5. The answer is: 5"),
    (CHOICE, "Answer: A"),
    (CHOICE, "Answer: A and C"),
    (CHOICE, "Answer: (B) the left lung"),
    (TEXT, "All is known.\nAnswer: To bake bread, mix flour and water first."),
    (TEXT, "Answer: Is it dangerous? Yes."),
    (PLAN, "Answer:\nSTEP 1: mine log"),
    (PROGRAM, "```python\nimport sys\nprint(sum(map(int, sys.stdin.read().split())))\n```"),
    (PROGRAM, "```python\nfrom math import *\nprint(floor(sqrt(int(input()))))\n```"),
    (PROGRAM, "```python\ndef f(xs: List[int]) -> int:\n    return max((x for x in xs), default=0)\n```"),
    (
        PROGRAM,
        "```python\nclass Deep(Exception):\n    pass\n\ndef f(x):\n    if x:\n        raise Deep\n    return x\n```",
    ),
    (PAL, "```python\ndef solution():\n    # five\n    return 2 + 3\n```"),
    (QUERY, "Answer: why do moths fly to light?"),
    (QUERY, "Answer: identify bird by song"),
]
GOES_ON = [
    (PHRASE, "To find the answer: first identify both rivers."),
    (PHRASE, "What is still missing for the final answer: the length of the Danube."),
    (PHRASE, "We look for this answer: which river is longer."),
    (PHRASE, "Answer: To find out, first look up both lengths."),
    (PHRASE, "Answer: First, identify the rivers."),
    (PHRASE, "Answer: We need to look up the Danube."),
    (PHRASE, "Answer: Let us compare the lengths."),
    (PHRASE, "Answer: Look up the length of the Danube."),
    (PHRASE, "Answer: unknown"),
    (PHRASE, "Answer: It is unclear from the passages"),
    (PHRASE, "Answer: I don't know."),
    (PHRASE, "Answer: cannot be determined"),
    (PHRASE, "Answer: TBD"),
    (PHRASE, "Answer: [the river]"),
    (PHRASE, "Answer: the Seine or the Danube?"),
    (PHRASE, "The answer is not clear yet."),
    (NUMBER, "To find the answer: multiply 3 by 4."),
    (NUMBER, "Answer: calculate 2 + 3"),
    (CHOICE, "To find the answer: compare A with B."),
    (CHOICE, "Answer: A comparison is needed."),
    (CHOICE, "Answer: A or B?"),
    (TEXT, "Answer: We need to look up both rivers first."),
    (PLAN, "Answer: first look up how planks are made."),
    (PROGRAM, "First sort them:\n```python\nnums.sort()\n```"),
    (PROGRAM, "The idea:\n```python\nleft, right = 0, len(s)\nwhile left < right:\n    left += 1\n```"),
    (PROGRAM, '```python\ndef solve(s):\n    """To do."""\n```'),
    (PROGRAM, "```python\ndef solve(s): ...\n```"),
    (PROGRAM, "```python\nimport sys\n```"),
    (PAL, "```python\ndef solution():\n    return total / count\n```"),
    (QUERY, "Answer: we need to look up moths first"),
    (QUERY, "To find the answer: search for moths"),
]


@pytest.mark.parametrize(("form", "step"), ENDS)
def test_these_end_the_planning(form: AnswerForm, step: str) -> None:
    assert complete_answer(step, form)


@pytest.mark.parametrize(("form", "step"), GOES_ON)
def test_these_do_not_end_it(form: AnswerForm, step: str) -> None:
    assert complete_answer(step, form) == ""


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        ("To find the answer: compare.\nAnswer: the Danube", "the Danube"),
        ("So the final answer is: the Danube.", "the Danube"),
        ("Answer: the Seine\nNo, it is shorter. The answer: the Danube", "the Danube"),
    ],
)
def test_what_ends_it_is_what_is_read_as_the_answer(step: str, answer: str) -> None:
    assert PHRASE.extract(complete_answer(step, PHRASE)) == answer


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
    assert alike(step) == alike(alike(step))

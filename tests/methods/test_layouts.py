"""The steps of sixty real drafts are those that a person sees.

layouts.jsonl has a draft a line, cut by hand into parts; the parts of a draft, put together, are the draft. A part is a
"step", "more" of the step before it, the "answer" where one stands apart from the steps, or "frame": what a chat model
writes around the steps, such as an introduction, a rule, or a remark to the reader. For a program this is all that
stands outside its code block.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from reground.core.answers import FORMS, AnswerForm
from reground.methods.shared.steps import split_draft, split_steps

FENCE = re.compile(r"^[ \t]*(?:```|~~~)\S*[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Layout:
    """A draft with the parts that a person sees in it."""

    form: AnswerForm
    parts: list[tuple[str, str]]

    @property
    def draft(self) -> str:
        return "".join(text for _, text in self.parts)

    @property
    def steps(self) -> list[str]:
        steps: list[str] = []
        for kind, text in self.parts:
            if kind == "step":
                steps.append(text)
            elif kind == "more":
                steps[-1] += text
        return list(map(words, steps))

    @property
    def lead(self) -> str:
        """An introduction that states something: no step of its own, but it may stand above the first one."""
        return next((words(text) for kind, text in self.parts if kind == "lead"), "")

    @property
    def answer(self) -> str | None:
        return next((words(text) for kind, text in self.parts if kind == "answer"), None)


def words(text: str) -> str:
    """The text without the lines of code fences, and without white space that says nothing."""
    return " ".join(FENCE.sub("", text).split())


def layouts() -> list[object]:
    lines = Path(__file__).with_name("layouts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [pytest.param(Layout(FORMS[row["form"]], row["parts"]), id=row["id"]) for row in rows]


@pytest.mark.parametrize("layout", layouts())
def test_the_steps_of_a_draft_are_those_that_a_person_sees(layout):
    if layout.answer is None:
        steps = split_steps(layout.draft, layout.form)
    else:
        steps, raw = split_draft(layout.draft, layout.form, most=1000)
        assert words(raw) == layout.answer
    first, *rest = map(words, steps)
    assert [first.removeprefix(layout.lead).strip(), *rest] == layout.steps

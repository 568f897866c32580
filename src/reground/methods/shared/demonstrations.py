"""Worked examples for few-shot prompts, from the file demonstrations.toml of a package."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from reground.core.answers import AnswerForm, Demonstration
from reground.core.citations import without_unknown
from reground.methods.shared.prompts import CITING


@cache
def worked(package: str) -> dict[str, tuple[Demonstration, ...]]:
    """The package's examples by name. The file is read where they are first needed."""
    tables = tomllib.loads(files(package).joinpath("demonstrations.toml").read_text(encoding="utf-8"))
    return {name: tuple(map(Demonstration.model_validate, each)) for name, each in tables.items()}


def general(form: AnswerForm, *, cited: bool = False) -> tuple[Demonstration, ...]:
    """Examples whose answers have the form, where a task brings none.

    A form without examples of its own is shown phrases, or prose if its thoughts are the answer. cited: whether the
    answers have markers, as where passages are read and the form asks for them.
    """
    known = worked("reground.methods.shared")
    examples = known.get(form.name, known["phrase" if form.final_pass else "text"])
    if cited or form.name not in CITING:
        return examples
    return tuple(each.model_copy(update={"answer": without_unknown(each.answer, ())[0]}) for each in examples)

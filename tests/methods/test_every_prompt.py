"""Every prompt of every method in every form: as files to be read and compared, and free of gaps."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from reground.core.answers import FORMS
from reground.core.language import Message
from tests.methods import every

FOLDER = Path(__file__).parent / "prompts"
REWRITE = "REGROUND_REWRITE_PROMPTS"
HOW = f"see it with git diff after: {REWRITE}=1 pytest {Path(__file__).relative_to(Path(__file__).parents[2])}"
PYTHON = {"search_agent"}
"""Methods whose prompts are Python code, with its own blanks and empty lines."""


async def rendered(name: str) -> str:
    """All prompts of a method; a call that asks the same in several forms stands there once."""
    calls: dict[tuple[str, str], dict[tuple[Message, ...], list[str]]] = {}
    refused = []
    for form in FORMS.values():
        method = every.build(name, form)
        if method is None:
            refused.append(form.name)
            continue
        for span, call, messages in await every.asked(method):
            calls.setdefault((span, call), {}).setdefault(messages, []).append(form.name)
    parts = [f"Every call of {name}: its span and name, the forms in which it asks this, and what it asks."]
    if refused:
        parts.append(f"Refused: {', '.join(refused)}.")
    for (span, call), asked in calls.items():
        for messages, forms in asked.items():
            shown = "\n".join(f"[{message.role}]\n{message.content}" for message in messages)
            parts.append(f"======== {span or '/'} {call}: {', '.join(forms)}\n{shown}")
    return "\n\n".join(parts) + "\n"


@pytest.mark.parametrize("name", every.names())
async def test_prompts_are_those_that_were_read(name):
    file = FOLDER / f"{name}.txt"
    prompts = await rendered(name)
    if os.environ.get(REWRITE):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(prompts, encoding="utf-8")
        pytest.skip(f"{file.name} is written again")
    assert file.exists(), HOW
    assert prompts == file.read_text(encoding="utf-8"), HOW


def test_no_file_is_left_of_a_method_that_is_gone():
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(every.names())


FAULTS = {
    "an empty value that no label announces": r"(?<!:\n)(?<!: )\(none\)",
    "an unfilled place": r"\{[a-z_]*\}",
    "two empty lines in a row": r"\n\n\n",
    "blanks that double": r"\S {2,}\S",
    "a blank at a line's end": r" (?:\n|\Z)",
    "a label with nothing behind it": r":\n\s*\n",
    "a stray blank or stop": r"\w [.,;:](?:\s|\Z)|\.\.(?!\.)(?<!\.\.\.)",
    "a sentence said twice": r"(?s)(?<=[.\n] )([A-Z][^.\n]{30,}\.) .*\1",
}
ONLY_PROSE = {"two empty lines in a row", "blanks that double"}


def faults(name: str, text: str) -> list[str]:
    return [
        what for what, sign in FAULTS.items() if not (name in PYTHON and what in ONLY_PROSE) and re.search(sign, text)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Write it. (none) Go.",
        "Say {form}.",
        "a\n\n\nb",
        "Go.  On.",
        "Go. \nOn.",
        "Text:\n\nTask: go.",
        "Go . On.",
        "Go.. On.",
    ],
)
def test_faults_are_seen(text):
    assert faults("rar", text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", every.names())
async def test_no_prompt_has_a_gap_a_stray_blank_or_a_sentence_of_another_form(name, form):
    method = every.build(name, FORMS[form])
    if method is None:
        pytest.skip(f"{name} refuses the form {form}")
    asked = await every.asked(method)
    assert asked
    for _, call, messages in asked:
        for message in messages:
            assert not faults(name, message.content), f"{call}: {message.content}"
            if form in {"number", "program", "pal", "plan"} and message.role == "user":
                assert "in square brackets" not in message.content, call

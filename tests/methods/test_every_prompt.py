"""Every prompt of every method in three forms, as files to be read and compared."""

import os
from pathlib import Path

import pytest

from reground.core.answers import CHOICE, PHRASE, PROGRAM
from reground.core.language import Message
from tests.methods import every

FOLDER = Path(__file__).parent / "prompts"
REWRITE = "REGROUND_REWRITE_PROMPTS"
HOW = f"see it with git diff after: {REWRITE}=1 pytest {Path(__file__).relative_to(Path(__file__).parents[2])}"
FORMS = (PHRASE, CHOICE, PROGRAM)


async def rendered(name: str) -> str:
    """All prompts of a method; a call that asks the same in several forms stands there once."""
    calls: dict[tuple[str, str], dict[tuple[Message, ...], list[str]]] = {}
    refused = []
    for form in FORMS:
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

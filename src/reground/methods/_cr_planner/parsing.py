"""What a reply of the generator is worth: a step, a query, a complete answer. Nothing here raises, whatever the text."""

from __future__ import annotations

import ast
import re
import warnings

from reground.core.answers import AnswerForm
from reground.methods._steps import split_answer, squeezed

END = "[END]"
"""What closes a step; generation stops there."""

_STEP = re.compile(r"^[\s>*_#-]*(?:next\s+)?step\b\s*\d*\s*[*_]*\s*[.:)][\s*_]*", re.IGNORECASE)
_LATER = re.compile(r"(?im)^[ \t>*_#-]*(?:next\s+)?step\s*\d+\s*[*_]*\s*[.:)]|^[ \t]*(?:<passage\b|search query:)")
_ANSWER = re.compile(r"(?i)^[\s>*_#-]*(?:final\s+)?answer\s*(?:is)?\s*[*_]*\s*[:：][\s*_]*")
_INLINE = re.compile(r"(?i)(?<![A-Za-z])(?:final )?answer:\**\s+\S")
_CLOSED = re.compile(r"^[ \t]*```[ \t]*(?:python3?|py)?[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE | re.I)


def read_step(reply: str, form: AnswerForm) -> str:
    """The one step in a reply, without its label and without the steps that a model which ran ahead wrote after it.

    Empty where nothing is said.
    """
    text = _STEP.sub("", reply.partition(END)[0].strip(), count=1)
    _, answer = split_answer(text, form)
    later = next((found for found in _LATER.finditer(text) if not _inside(text, found.start(), answer)), None)
    text = (text if later is None else text[: later.start()]).strip()
    return text if any(char.isalnum() for char in text) else ""


def _inside(text: str, place: int, answer: str) -> bool:
    """Whether a place lies in the answer or in a code block, where a line may well begin like a step."""
    return (bool(answer) and place >= text.rindex(answer)) or text.count("```", 0, place) % 2 == 1


def complete_answer(step: str, form: AnswerForm) -> str:
    """The answer that a step holds, as a whole response; empty where it holds none (section 2.2, termination).

    Programs are complete in a closed code block that parses. Everything else has an "Answer:" line with something behind
    it, or for short answers an "Answer:" inside a line; where the thoughts are the answer (prose, plans) what stands
    behind it is the response.
    """
    if form.draft_is_query:
        return step if any(_is_program(body, form) for body in _CLOSED.findall(step)) else ""
    _, tail = split_answer(step, form)
    if not tail and form.final_pass:
        tail = next((step[found.start() :] for found in _INLINE.finditer(step)), "")
    said = _ANSWER.sub("", tail, count=1).strip()
    if not any(char.isalnum() for char in said) or not form.extract(tail):
        return ""
    return step if form.final_pass else said


def _is_program(body: str, form: AnswerForm) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if form.name == "pal":
        return any(isinstance(node, ast.FunctionDef) and node.name == "solution" for node in tree.body)
    return any(_does_something(node) for node in tree.body)


def _does_something(node: ast.stmt) -> bool:
    return isinstance(node.value, ast.Call) if isinstance(node, ast.Expr) else not isinstance(node, ast.Pass)


def key(text: str) -> str:
    """What two texts have in common that say the same."""
    return squeezed(text).casefold()

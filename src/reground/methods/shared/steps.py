"""Reasoning steps as text: split a draft as chat models write it, join steps, and find those that a revision lost.

RAT (prompt B.1) and RaR split a draft at blank lines. Chat models also write introductions, titles, lists, programs in
fences and closing remarks. A step is what a reader would call one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from reground.core.answers import TEXT, Answer, AnswerForm, Thought
from reground.core.code_blocks import code_blocks
from reground.text.layout import is_code, program_steps, prose_steps

_ANSWER = re.compile(
    r"(?im)^[ \t\r\xa0\u3000>*_#-]*+(?:final\s++)?+(?:answer|antwort|答案|答え)\s*+(?:is)?+\s*+[*_]*+\s*+[:：]"
)
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"\S+")


def split_steps(draft: str, form: AnswerForm = TEXT, *, most: int | None = None) -> list[str]:
    """The steps of a draft, without what frames them: introductions, closing remarks, rules, titles of nothing.

    If there are more than `most` steps, neighbours are joined evenly, so that every part is still checked.
    """
    text = _WORD.sub(_parted, draft)
    steps = program_steps(text) if form.draft_is_query else prose_steps(text, concluding=form.final_pass)
    return steps if most is None else _grouped(steps, most)


def _parted(word: re.Match[str]) -> str:
    """A word with blank lines for the "/n/n" of prompt B.1, which small models copy; an address stays as it is."""
    letters = word.group()
    return letters if "://" in letters or letters.startswith("/") else letters.replace("/n/n", "\n\n")


def _grouped(steps: list[str], most: int) -> list[str]:
    if len(steps) <= most:
        return steps
    edges = [len(steps) * i // most for i in range(most + 1)]
    return [join_steps(steps[start:end]) for start, end in pairwise(edges)]


def join_steps(steps: Sequence[str]) -> str:
    """The steps as one text, with blank lines between them."""
    return "\n\n".join(step.strip("\n").rstrip() for step in steps if step.strip())


def join_answer(steps: Sequence[str], form: AnswerForm) -> str:
    """The steps and the answer as one text; of programs the last one, which is whole."""
    text = join_steps(steps)
    return _program(text, form) or text if form.draft_is_query else text


def _program(text: str, form: AnswerForm) -> str:
    """The program in a text, in a fence; empty if it holds none."""
    program = form.extract(text) if code_blocks(text) or is_code(text) else ""
    return f"```python\n{program}\n```" if program else ""


def split_answer(response: str, form: AnswerForm) -> tuple[str, str]:
    """The reasoning and the answer of a response; the answer is empty if it is not separate.

    The answer begins at the last "Answer:" line; for programs it is the last code block. An answer above its reasons
    ends at a blank line.
    """
    pattern = _FENCED if form.draft_is_query else _ANSWER
    places = [match.start() for match in pattern.finditer(response)]
    start = places[-1] if places else len(response)
    reasoning, answer = response[:start].strip(), response[start:].strip()
    if not reasoning and form.final_pass and not form.draft_is_query:
        answer, _, reasoning = answer.partition("\n\n")
    return reasoning.strip(), answer


def split_draft(draft: str, form: AnswerForm, *, most: int) -> tuple[list[str], str]:
    """(y^thought, y^raw) in one reply: the steps and the answer after them.

    y^raw is the separate answer, or else the last section. Where the thoughts are the answer (plans, prose) and none is
    separate, every section is a thought and y^raw is empty. The thoughts of a program without others are its parts.
    """
    if form.draft_is_query:
        raw = _program(draft, form)
        reasoning = raw or draft
    else:
        reasoning, raw = split_answer(draft, form)
    thoughts = split_steps(reasoning, form)
    if not raw and form.final_pass and len(thoughts) > 1:
        raw = thoughts.pop()
    if raw and (not thoughts or (reasoning == raw and len(thoughts) == 1)):
        return [raw], ""
    return _grouped(thoughts, most), raw


def reasoned(response: str, form: AnswerForm) -> Answer:
    """A response with its reasoning as steps."""
    reasoning, _ = split_answer(response, form)
    return Answer(text=response, steps=tuple(Thought(text=step) for step in split_steps(reasoning)))


def squeezed(text: str) -> str:
    """The text with normalised white space, to tell identical generations (RaR, section 3.2)."""
    return " ".join(text.split())


def alike(text: str) -> str:
    """The text without differences of case and white space, to find those that say the same."""
    return squeezed(text).casefold()


def overlap(a: Counter[str], b: Counter[str]) -> float:
    """Token F1 of two texts' words: twice the words in common over the words of both."""
    return 2 * (a & b).total() / max(1, a.total() + b.total())

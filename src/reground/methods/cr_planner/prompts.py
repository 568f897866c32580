"""The prompts of CR-Planner's generator (reworded from appendix A.1) for four kinds of task, and how a step is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from reground.core.answers import AnswerForm
from reground.methods.shared.prompts import QUOTED, Templates, cite
from reground.methods.shared.steps import split_answer

END = "[END]"
"""Ends a step; generation stops there."""

TaskKind = Literal["qa", "maths", "code", "retrieval"]
_BY_FORM: dict[str, TaskKind] = {"number": "maths", "pal": "maths", "program": "code"}


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """The templates of the calls, and the descriptions of each kind of task.

    reason: places {task}, {question}, {history} (all observations), {last} (how the last step looks).
    query: {question}, {step} (the last rationale), {asked} (the queries so far), {guide}.
    answer, if no step holds the complete answer: {task}, {question}, {history} and {form}, the form of the answer.
    documents, to answer from what was retrieved alone: {passages}, {question} and {form}.
    search, for rankings if the last step is not a query: {task}, {question}, {history}.
    qa, maths, code, retrieval: how to work on such a task. The same with _query: how a good query looks there.
    """

    reason: str = (
        "{task} " + QUOTED + "\n\nQuestion:\n{question}\n\nWork so far:\n{history}\n\n"
        "Write only the next step of the reasoning, and " + END + " behind it. Do not repeat what is written. "
        "Use the passages where they help. Only if the work so far settles everything, make it the last step: {last}"
    )
    query: str = (
        "A step of reasoning is to be checked or taken further with documents.\n\nQuestion:\n{question}\n\n"
        "Step:\n{step}\n\nQueries so far:\n{asked}\n\n"
        "Write a search query for what is missing. {guide} Write only the query, on one line."
    )
    answer: str = (
        "{task} " + QUOTED + "\n\nWork so far:\n{history}\n\nQuestion:\n{question}\n\nGive the final answer now. {form}"
    )
    documents: str = "{passages}\n\n" + QUOTED + "\n\nQuestion:\n{question}\n\n{form}"
    search: str = (
        "{task} " + QUOTED + "\n\nQuestion:\n{question}\n\nWork so far:\n{history}\n\n"
        "Write the search query that finds the documents asked for. Write only the query, on one line."
    )
    qa: str = (
        "Answer the question in single steps: say what is asked, find out each fact that it takes, put the facts "
        "together, and conclude."
    )
    maths: str = (
        "Solve the problem in single steps: say in plain words what is asked, name the theorem or the formula that "
        "applies, work it out, and conclude."
    )
    code: str = (
        "Solve the programming problem in single steps: say in plain words what is asked, think of a solution in plain "
        "words, write it as pseudo-code in plain text, and only then write the program. The standard library is "
        "allowed."
    )
    retrieval: str = (
        "Find the documents that help with the question, in single steps: say in plain words what is asked, what "
        "knowledge explains it, and what a helpful document would be about."
    )
    qa_query: str = "Use the names and the words that such a document would use."
    maths_query: str = (
        "Make it general: name the theorem, the method or the topic, without the numbers and names of the problem."
    )
    code_query: str = (
        "Make it general: name the algorithm, the data structure or the topic, without the numbers and names of the "
        "problem."
    )
    retrieval_query: str = "Use the technical words that a helpful document would use, not those of the question."


def task_kind(form: AnswerForm, *, ranking: bool) -> TaskKind:
    """The kind of task for a form of answer. Plans and prose are questions."""
    return "retrieval" if ranking else _BY_FORM.get(form.name, "qa")


def last_step(form: AnswerForm, *, ranking: bool) -> str:
    """How the step that ends the reasoning looks; `complete_answer` detects it."""
    if ranking:
        return "one line that starts with 'Answer:' and holds the best search query for the documents."
    if form.final_pass:
        return form.instruction
    return f"a line that starts with 'Answer:' and behind it the whole answer. {cite(form)} {form.instruction}"


_STEP = re.compile(r"^[\s>*_#-]*+(?:next\s++)?+step\b\s*+\d*+\s*+[*_]*+\s*+[.:)][\s*_]*+", re.IGNORECASE)
_LATER = re.compile(
    r"(?im)^[ \t>*_#-]*+(?:next\s++)?+step\s*+\d++\s*+[*_]*+\s*+[.:)]|^[ \t]*+(?:<passage\b|search query:)"
)


def read_step(reply: str, form: AnswerForm) -> str:
    """The first step in a reply, without its label and without later steps. Empty if it says nothing."""
    text = _STEP.sub("", reply.partition(END)[0].strip(), count=1)
    _, answer = split_answer(text, form)
    text = text[: _later(text, text.rindex(answer) if answer else len(text))].strip()
    return text if any(char.isalnum() for char in text) else ""


def _later(text: str, answer: int) -> int:
    """Where a later step begins. Lines of the answer or of a code block do not count, even if they look like steps."""
    fences = seen = 0
    for found in _LATER.finditer(text, 0, answer):
        fences += text.count("```", seen, found.start())
        seen = found.start()
        if fences % 2 == 0:
            return seen
    return len(text)

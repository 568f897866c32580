"""The prompts of CR-Planner's generator (reworded from appendix A.1), for four kinds of task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reground.core.answers import AnswerForm
from reground.methods.cr_planner.parsing import END
from reground.methods.shared import prompts as shared_prompts
from reground.methods.shared.prompts import QUOTED, cite

TaskKind = Literal["qa", "maths", "code", "retrieval"]
_BY_FORM: dict[str, TaskKind] = {"number": "maths", "pal": "maths", "program": "code"}


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
    """What the three calls ask, and what a task of each kind is.

    reason: places {task}, {question}, {history} (all that was observed), {last} (what the last step looks like).
    query: {question}, {step} (the last rationale), {asked} (the queries so far), {guide}.
    answer, when no step holds the complete answer: {task}, {question}, {history} and {form}, how it is stated.
    search, when a ranking is asked for and the last step is no query: {task}, {question}, {history}.
    qa, maths, code, retrieval: how to go about such a task; the same with _query: what a good query is there.
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
    search: str = (
        "{task} " + QUOTED + "\n\nQuestion:\n{question}\n\nWork so far:\n{history}\n\n"
        "Write the search query that finds the documents asked for. Write only the query, on one line."
    )
    qa: str = (
        "Answer the question in single steps: say what is asked, find out each fact that it takes, put "
        "the facts together, "
        "and conclude."
    )
    maths: str = (
        "Solve the problem in single steps: say in plain words what is asked, name the theorem or the "
        "formula that applies, "
        "work it out, and conclude."
    )
    code: str = (
        "Solve the programming problem in single steps: say in plain words what is asked, think of a solution in plain "
        "words, write it as pseudo-code in plain text, and only then write the program. The standard "
        "library is allowed."
    )
    retrieval: str = (
        "Find the documents that help with the question, in single steps: say in plain words what is "
        "asked, what knowledge "
        "explains it, and what a helpful document would be about."
    )
    qa_query: str = "Use the names and the words that such a document would use."
    maths_query: str = (
        "Make it general: name the theorem, the method or the topic, without the numbers and names of the problem."
    )
    code_query: str = (
        "Make it general: name the algorithm, the data structure or the topic, "
        "without the numbers and names of the problem."
    )
    retrieval_query: str = "Use the technical words that a helpful document would use, not those of the question."

    def task(self, kind: TaskKind) -> str:
        """How to go about a task of the kind."""
        return {"qa": self.qa, "maths": self.maths, "code": self.code, "retrieval": self.retrieval}[kind]

    def guide(self, kind: TaskKind) -> str:
        """What a good query is in a task of the kind."""
        return {
            "qa": self.qa_query,
            "maths": self.maths_query,
            "code": self.code_query,
            "retrieval": self.retrieval_query,
        }[kind]


def kind_of(form: AnswerForm, *, ranking: bool) -> TaskKind:
    """Which kind of task a form of answer belongs to; plans and prose are questions."""
    return "retrieval" if ranking else _BY_FORM.get(form.name, "qa")


def last_step(form: AnswerForm, *, ranking: bool) -> str:
    """What the step that ends the reasoning looks like; `complete_answer` finds it."""
    if ranking:
        return "one line that starts with 'Answer:' and holds the best search query for the documents."
    if form.final_pass:
        return form.instruction
    return f"a line that starts with 'Answer:' and behind it the whole answer. {cite(form)} {form.instruction}"

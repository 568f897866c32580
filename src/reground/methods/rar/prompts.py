"""RaR's prompts: after appendix B of the paper, part by part."""

from __future__ import annotations

from dataclasses import dataclass

from reground.methods.shared import prompts as shared_prompts

_ASKED = "Question:\n{question}\n\n"
_HEAD = (
    "An answer is checked step by step against documents. A text without errors is answered with OK where errors are "
    "asked for, and with NO CHANGE where the text is asked for; one of which nothing is right, with DELETE. "
    + shared_prompts.QUOTED + "\n\n" + _ASKED
)  # fmt: skip
_CHECKED = _HEAD + "Checked so far:\n{verified}\n\n{passages}\n\n"
_SEARCH = "Write a search query of a few words, with the names that matter, "
_ERRORS = "Write one short line for each error: what is wrong, what is right instead, and the passage that says so."
_CORRECT = "put right the errors found, leave out what is refuted, and keep what is right"


@dataclass(frozen=True, kw_only=True)
class Prompts(shared_prompts.Prompts):
    """One template per call. Reflections and refinements begin alike, so that a server can reuse what it has read. The
    text to correct stands directly before the task, because a small model copies the text that stands there.

    draft (Eq. 3, appendix B.1): places {question}, {layout} (how steps are separated), {style} (how a step is written)
    and {form} (the answer).
    query (Eq. 4, B.2): {question}, {before}, the thoughts before, and {text}, those that the query is about.
    query_answer (section 3.2, phase 2): {question} and {answer}; about the structure of the whole answer.
    reflect: {question}, {verified}, {passages} and {step}.
    refine (Eq. 5, first and second case; B.3): as reflect, with {reflection} and {cite}.
    refine_last (Eq. 5, third case): as refine, with {form}; {step} is the last step followed by the draft's answer.
    reflect_answer: {question}, {answer} and {passages}. refine_answer (Eq. 6): the same with {reflection}, {cite} and
    {form}.
    """

    draft: str = "{question}\n\nThink step by step. {layout} {style} {form}"
    query: str = (
        _ASKED + "Thoughts before:\n{before}\n\nText:\n{text}\n\nTask: The text may be wrong. " + _SEARCH + "to look "
        "up the facts of all its sentences. Write only the query."
    )
    query_answer: str = (
        _ASKED + "Answer:\n{answer}\n\nTask: Look at the answer as a whole. A part may be missing, parts may contradict"
        " each other, or the whole may miss the question. " + _SEARCH + "that sums up question and answer, to find "
        "documents by which the whole can be checked. Write only the query."
    )
    reflect: str = (
        _CHECKED + "Step to check:\n{step}\n\nTask: Find the errors in the step to check. Does it say what the "
        "passages say? Does it follow from the question? " + _ERRORS
    )
    refine: str = (
        _CHECKED + "Errors found in the step below:\n{reflection}\n\nStep to correct:\n{step}\n\n"
        "Task: Write the step again, corrected, with all its parts: " + _CORRECT + ". {cite} "
        "Write this one step and nothing else."
    )
    refine_last: str = (
        _CHECKED + "Errors found in the text below:\n{reflection}\n\nText to correct:\n{step}\n\n"
        "Task: Write the text again, corrected: " + _CORRECT + ", and end with the final answer that follows. "
        "{cite} {form}"
    )
    reflect_answer: str = (
        _HEAD + "{passages}\n\nAnswer to check:\n{answer}\n\n"
        "Task: Find the errors in the answer to check. Does it say what the passages say? Does it answer "
        "the question, and does each step follow from those before? " + _ERRORS
    )
    refine_answer: str = (
        _HEAD + "{passages}\n\nErrors found in the answer below:\n{reflection}\n\nAnswer to correct:\n{answer}\n\n"
        "Task: Write the whole answer again, corrected, with a blank line between the steps: " + _CORRECT + ". {cite} "
        "{form}"
    )

"""RaR for small models: drafted from evidence, and revised in one call (docs/reproduction shows what it is worth)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reground.methods._prompts import render, weigh

if TYPE_CHECKING:
    from reground.methods.rar import RaR

PRESET: dict[str, object] = {
    "ground": 3,
    "k": 3,
    "max_steps": 0,
    "max_rounds": 2,
    "m": 2,
    "max_contents": None,
    "query_from": "names",
    "reflect": False,
    "reasoned": False,
    "revise": "afresh",
    "accept": "surer",
    "evidence": "all",
}
"""A draft from memory misleads the queries of a model that knows little, its reflections find no errors, and a
refinement clings to what it refines. So the draft rests on what the question finds, the model names what to read next,
one call answers again from everything, without the answer before, and of both answers the surer one stays."""


def draft(config: RaR, question: str, passages: str) -> str:
    """The prompt of a draft from passages."""
    return render(config.prompts.grounded_draft, passages=passages, question=question, form=_stating(config))


def revision(config: RaR, question: str, passages: str, answer: str) -> tuple[str, dict[str, str]]:
    """The template and its values for Eq. 6 without a reflection: one call keeps or corrects the answer by the
    passages, or answers afresh, without sight of the one before."""
    values = {"passages": passages, "question": question, "form": _stating(config)}
    if config.revise == "afresh":
        return config.prompts.grounded_draft, values
    return config.prompts.revise_answer, values | {"answer": answer}


def alone(config: RaR) -> str:
    """The sentence that asks for the answer and nothing else; empty where reasons are given or the form needs more."""
    return "" if config.reasoned else config.form.bare


def _stating(config: RaR) -> str:
    """How an answer from passages is stated: behind what they say about it, or alone."""
    return alone(config) or f"{weigh(config.form)} {config.form.instruction}"

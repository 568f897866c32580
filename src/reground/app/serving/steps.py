"""The steps of a method in words, for the part of a reply that clients show as reasoning."""

from __future__ import annotations

from collections.abc import Sequence

from reground.core.evidence import Passage
from reground.core.run import Event
from reground.core.trajectory import ChooseStep, ExecuteStep, GenerateStep, NoteStep, RetrieveStep, Step

_TITLES = 5
"""Titles of passages that are named."""


def words_of(event: Event) -> str:
    """What a begin or an end tells, as a paragraph; empty where it tells nothing that a reader needs."""
    said = f"{event.name} ..." if event.type == "begin" else "" if event.step is None else _of(event.step)
    return f"{said}\n\n" if said else ""


def _of(step: Step) -> str:
    if isinstance(step, GenerateStep):
        return f"{step.name}: {step.replies[0].text.strip()}"
    if isinstance(step, RetrieveStep):
        return f"{step.name}: {step.query.strip()}\n{_titles(step.passages)}"
    if isinstance(step, ExecuteStep):
        return f"{step.name}: {step.execution.verdict}"
    if isinstance(step, ChooseStep) and step.chosen is not None:
        return f"{step.name}: {step.candidates[step.chosen].text.strip()}"
    if isinstance(step, NoteStep) and "why" in step.data:
        return f"{step.name}: {step.data['why']}"
    return ""


def _titles(passages: Sequence[Passage]) -> str:
    if not passages:
        return "nothing was found"
    titles = list(dict.fromkeys(passage.title or passage.id for passage in passages))
    more = f" and {len(titles) - _TITLES} more" if len(titles) > _TITLES else ""
    return f"found: {'; '.join(titles[:_TITLES])}{more}"

"""What a trajectory retrieved, in terms of the corpus's own documents."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from reground.core.evidence import Passage
from reground.core.trajectory import RetrieveStep, Trajectory

_PIECE = re.compile(r"#\d+$")


def retrieve_steps(trajectory: Trajectory) -> list[RetrieveStep]:
    """The retrievals, in the order in which they ended."""
    return [step for step in trajectory.steps if isinstance(step, RetrieveStep)]


def retrieved_passages(steps: Iterable[RetrieveStep]) -> list[Passage]:
    """Every passage once, as it was first retrieved."""
    found: dict[str, Passage] = {}
    for step in steps:
        for passage in step.passages:
            found.setdefault(passage.id, passage)
    return list(found.values())


def document_id(passage_id: str, known: Container[str] = ()) -> str:
    """The document that a passage is a piece of: an index names the pieces of document d `d#1`, `d#2`, ...

    An id that is itself `known` is left as it is.
    """
    return passage_id if passage_id in known else _PIECE.sub("", passage_id)

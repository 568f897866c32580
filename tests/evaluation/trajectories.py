"""Trajectories made by hand, for tests of scoring."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from reground.core.answers import Answer
from reground.core.evidence import Passage
from reground.core.programs import Sandbox
from reground.core.trajectory import NoteStep, RetrieveStep, Step, Trajectory
from reground.evaluation.task import Example, Score, Task


def retrieval(*passages: Passage | str, k: int = 10, query: str = "query") -> RetrieveStep:
    """A retrieval of these passages; a string is a passage's id."""
    found = tuple(Passage(id=each, text="") if isinstance(each, str) else each for each in passages)
    return RetrieveStep(span="", ordinal=0, name="retrieve", retriever="fake", query=query, k=k, passages=found)


def answered(text: str | None, *steps: Step) -> Trajectory:
    """A trajectory that ends in this answer."""
    note = NoteStep(span="", ordinal=0, name="note")
    answer = None if text is None else Answer(text=text)
    return Trajectory(id="t", question="q", method="m", steps=(note, *steps), answer=answer)


async def scored(task: Task, example: Example, text: str, sandbox: Sandbox | None) -> Mapping[str, Score]:
    """The scores of an answer."""
    return await task.score(example, answered(text), sandbox)


def write_jsonl(path: Path, records: Iterable[Mapping[str, object]]) -> Path:
    """Write records, making the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path

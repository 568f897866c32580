"""What the tests of tasks with programs share."""

from __future__ import annotations

from collections.abc import Mapping

from reground.core.answers import Answer
from reground.core.programs import Sandbox
from reground.core.trajectory import Trajectory
from reground.evaluation.task import Example, Score, Task


def answered(example: Example, text: str) -> Trajectory:
    return Trajectory(id=example.id, question=example.question, method="direct", answer=Answer(text=text))


async def scored(task: Task, example: Example, text: str, sandbox: Sandbox | None) -> Mapping[str, Score]:
    return await task.score(example, answered(example, text), sandbox)

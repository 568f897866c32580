"""Scores the answer before a method's own checks, besides the final one (ReST meets ReAct, table 4)."""

from __future__ import annotations

from collections.abc import Mapping

from reground.core.programs import Sandbox
from reground.core.trajectory import BEFORE_CHECKS, NoteStep, Trajectory
from reground.evaluation.task import Example, Score, Task

PREFIX = "before checks: "


async def score(task: Task, example: Example, trajectory: Trajectory, sandbox: Sandbox | None) -> Mapping[str, Score]:
    """Every metric of the task, and the primary one also for the answer before the checks, if there is one.

    An answer that the checks left unchanged is not scored twice, because a judge could rate it differently.
    """
    scores = await task.score(example, trajectory, sandbox)
    before = before_checks(trajectory)
    if before is None or task.primary not in scores:
        return scores
    same = before.answer == trajectory.answer
    earlier = scores if same else await task.score(example, before, sandbox)
    return {**scores, PREFIX + task.primary: earlier[task.primary]}


def before_checks(trajectory: Trajectory) -> Trajectory | None:
    """The trajectory as if it had ended with the answer before the checks; None without one."""
    noted = (step for step in trajectory.steps if isinstance(step, NoteStep) and step.name == BEFORE_CHECKS)
    text = next((note.data.get("text") for note in noted), None)
    if trajectory.answer is None or not isinstance(text, str):
        return None
    if text == trajectory.answer.text:
        return trajectory
    return trajectory.model_copy(update={"answer": trajectory.answer.model_copy(update={"text": text})})

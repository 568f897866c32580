"""The share of an answer's sentences that what was read supports, beside every task's own metrics.

Words are compared (`reground.support`), so it costs nothing and is the same for every method. It says nothing of what
is right: a wrong document supports a wrong answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from reground.core.trajectory import Trajectory
from reground.evaluation.task import Example, Score, Task
from reground.support.check import compared, states

METRIC = "faithfulness"


def score(task: Task, example: Example, trajectory: Trajectory) -> Mapping[str, Score]:
    """The metric for answers in prose or phrases; nothing for other forms, and where no passage was read."""
    answer = trajectory.answer
    if answer is None or not states(task.form):
        return {}
    said = compared(answer, example.question, trajectory.steps)
    if not said.sentences:
        return {}
    why = "" if said.faithfulness is not None else "the answer claims nothing"
    return {METRIC: Score(value=said.faithfulness, why=why)}

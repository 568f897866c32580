"""One question from end to end: run the method, keep to the budget, write the trajectory."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reground.core.errors import BudgetExceeded, RegroundError
from reground.core.run import Run
from reground.core.trajectory import Failure, Trajectory

if TYPE_CHECKING:
    from reground.core.answers import Answer
    from reground.core.method import Method


def _said(error: Exception) -> str:
    """An error's message; one that nobody raised on purpose also says on which line it arose."""
    if isinstance(error, RegroundError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    return f"{error} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else str(error)


@dataclass(frozen=True)
class Solved:
    """A trajectory, and the exception behind its failure if it has one."""

    trajectory: Trajectory
    error: Exception | None = None


async def solve(method: Method, question: str, run: Run, /, *, id: str, name: str) -> Solved:
    """Never raises for what goes wrong in the method: a failed question is data too.

    When the budget ends, the answer proposed last stands and the trajectory says which limit it was;
    cancellation (Ctrl-C) passes through.
    """
    answer: Answer | None = None
    stopped: str | None = None
    error: Exception | None = None
    try:
        answer = await method.solve(question, run)
    except BudgetExceeded as end:
        answer, stopped = run.best, end.limit
        run.note("budget ended", limit=end.limit, why=str(end))
        error = end if answer is None else None
    except Exception as problem:
        error = problem
    trajectory = Trajectory.model_construct(
        version=1,
        id=id,
        question=question,
        method=name,
        steps=run.steps,
        answer=answer,
        failure=None if error is None else Failure(type=type(error).__name__, message=_said(error)),
        stopped=stopped,
        usage=run.usage,
        seconds=run.meter.elapsed,
        metadata={},
    )
    return Solved(trajectory, error)

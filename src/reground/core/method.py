"""The port that every reasoning method implements, and one question from start to end."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from reground.core.answers import Answer, AnswerForm
from reground.core.errors import BudgetExceeded, RegroundError
from reground.core.run import Run
from reground.core.trajectory import UNGROUNDED, VERSION, Failure, NoteStep, RetrieveStep, Step, Trajectory


@runtime_checkable
class Method(Protocol):
    """A paper's algorithm. It sees only the question, so no gold answer can leak into it.

    One method answers many questions at once, so the state of a question belongs in `solve`, not in the method.

    Every effect goes through `run`. A method calls `run.propose` whenever it has a usable answer; if the budget ends
    early, the last proposal is the result.
    """

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""


@runtime_checkable
class Sizable(Method, Protocol):
    """A method in several sizes: more samples, more documents, more rounds.

    A dry run tells the cost of each size (`reground.evaluation.scaling`). A method that parses its replies has the
    class variable `usual`: a typical reply for each name of a call, in which "{number}" makes every reply different.
    """

    def sizes(self) -> Sequence[Method]:
        """The method in all useful sizes, cheapest first."""


@dataclass(frozen=True)
class Solved:
    """A trajectory, and the exception behind its failure if it has one."""

    trajectory: Trajectory
    error: Exception | None = None


async def solve(method: Method, question: str, run: Run, /, *, id: str, name: str) -> Solved:
    """Never raises for what goes wrong in the method: a failed question is data too.

    When the budget ends, the last proposed answer is the result and the trajectory names the limit. A program that the
    budget cut short is replaced by the last whole answer proposed before it. Cancellation (Ctrl-C) passes through.
    """
    answer: Answer | None = None
    stopped: str | None = None
    error: Exception | None = None
    failure: Failure | None = None
    try:
        answer = await method.solve(question, run)
    except BudgetExceeded as end:
        answer, stopped = run.best, end.limit
        run.note("budget ended", limit=end.limit, why=str(end))
        error = end if answer is None else None
    except Exception as problem:
        error = problem
    if error is not None:
        frame = traceback.extract_tb(error.__traceback__)[-1]  # where a bug arose is worth knowing
        place = "" if isinstance(error, RegroundError) else f" ({Path(frame.filename).name}:{frame.lineno})"
        failure = Failure(type=type(error).__name__, message=f"{error}{place}")
    form = getattr(method, "form", None)
    writes_code = isinstance(form, AnswerForm) and form.draft_is_query
    if answer is not None and run.whole is not None and writes_code and run.meter.has_cut(answer.text):
        run.note("answer cut", why="the token budget cut the program: the whole answer before it", written=answer.text)
        answer, stopped = run.whole, "tokens"
    why = _ungrounded(method, run.steps)
    if answer is not None and why is not None:
        run.note(UNGROUNDED, why=why)
    trajectory = Trajectory.model_construct(
        version=VERSION,
        id=id,
        question=question,
        method=name,
        steps=run.steps,
        answer=answer,
        failure=failure,
        stopped=stopped,
        usage=run.usage,
        seconds=run.meter.elapsed,
    )
    return Solved(trajectory, error)


def _ungrounded(method: Method, steps: Sequence[Step]) -> str | None:
    """Why a method with documents read none; None if it has no documents or retrieved a passage."""
    searches = [step for step in steps if isinstance(step, RetrieveStep)]
    if getattr(method, "retriever", None) is None or any(step.passages for step in searches):
        return None
    if searches:
        return "nothing was found"
    failed = any(isinstance(step, NoteStep) and step.name == "retrieval failed" for step in steps)
    return "every search failed" if failed else "nothing was searched"

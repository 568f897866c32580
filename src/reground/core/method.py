"""The port that every reasoning method implements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from reground.core.answers import Answer
from reground.core.run import Run


@runtime_checkable
class Method(Protocol):
    """A paper's algorithm. It sees only the question, so no gold answer can leak into it.

    One method answers many questions at once, so what belongs to a question lives in `solve` and not in the method.

    Every effect goes through `run`. A method calls `run.propose` whenever it has an answer worth giving; if the budget
    ends early, the last proposal is the result.
    """

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        ...


@runtime_checkable
class Sizable(Method, Protocol):
    """A method that can be set up larger or smaller: more samples, more documents, more rounds.

    What each size costs is told by a dry run (`reground.evaluation.scaling`). A method that has to be able to read its
    replies says in `usual`, a class variable, what calls of a name mostly say; "{number}" makes each reply another.
    """

    def sizes(self) -> Sequence[Method]:
        """The same method in every size worth trying, the cheapest first."""
        ...

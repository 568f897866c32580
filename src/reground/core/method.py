"""The port that every reasoning method implements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from reground.core.answers import Answer
from reground.core.run import Run


@runtime_checkable
class Method(Protocol):
    """A paper's algorithm. It sees only the question, so no gold answer can leak into it.

    One method answers many questions at once, so the state of a question belongs in `solve`, not in the method.

    Every effect goes through `run`. A method calls `run.propose` whenever it has a usable answer; if the budget ends
    early, the last proposal is the result.
    """

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        ...


@runtime_checkable
class Sizable(Method, Protocol):
    """A method in several sizes: more samples, more documents, more rounds.

    A dry run tells the cost of each size (`reground.evaluation.scaling`). A method that parses its replies has the
    class variable `usual`: a typical reply for each name of a call, in which "{number}" makes every reply different.
    """

    def sizes(self) -> Sequence[Method]:
        """The method in all useful sizes, cheapest first."""
        ...

"""The port that every reasoning method implements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from reground.core.answers import Answer
from reground.core.errors import ConfigurationError
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
class Scalable(Method, Protocol):
    """A method that can be set up to use a token budget well (RaR, section 3.3).

    More samples, more documents, more rounds: whatever the method scales by.
    """

    def at_budget(self, tokens: int) -> Method:
        """The same method, scaled to spend about `tokens` prompt and completion tokens a question."""
        ...


def scaled(method: Method, tokens: int | None, *, keep: Iterable[str] = ()) -> Method:
    """The method scaled to a budget, if it can be scaled (RaR, section 3.3: all methods at the same budget).

    keep: settings that stay as they are, because the user chose them. Where they do not go with the others,
        nothing is scaled.
    """
    if tokens is None or not isinstance(method, Scalable):
        return method
    larger: Any = method.at_budget(tokens)
    kept = {name: getattr(method, name) for name in keep}
    try:
        fitted: Method = replace(larger, **kept) if kept else larger
    except ConfigurationError:
        return method
    return fitted

"""What a search engine finds, and the port of search engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from reground.core.errors import RetrievalError
from reground.core.language import Number, Text, Value


class WebResult(Value):
    """A page that an engine found.

    snippet: what the engine shows of it. content: the page's text, from engines that send it along. score: the engine's
    own, higher is better. date: when the page was published, in the engine's words.
    """

    title: Text
    url: Text
    snippet: Text = ""
    content: Text | None = None
    score: Number | None = None
    date: Text | None = None


class EngineError(RetrievalError):
    """A search engine gave no results. The message names the engine, never a key."""


class EngineBusy(EngineError):
    """The same search may succeed later or elsewhere: a quota, a fault of the server, a lost connection.

    retry_after: the seconds to wait, if the engine named them.
    """

    def __init__(self, why: str, *, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


@runtime_checkable
class Engine(Protocol):
    """Anything that searches the web."""

    @property
    def name(self) -> str:
        """Names the engine, and the server where that can be chosen; part of a run's identity."""
        ...

    @property
    def may_store(self) -> bool:
        """Whether its terms allow to pass its results on, as in a snapshot for others."""
        ...

    async def search(self, query: str, /, *, k: int) -> Sequence[WebResult]:
        """At most `k` results, best first. Raises EngineBusy for passing faults, else EngineError."""
        ...

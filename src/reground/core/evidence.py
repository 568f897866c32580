"""Retrieved evidence and the port that finds it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Protocol, runtime_checkable

from reground.core.language import LATER, Number, Text, Value


class Passage(Value):
    """A piece of a document. `id` is unique in its corpus; `score` is the retriever's, higher is better.

    fetched: when it was fetched from the web, as ISO 8601 in UTC.
    """

    id: Text
    text: Text
    title: Text = ""
    url: Text | None = None
    score: Number = 0.0
    fetched: Annotated[Text | None, LATER] = None

    @property
    def page_id(self) -> str:
        """The id of the page or document of which it is a piece, ID#NUMBER; its own, where it is the whole."""
        page, _, number = self.id.rpartition("#")
        return page if number.isdecimal() else self.id


class Skipped(Value):
    """What a search found and could not read, and why."""

    skipped: Text
    why: Text


class Found(tuple[Passage, ...]):
    """The passages of a search that also tells what it skipped."""

    skipped: tuple[Skipped, ...]

    def __new__(cls, passages: Iterable[Passage] = (), skipped: Iterable[Skipped] = ()) -> Found:
        """Passages, best first."""
        made = super().__new__(cls, passages)
        made.skipped = tuple(skipped)
        return made

    @classmethod
    def like(cls, found: Sequence[Passage], passages: Iterable[Passage]) -> Found:
        """Other passages, with what the first search skipped."""
        return cls(passages, found.skipped if isinstance(found, cls) else ())


@runtime_checkable
class Retriever(Protocol):
    """Anything that ranks passages for a query. Raises `RetrievalError`."""

    @property
    def name(self) -> str:
        """Names the index and the kind of search. Part of a run's identity."""

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """Return at most `k` passages, best first."""


@runtime_checkable
class Pages(Retriever, Protocol):
    """A retriever that can also open the page of a passage. Not every retriever can: ask `isinstance`."""

    async def page(self, passage_id: str, /) -> Passage | None:
        """The whole document under its own id, or the part around the passage if it is very long; None if there is
        none.

        Raises `RetrievalError`.
        """

"""A search engine over a list of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reground.web.results import WebResult


@dataclass
class ListedEngine:
    """Gives, for any query, the results that share a word with it, in their order; all where none does.

    asked: the queries so far.
    """

    results: Sequence[WebResult]
    name: str = "listed"
    may_store: bool = True
    asked: list[str] = field(default_factory=list)

    async def search(self, query: str, /, *, k: int) -> Sequence[WebResult]:
        """At most `k` results."""
        self.asked.append(query)
        words = set(query.lower().split())
        found = [each for each in self.results if words & set(f"{each.title} {each.snippet}".lower().split())]
        return (found or list(self.results))[:k]

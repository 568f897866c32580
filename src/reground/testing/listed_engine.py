"""A search engine over a list of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reground.web.results import WebResult


@dataclass
class ListedEngine:
    """Gives the results that share a word with the query, those with more of them first; all where none does.

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
        shared = [len(words & set(f"{each.title} {each.snippet}".lower().split())) for each in self.results]
        ranked = sorted(zip(shared, self.results, strict=True), key=lambda pair: -pair[0])
        found = [result for count, result in ranked if count or not any(shared)]
        return found[:k]

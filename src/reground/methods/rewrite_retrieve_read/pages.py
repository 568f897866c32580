"""Passages of several queries in one order, and their whole pages, opened through the run: recorded and replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from reground.core.errors import IndexRefused, RetrievalError
from reground.core.evidence import Pages, Passage, Retriever
from reground.core.run import Run

OPENED = "page"
"""The name of the steps that open a page; their query is a passage's id."""


def interleaved(found: Sequence[Sequence[Passage]]) -> list[Passage]:
    """The first of each list, the second of each, and so on; each passage once, where it stands first."""
    once: dict[str, Passage] = {}
    for rank in zip_longest(*found):
        for passage in rank:
            if passage is not None:
                once.setdefault(passage.id, passage)
    return list(once.values())


@dataclass(frozen=True)
class _Opener:
    """A retriever that takes a passage's id as the query and returns the passage's page."""

    pages: Pages

    @property
    def name(self) -> str:
        return f"{self.pages.name} pages"

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        page = await self.pages.page(query)
        return [] if page is None else [page]


async def open_pages(run: Run, retriever: Retriever, found: Sequence[Sequence[Passage]]) -> list[list[Passage]]:
    """Replace each passage by its page. Every page is opened once.

    If a page cannot be opened, its passage stays, and a note says so.
    """
    if not isinstance(retriever, Pages):
        run.note("no pages", why=f"{retriever.name} gives passages alone: each is taken for a page")
        return [list(passages) for passages in found]
    pages: dict[str, Passage] = {}
    for passage in interleaved(found):
        opened = (page for page in pages.values() if page.id == passage.page_id)
        pages[passage.id] = next(opened, None) or await _open(run, retriever, passage)
    return [[pages[passage.id] for passage in passages] for passages in found]


async def _open(run: Run, retriever: Pages, passage: Passage) -> Passage:
    try:
        opened = await run.retrieve(_Opener(retriever), passage.id, k=1, name=OPENED)
    except IndexRefused:
        raise
    except RetrievalError as error:
        run.note("page not opened", passage=passage.id, why=str(error))
        return passage
    return opened[0] if opened else passage

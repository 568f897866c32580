"""A retriever over the open web: a search engine, and what of the pages it finds is read.

Three ways of reading, as in the papers: snippets, and the closest part of each page (Rewrite-Retrieve-Read, section
3.3), and the first page that can be read, cut into long pieces (RAT, section 4).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal
from zlib import crc32

from yarl import URL

from reground.core.concurrency import close
from reground.core.errors import ConfigurationError
from reground.core.evidence import Passage, SearchResults, Skipped
from reground.retrieval.chunking import chunk
from reground.retrieval.decontaminate import Decontaminator
from reground.text.excerpts import excerpt
from reground.web.fetching import Blocked, Fetcher, NotFetched, read_page
from reground.web.results import Engine, WebResult

Mode = Literal["snippets", "pages", "first"]

PRIVATE = " (private)"
"""Stands in the name of a retriever whose engine does not allow to pass its results on."""
_PAGES = 256  # pages whose text is kept, so that no page is fetched twice for one question
_LONGEST = 500_000  # characters of a page that are kept
_MORE = 5  # results asked for beyond those wanted, in place of blocked and unreadable ones


DATASET_HOSTS = frozenset(
    (
        "huggingface.co", "hf.co", "kaggle.com", "paperswithcode.com", "hotpotqa.github.io", "allenai.org",
        "nlp.cs.washington.edu", "github.com", "raw.githubusercontent.com", "gist.github.com",
    )
)  # fmt: skip
"""Where benchmarks and their copies lie."""


@dataclass(frozen=True)
class Blocklist:
    """What a measurement must not find: benchmarks' own pages, and pages that hold its questions.

    hosts: left out with all beneath them. questions: finds pages that share ten words in a row with a question.
    """

    hosts: frozenset[str] = frozenset()
    questions: Decontaminator | None = None

    @classmethod
    def of(cls, questions: Iterable[str], hosts: frozenset[str] = DATASET_HOSTS) -> Blocklist:
        """The list for measuring with these questions."""
        return cls(hosts, Decontaminator(questions))

    def why_not(self, url: str) -> str | None:
        """Why an address is left out; None where it is not."""
        host = (URL(url).host or "").rstrip(".")  # a dot at the end names the same host
        parents = {host.split(".", dots)[-1] for dots in range(host.count("."))}
        return "its host is on the list of blocked ones" if parents & self.hosts else None

    def why_not_text(self, text: str) -> str | None:
        """Why a text is left out; None where it is not."""
        if self.questions is None or self.questions.overlap(text) is None:
            return None
        return "it holds a question of the benchmark"


@dataclass(kw_only=True)
class WebRetriever:
    """Searches with `engine` and reads by `mode`.

    "snippets": what the engine shows of each page. "pages": of each page the pieces that BM25 finds closest to the
    query, `words` words together; its snippet where it cannot be read. "first": the first page that can be read, in
    pieces of `piece_tokens` tokens. blocked: pages that are never given. What was found and not read is told in the
    result, as `SearchResults.skipped`.
    """

    engine: Engine
    fetcher: Fetcher = field(default_factory=Fetcher)
    mode: Mode = "pages"
    words: int = 200
    piece_tokens: int = 1500
    blocked: Blocklist = field(default_factory=Blocklist)
    _pages: OrderedDict[str, asyncio.Task[Passage]] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        if self.mode not in ("snippets", "pages", "first"):
            raise ConfigurationError(f"no way of reading the web is called {self.mode!r}: snippets, pages or first")

    @property
    def name(self) -> str:
        """Names the engine, whether its results are for oneself alone, and how pages are read."""
        size = {"snippets": "", "pages": f" {self.words} words", "first": f" {self.piece_tokens} tokens"}[self.mode]
        return f"web:{self.engine.name}{'' if self.engine.may_store else PRIVATE} {self.mode}{size}"

    async def aclose(self) -> None:
        """End what is being fetched, and close all connections."""
        for task in self._pages.values():
            task.cancel()
        await asyncio.gather(*self._pages.values(), return_exceptions=True)
        self._pages.clear()
        await self.fetcher.aclose()
        await close(self.engine)

    async def retrieve(self, query: str, /, *, k: int) -> SearchResults:
        """At most `k` passages, best first, and what was skipped. Raises RetrievalError where the engine fails."""
        results, skipped = self._allowed(await self.engine.search(query, k=k + _MORE))
        if self.mode == "first":
            return await self._first(results, k, skipped)
        tasks = [self._passage(result, query) for result in results[:k]]
        outcomes = await asyncio.gather(*tasks)
        for _, why in outcomes:
            skipped += why
        return SearchResults((passage for passage, _ in outcomes if passage is not None), skipped)

    async def page(self, passage_id: str, /) -> Passage | None:
        """The whole page of a passage. Raises RetrievalError never: a page that cannot be read is None."""
        url = passage_id.partition("#")[0]
        try:
            page = await self._opened(url)
        except NotFetched:
            return None
        return page if self.blocked.why_not_text(page.text) is None else None

    def _allowed(self, results: Sequence[WebResult]) -> tuple[list[WebResult], list[Skipped]]:
        """The results that may be given, each address once."""
        allowed: dict[str, WebResult] = {}
        skipped = []
        for result in results:
            try:
                url = str(URL(result.url).with_fragment(None))
            except ValueError:
                skipped.append(Skipped(skipped=result.url, why="its address cannot be read"))
                continue
            why = self.blocked.why_not(url) or self.blocked.why_not_text(f"{result.title}\n{result.snippet}")
            if why is None:
                allowed.setdefault(url, result.model_copy(update={"url": url}))
            else:
                skipped.append(Skipped(skipped=url, why=why))
        return list(allowed.values()), skipped

    async def _passage(self, result: WebResult, query: str) -> tuple[Passage | None, list[Skipped]]:
        """The passage of one result, and why it is not from its page, if so."""
        if self.mode == "snippets":
            return _snippet(result), []
        try:
            page = await self._read(result)
        except NotFetched as error:
            snippet = None if isinstance(error, Blocked) else _snippet(result)
            return snippet, [Skipped(skipped=result.url, why=str(error))]
        return _part(result, page, excerpt(page.text, query, words=self.words)), []

    async def _first(self, results: Sequence[WebResult], k: int, skipped: list[Skipped]) -> SearchResults:
        unread = []
        for result in results:
            try:
                page = await self._read(result)
            except NotFetched as error:
                skipped.append(Skipped(skipped=result.url, why=str(error)))
                unread += [] if isinstance(error, Blocked) else [result]
                continue
            pieces = [piece.of(page.text) for piece in chunk(page.text, self.piece_tokens)][:k]
            return SearchResults((_part(result, page, text, at) for at, text in enumerate(pieces, start=1)), skipped)
        return SearchResults(filter(None, map(_snippet, unread[:k])), skipped)

    async def _read(self, result: WebResult) -> Passage:
        """The text that the engine sent along, or that of the page. Raises NotFetched, or Blocked."""
        if result.content:
            page = Passage(id=result.url, text=result.content, title=result.title, url=result.url)
        else:
            page = await self._opened(result.url)
        if (why := self.blocked.why_not_text(page.text)) is not None:
            raise Blocked(why)
        return page

    async def _opened(self, url: str) -> Passage:
        """The page, fetched once however many ask for it, and again after a failure. Raises NotFetched."""
        task = self._pages.get(url)
        if task is None:
            task = self._pages[url] = asyncio.create_task(self._fetch(url))
            task.add_done_callback(partial(self._forget_failed, url))
            while len(self._pages) > _PAGES:
                self._pages.popitem(last=False)
        return await asyncio.shield(task)

    async def _fetch(self, url: str) -> Passage:
        fetched = await self.fetcher.fetch(url, why_not=self.blocked.why_not)
        read = await read_page(fetched)
        return Passage(id=url, text=read.text[:_LONGEST], title=read.title, url=url, fetched=fetched.when)

    def _forget_failed(self, url: str, task: asyncio.Task[Passage]) -> None:
        # A failure may pass. It is taken as seen, also where all who waited for it were cancelled.
        if (task.cancelled() or task.exception() is not None) and self._pages.get(url) is task:
            del self._pages[url]


def _part(result: WebResult, page: Passage, text: str, place: int | None = None) -> Passage:
    """A part of a page. Its id has its place or a sum of its text: another query may find another part, which is to be
    read too."""
    id_ = f"{result.url}#{crc32(text.encode()) if place is None else place}"
    title, score = page.title or result.title, result.score or 0.0
    return page.model_copy(update={"id": id_, "text": text, "title": title, "score": score, "url": result.url})


def _snippet(result: WebResult) -> Passage | None:
    """The engine's snippet of a page, if it has one."""
    text = result.snippet.strip() or (result.content or "").strip()
    return _part(result, Passage(id="", text="", title=result.title), text) if text else None

"""A little web on loopback: good pages, and those that break or trick a crawler.

In a test:

    async with LittleWeb({"/a.html": page("Bridges", "The bridge was begun in 1357.")}) as web:
        fetched = await web.fetcher().fetch(f"{web.url}/a.html")
        assert web.asked == ["/robots.txt", "/a.html"]
"""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractResolver

from reground.testing.openai_server import Loopback
from reground.web.fetching import Fetcher
from reground.web.results import WebResult


@dataclass(frozen=True)
class Site:
    """A page as its server sends it.

    body: whole, or piece by piece. seconds: before the reply begins.
    """

    body: bytes | Callable[[], AsyncIterator[bytes]] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/html; charset=utf-8"})
    seconds: float = 0.0


def page(title: str, *paragraphs: str) -> Site:
    text = "".join(f"<p>{escape(each)}</p>" for each in paragraphs)
    top = f"<!doctype html><html><head><title>{escape(title)}</title></head>"
    return Site(f"{top}<body><article><h1>{escape(title)}</h1>{text}</article></body></html>".encode())


def redirect(to: str) -> Site:
    return Site(status=302, headers={"Location": to})


def bomb(megabytes: int) -> Site:
    """Zeros, packed to a thousandth of their size."""
    packed = gzip.compress(bytes(megabytes << 20))
    return Site(packed, headers={"Content-Type": "text/html", "Content-Encoding": "gzip"})


def drip(piece: bytes, *, every: float, pieces: int) -> Site:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(pieces):
            yield piece
            await asyncio.sleep(every)

    return Site(body)


class LittleWeb(Loopback):
    """Serves pages by their path, and robots.txt where `robots` is given. asked: the paths of all requests, in order.

    most_at_once: the largest number of requests that were open together.
    """

    def __init__(self, pages: Mapping[str, Site], *, robots: str | None = None) -> None:
        super().__init__()
        self.pages = dict(pages)
        if robots is not None:
            self.pages["/robots.txt"] = Site(robots.encode(), headers={"Content-Type": "text/plain"})
        self.asked: list[str] = []
        self.agents: set[str] = set()
        self.most_at_once = 0
        self._open = 0
        self._fetchers: list[Fetcher] = []

    def fetcher(self, **how: Any) -> Fetcher:
        """One that may fetch from here, and is closed with it."""
        self._fetchers.append(Fetcher(networks=(self.network,), **how))
        return self._fetchers[-1]

    async def stop(self) -> None:
        for fetcher in self._fetchers:
            await fetcher.aclose()
        await super().stop()

    network = "127.0.0.1/32"

    @property
    def url(self) -> str:
        return self.origin

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._reply)
        return app

    async def _reply(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        self.agents.add(request.headers.get("User-Agent", ""))
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        try:
            return await self._answer(request, self.pages.get(request.path, Site(b"nothing here", status=404)))
        finally:
            self._open -= 1

    async def _answer(self, request: web.Request, site: Site) -> web.StreamResponse:
        await asyncio.sleep(site.seconds)
        if isinstance(site.body, bytes):
            return web.Response(body=site.body, status=site.status, headers=dict(site.headers))
        response = web.StreamResponse(status=site.status, headers=dict(site.headers))
        await response.prepare(request)
        async for piece in site.body():
            await response.write(piece)
        return response


class Names(AbstractResolver):
    """A name server that gives these addresses one after the other, and the last one from then on."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [{"hostname": host, "host": answer, "port": port, "family": 2, "proto": 0, "flags": 0}]

    async def close(self) -> None:
        return


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
        self.asked.append(query)
        words = set(query.lower().split())
        shared = [len(words & set(f"{each.title} {each.snippet}".lower().split())) for each in self.results]
        ranked = sorted(zip(shared, self.results, strict=True), key=lambda pair: -pair[0])
        found = [result for count, result in ranked if count or not any(shared)]
        return found[:k]

"""Engines at the mock server, with a clock that only moves when somebody sleeps by it."""

from contextlib import asynccontextmanager

from reground.testing.search_engines import KEY, MockEngines, Page
from reground.web.engines._client import HttpEngine, Patience
from reground.web.engines.providers import BRAVE, EXA, SEARCHR1, SEARXNG, SERPER, TAVILY
from tests.models.clocks import Clock

PROVIDERS = {each.name: each for each in (BRAVE, SERPER, TAVILY, EXA, SEARXNG, SEARCHR1)}
KEYED = ("brave", "serper", "tavily", "exa")
PAGES = [
    Page("Old bridge", "https://example.org/old", "The old bridge opened in 1874 &amp; still stands."),
    Page("New bridge", "https://example.org/new?a=1", "The new bridge opened in 1990."),
    Page("Ferry", "https://example.org/ferry", "A ferry crosses the river."),
]


def patient(clock, **settings):
    return Patience(clock=clock.now, sleep=clock.sleep, uniform=lambda low, high: high, **settings)


def build(name, server, clock, **settings):
    return HttpEngine(PROVIDERS[name], base=server.url(name), patience=patient(clock, **settings))


@asynccontextmanager
async def asking(name, monkeypatch, pages=PAGES, headers=None, key=KEY, **settings):
    """A server, an engine that asks it, and the clock."""
    if name in KEYED:
        monkeypatch.setenv(PROVIDERS[name].key_env, key)
    clock = Clock()
    async with MockEngines(pages, headers=headers) as server:
        engine = build(name, server, clock, **settings)
        try:
            yield server, engine, clock
        finally:
            await engine.aclose()

"""Faults on the way: what is tried again, how long it waits, and what a reply may take."""

import asyncio

import pytest

from reground.testing.search_engines import KEY, MockEngines
from reground.web.results import EngineBusy, EngineError
from tests.models.clocks import Clock
from tests.web.engines.asking import PAGES, PROVIDERS, asking, build

ALL = pytest.mark.parametrize("name", PROVIDERS)
LIMITED = pytest.mark.parametrize("name", [name for name in PROVIDERS if name != "searxng"])
PASSING = ["status:500", "status:502", "status:408", "status:503", "cut", "hang-up", "page", "malformed", "json:[1]"]


@ALL
@pytest.mark.parametrize("fault", PASSING)
async def test_a_passing_fault_is_tried_again(name, fault, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, clock):
        server.misbehave(fault)
        assert len(await engine.search("bridge", k=1)) == 1
        assert len(server.asked) == 2
        assert 1.0 in clock.slept or fault == "hang-up"  # aiohttp repeats a GET at once if nothing was answered


@LIMITED
async def test_429_waits_as_long_as_asked_but_not_for_an_hour(name, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, clock):
        server.misbehave("429:3", "429")
        assert len(await engine.search("bridge", k=1)) == 1
        assert clock.slept[:2] == [3.5, 2.0]
        server.misbehave("429:3600")
        with pytest.raises(EngineBusy, match="asks to wait 3600 s") as caught:
            await engine.search("bridge", k=1)
        assert caught.value.retry_after == 3600.0 and len(server.asked) == 4


@ALL
async def test_waits_double_and_attempts_end(name, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, clock):
        server.misbehave(*["status:500"] * 9)
        with pytest.raises(EngineBusy, match=r"500.*4 attempts"):
            await engine.search("bridge", k=1)
        assert len(server.asked) == 4 and [each for each in clock.slept if each >= 1] == [1.0, 2.0, 4.0]


@ALL
@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_a_refused_request_is_not_repeated(name, status, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, _):
        server.misbehave(f"status:{status}")
        with pytest.raises(EngineError, match=str(status)) as caught:
            await engine.search("bridge", k=1)
        assert not isinstance(caught.value, EngineBusy) and len(server.asked) == 1


@pytest.mark.parametrize("fault", ["stall:5", "halt:5"])
async def test_a_slow_reply_gives_way(fault, monkeypatch):
    async with asking("brave", monkeypatch, timeout=0.1) as (server, engine, clock):
        server.misbehave(fault)
        with pytest.raises(EngineBusy, match=r"within 0\.1 s"):
            await engine.search("bridge", k=1)
        assert clock.slept == []


async def test_engines_do_not_share_keys_or_connections(monkeypatch):
    monkeypatch.setenv("BRAVE_API_KEY", f"brave-{KEY}")
    monkeypatch.setenv("SERPER_API_KEY", f"serper-{KEY}")
    async with MockEngines(PAGES) as server:
        engines = [build(name, server, Clock()) for name in ("brave", "serper", "searxng")]
        await asyncio.gather(*(each.search("bridge", k=1) for each in engines))
        seen = {each.provider: str(each.headers) for each in server.asked}
        assert "serper-" not in seen["brave"] and "brave-" not in seen["serper"] and KEY not in seen["searxng"]
        await engines[0].aclose()
        assert len(await engines[1].search("bridge", k=1)) == 1  # another engine's connections stay open
        assert len(await engines[0].search("bridge", k=1)) == 1  # and a closed engine opens new ones
        for each in engines:
            await each.aclose()

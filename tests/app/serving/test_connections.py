"""Connections without a request are closed, so that other clients are answered."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import uvicorn
from aiohttp import web
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from reground.app.serving.connections import Server
from reground.core.http import Places, listening
from reground.view.contents import Contents
from reground.view.server import bounded, service

ASKED = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNFINISHED = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: "


async def answered(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"read {len(await request.body())}")


@asynccontextmanager
async def serving(places: Places):
    app = Starlette(routes=[Route("/", answered, methods=["GET", "POST"])])
    server = Server(uvicorn.Config(app, log_config=None, lifespan="off"), places)
    opened, address = listening("127.0.0.1", 0)
    with opened:
        task = asyncio.create_task(server.serve([opened]))
        yield int(address.rpartition(":")[2])
        server.should_exit = server.force_exit = True
        await task


@asynccontextmanager
async def viewing(places: Places, place: Path):
    runner = web.AppRunner(service(Contents(place)))
    await runner.setup()
    opened, address = listening("127.0.0.1", 0)
    with opened:
        await bounded(runner, opened, places)
        yield int(address.rpartition(":")[2])
        await runner.cleanup()


@pytest.fixture(params=["serve", "view"])
def server(request: pytest.FixtureRequest, tmp_path: Path):
    """Begins one of the servers, for its places."""
    (tmp_path / "t.jsonl").touch()
    return serving if request.param == "serve" else partial(viewing, place=tmp_path / "t.jsonl")


async def connected(port: int, *sent: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in sent:
        writer.write(part)
        await writer.drain()
    return reader, writer


async def test_a_new_client_is_answered_while_others_hold_all_places(server) -> None:
    async with server(Places(most=8, seconds=60)) as port:
        slow = [await connected(port, UNFINISHED) for _ in range(40)]
        reader, writer = await connected(port, ASKED)
        assert b"200" in await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        ended = [reader.at_eof() or reader.exception() is not None for reader, _ in slow]
        assert 30 < sum(ended) < 40, "the oldest make room, and no more than that"


@pytest.mark.parametrize("before", [b"", ASKED])
async def test_the_head_of_a_request_has_a_time(server, before: bytes) -> None:
    async with server(Places(most=8, seconds=0.3)) as port:
        reader, _ = await connected(port, before + UNFINISHED)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            while True:
                await asyncio.wait_for(reader.readexactly(1), 10)


async def test_behind_two_lengths_no_other_request_is_answered(server) -> None:
    async with server(Places(most=8, seconds=60)) as port:
        lengths = b"Transfer-Encoding: chunked\r\nContent-Length: 300\r\n\r\n0\r\n\r\n"
        reader, _ = await connected(port, ASKED[:-2] + lengths + ASKED)
        assert (await asyncio.wait_for(reader.read(), 10)).count(b"HTTP/1.") <= 1


async def test_what_is_no_request_takes_a_line_of_the_log_once(server, caplog: pytest.LogCaptureFixture) -> None:
    kinds = [b"\x16\x03\x01\0\r\n\r\n", ASKED[:-2] + b"key sk-secret\r\n\r\n", b"GET /sk-secret" + b"a" * 70000]
    kinds.append(ASKED[:-2] + b"Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n")
    async with server(Places(most=8, seconds=0.3)) as port:
        for sent in kinds * 3:
            reader, writer = await connected(port, ASKED + sent)
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 10)
            writer.close()
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == len(set(said)) <= 4
    assert "secret" not in caplog.text and "Traceback" not in caplog.text


async def test_a_body_may_take_longer_than_a_head() -> None:
    async with serving(Places(most=8, seconds=0.2)) as port:
        reader, writer = await connected(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na")
        await asyncio.sleep(0.6)
        writer.write(b"bc")
        assert b"200" in await asyncio.wait_for(reader.readline(), 5)


async def test_a_client_that_reads_nothing_is_closed_for_a_new_one() -> None:
    async def large(request: Request) -> PlainTextResponse:
        return PlainTextResponse("x" * (64 << 20))

    app = Starlette(routes=[Route("/large", large), Route("/", answered)])
    server = Server(uvicorn.Config(app, log_config=None, lifespan="off"), Places(most=4, seconds=0.5))
    opened, address = listening("127.0.0.1", 0)
    with opened:
        task, port = asyncio.create_task(server.serve([opened])), int(address.rpartition(":")[2])
        deaf = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
        for each in deaf:
            each.sendall(ASKED.replace(b"/ ", b"/large ", 1))
        reader, writer = await connected(port, ASKED.replace(b"/ ", b"/large ", 1))
        await asyncio.sleep(1)  # longer than a head may take, which a reply that is being read is not held to
        assert len((await asyncio.wait_for(reader.readuntil(b"xx"), 5)) + await reader.readexactly(8 << 20)) > 8 << 20
        writer.close()
        for _ in range(4):
            reader, writer = await connected(port, ASKED)
            assert b"200" in await asyncio.wait_for(reader.readline(), 5)
        server.should_exit = server.force_exit = True
        await task
        for each in deaf:
            each.close()

"""Connections without a request are closed, so that other clients are answered."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from reground.app.serving.connections import bounded

ASKED = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNFINISHED = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: "


async def answered(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"read {len(await request.body())}")


@asynccontextmanager
async def serving(most: int, seconds: float):
    app = Starlette(routes=[Route("/", answered, methods=["GET", "POST"])])
    config = bounded(uvicorn.Config(app, log_config=None, lifespan="off"), most, seconds)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(server.serve([listening]))
        yield listening.getsockname()[1]
        server.should_exit = server.force_exit = True
        await task


async def connected(port: int, *sent: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in sent:
        writer.write(part)
        await writer.drain()
    return reader, writer


async def test_a_new_client_is_answered_while_others_hold_all_places() -> None:
    async with serving(most=8, seconds=60) as port:
        slow = [await connected(port, UNFINISHED) for _ in range(40)]
        reader, writer = await connected(port, ASKED)
        assert b"200" in await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        ended = [reader.at_eof() or reader.exception() is not None for reader, _ in slow]
        assert 30 < sum(ended) < 40, "the oldest make room, and no more than that"


@pytest.mark.parametrize("before", [b"", ASKED])
async def test_the_head_of_a_request_has_a_time(before: bytes) -> None:
    async with serving(most=8, seconds=0.3) as port:
        reader, _ = await connected(port, before + UNFINISHED)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            while True:
                await asyncio.wait_for(reader.readexactly(1), 10)


async def test_a_body_may_take_longer_than_a_head() -> None:
    async with serving(most=8, seconds=0.2) as port:
        reader, writer = await connected(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na")
        await asyncio.sleep(0.6)
        writer.write(b"bc")
        assert b"200" in await asyncio.wait_for(reader.readline(), 5)

"""A running arena for tests, and a client that keeps every byte that it was sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from reground.arena.booth import Booth
from reground.arena.pairs import contest
from reground.arena.server import application
from reground.arena.votes import Votes
from reground.evaluation.results import RunFolder
from reground.testing.openai_server import Loopback


class Arena(Loopback):
    """An arena on loopback."""

    def __init__(self, runs: Sequence[RunFolder], votes: Path) -> None:
        super().__init__()
        self.contest = contest(runs)
        self.votes = Votes(votes)

    def application(self) -> web.Application:
        """The arena."""
        return application(Booth(self.contest, self.votes))

    async def stop(self) -> None:
        """Also close the file of votes."""
        await super().stop()
        self.votes.close()


@dataclass
class Client:
    """Asks an arena. sent: every byte that came back, headers too."""

    origin: str
    session: aiohttp.ClientSession
    sent: bytearray = field(default_factory=bytearray)

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """A page, and its status."""
        async with self.session.get(self.origin + path, headers=headers) as reply:
            return reply.status, (await self._kept(reply)).decode()

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        """A reply's status and its data. Keywords are headers, with _ for -; body: data for JSON, or bytes."""
        given = {"Content-Type": "application/json", **{name.replace("_", "-"): each for name, each in headers.items()}}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.post(self.origin + path, data=data, headers=given) as reply:
            return reply.status, json.loads(await self._kept(reply))

    async def _kept(self, reply: aiohttp.ClientResponse) -> bytes:
        body = await reply.read()
        self.sent += f"{reply.status} {reply.reason} {dict(reply.headers)} ".encode() + body
        return body

    async def state(self, judge: str = "anna") -> dict[str, Any]:
        """What a judge sees."""
        status, data = await self.post("/next", {"judge": judge})
        assert status == 200
        return data

    async def vote(self, state: dict[str, Any], verdict: str) -> dict[str, Any]:
        """Vote on what is seen."""
        said = {"judge": state["judge"], "pair": state["pair"]["id"], "round": state["round"], "verdict": verdict}
        status, data = await self.post("/vote", said)
        assert status == 200, data
        return data


@asynccontextmanager
async def asked(arena: Arena) -> AsyncIterator[Client]:
    """A running arena and its client."""
    async with arena, aiohttp.ClientSession() as session:
        yield Client(arena.origin, session)

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from reground.app.retrieval_service import MOST_QUERIES, service
from reground.core.errors import RetrievalError
from reground.core.evidence import Passage

PASSAGES = [Passage(id=f"{n}", text=f"text {n}", title=f"Title {n}", score=10.0 - n) for n in range(20)]


class Listed:
    """Gives the first passages, each query's own first; counts how many searches are open together."""

    name = "listed"

    def __init__(self) -> None:
        self.open = self.most = 0

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0.01)
        self.open -= 1
        if query == "broken":
            raise RetrievalError("the index is broken")
        return [Passage(id=query, text=query), *PASSAGES][:k]


class Client:
    """A running service."""

    def __init__(self, retriever: Listed, concurrency: int, host: str = "127.0.0.1") -> None:
        self.retriever = retriever
        self.runner = web.AppRunner(service(retriever, concurrency=concurrency, host=host))
        self.url = ""

    async def __aenter__(self) -> Client:
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.runner.cleanup()

    async def ask(self, body: object, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        posted = {"data": data, "headers": headers}
        async with aiohttp.ClientSession() as session, session.post(f"{self.url}/retrieve", **posted) as response:
            return response.status, await response.json(content_type=None) if response.status != 413 else None


@pytest.fixture
async def client() -> Any:
    async with Client(Listed(), 4) as running:
        yield running


async def test_each_query_gets_its_list_in_their_order(client: Client) -> None:
    status, found = await client.ask({"queries": ["a", "b"], "topk": 2, "return_scores": True})
    assert status == 200
    assert [[each["document"]["id"] for each in one] for one in found["result"]] == [["a", "0"], ["b", "0"]]
    first = found["result"][0][1]
    assert first == {
        "document": {"id": "0", "contents": '"Title 0"\ntext 0', "title": "Title 0", "text": "text 0", "url": None},
        "score": 10.0,
    }
    _, bare = await client.ask({"queries": ["a"], "topk": 1})
    assert bare["result"][0][0]["contents"] == '""\na'


async def test_many_queries_are_searched_together_within_the_limit(client: Client) -> None:
    status, found = await client.ask({"queries": [f"q{n}" for n in range(40)]})
    assert status == 200 and len(found["result"]) == 40
    assert client.retriever.most == 4


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        {"topk": 1},
        {"queries": "one"},
        {"queries": ["a"], "topk": 0},
        {"queries": ["a"], "topk": 101},
        {"queries": ["a"], "other": 1},
        {"queries": ["a"] * (MOST_QUERIES + 1)},
    ],
)
async def test_a_bad_request_is_told_why(client: Client, body: object) -> None:
    status, found = await client.ask(body)
    assert status == 400 and found["error"]


async def test_a_body_that_is_too_large_is_refused(client: Client) -> None:
    status, _ = await client.ask(b'{"queries": ["' + b"x" * (5 << 20) + b'"]}')
    assert status == 413


async def test_a_retriever_that_fails_is_a_bad_gateway(client: Client) -> None:
    assert await client.ask({"queries": ["a", "broken"]}) == (502, {"error": "the index is broken"})
    assert (await client.ask({"queries": ["a"]}))[0] == 200


async def test_health(client: Client) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{client.url}/healthz") as response:
        assert await response.json() == {"status": "ok", "retriever": "listed"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8765"},
        {"Host": "evil.example:8765", "Origin": "http://evil.example:8765", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_page_of_the_web_cannot_ask(client: Client, headers: dict[str, str]) -> None:
    status, said = await client.ask({"queries": ["a"]}, {"Content-Type": "text/plain", **headers})
    assert status == 403 and said["error"]


async def test_a_program_may_ask_with_any_type_and_a_page_of_this_address_too(client: Client) -> None:
    own = {"Origin": client.url, "Sec-Fetch-Site": "same-origin"}
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "application/json"}, own):
        assert (await client.ask({"queries": ["a"]}, headers))[0] == 200


async def test_the_name_of_the_host_option_is_taken() -> None:
    async with Client(Listed(), 4, host="search.example") as running:
        assert (await running.ask({"queries": ["a"]}, {"Host": "search.example:8765"}))[0] == 200
        assert (await running.ask({"queries": ["a"]}, {"Host": "evil.example"}))[0] == 403

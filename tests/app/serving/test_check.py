"""`POST /v1/check`: anyone's answer against the documents of a server."""

import asyncio

import aiohttp
import pytest

from reground.core.errors import RetrievalError
from reground.support.verdicts import MOST_CHARACTERS
from tests.app.serving.served import ANSWER, PASSAGES, Slow, served

TEXT = "The Vltava flows through Prague. Penguins cannot fly."


class Listed:
    name = "listed"

    async def retrieve(self, query, /, *, k):
        if "broken" in query:
            raise RetrievalError("the index is broken")
        return PASSAGES[:k]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("home"), Slow(lambda m, s: ANSWER), retriever=Listed()) as running:
        yield running


async def post(server, body, path="/v1/check"):
    async with aiohttp.ClientSession() as session, session.post(f"{server.url}{path}", json=body) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("more", [{}, {"corpus": "docs"}, {"model": "rag/m@docs", "question": "Which?", "k": 3}])
async def test_each_sentence_has_its_verdict_and_its_quote(server, more):
    status, said = await post(server, {"text": TEXT, **more})
    assert (status, said["object"], said["corpus"], said["share"]) == (200, "check", "docs", 0.5)
    assert [each["verdict"] for each in said["sentences"]] == ["supported", "not found"]
    assert said["sentences"][0]["evidence"][0]["url"] == "prague.md"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"text": " \n"}, 400),
        ({"text": "x" * (MOST_CHARACTERS + 1)}, 400),
        ({"text": "It is so. " * 20_000}, 200),
        ({"text": "".join(f"It is {n}. " for n in range(9999))}, 400),
        ({"text": TEXT, "corpus": "others"}, 404),
        ({"text": TEXT, "model": "rag/others"}, 404),
        ({"text": "It is broken now."}, 502),
    ],
)
async def test_what_cannot_be_checked_is_refused_with_a_reason(server, body, status):
    found, said = await post(server, body)
    assert found == status
    assert status == 200 or said["error"]["message"]


@pytest.mark.parametrize("text", ["".join(f"The river {n} is long. " for n in range(1500)), "# a\n" * 60_000])
async def test_others_are_answered_meanwhile(server, text):
    long = asyncio.create_task(post(server, {"text": text}))
    await asyncio.sleep(0.2)
    async with aiohttp.ClientSession() as session:
        for _ in range(20):
            assert (await session.get(f"{server.url}/healthz")).status == 200
    assert not long.done()
    assert (await long)[0] == 200

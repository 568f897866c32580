"""`POST /retrieve`: the documents of a server, in the form that trainers of search agents ask for."""

import asyncio

import aiohttp
import pytest

from reground.app.options import Serve
from reground.app.serving.engine import setup_of
from reground.core.errors import RetrievalError
from reground.core.evidence import Passage
from tests.app.serving.served import ANSWER, Slow, served

PASSAGES = [Passage(id=f"{n}", text=f"text {n}", title=f"Title {n}", score=10.0 - n) for n in range(20)]


class Listed:
    """Gives the first passages, each query's own first; counts how many searches are open together."""

    name = "listed"

    def __init__(self):
        self.open = self.most = 0

    async def retrieve(self, query, /, *, k):
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0.01)
        self.open -= 1
        if query == "broken":
            raise RetrievalError("the index is broken")
        return [Passage(id=query, text=query), *PASSAGES][:k]


RETRIEVER = Listed()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    model = Slow(lambda messages, sampling: ANSWER)
    with served(tmp_path_factory.mktemp("home"), model, methods=["rag"], retriever=RETRIEVER) as running:
        yield running


async def ask(server, body):
    async with aiohttp.ClientSession() as session, session.post(f"{server.url}/retrieve", json=body) as response:
        return response.status, await response.json()


async def test_each_query_gets_its_list_in_their_order(server):
    status, found = await ask(server, {"queries": ["a", "b"], "topk": 2, "return_scores": True})
    assert status == 200
    assert [[each["document"]["id"] for each in one] for one in found["result"]] == [["a", "0"], ["b", "0"]]
    assert found["result"][0][1] == {
        "document": {"id": "0", "contents": '"Title 0"\ntext 0', "title": "Title 0", "text": "text 0", "url": None},
        "score": 10.0,
    }
    _, bare = await ask(server, {"queries": ["a"], "topk": 1, "corpus": "docs"})
    assert bare["result"][0][0]["contents"] == '""\na'


async def test_many_queries_are_searched_together_within_the_limit(server):
    status, found = await ask(server, {"queries": [f"q{n}" for n in range(80)]})
    assert status == 200 and len(found["result"]) == 80
    assert RETRIEVER.most == 32


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"queries": ["a"] * 513}, 400),
        ({"queries": ["a"], "corpus": "others"}, 404),
        ({"queries": ["a", "broken"]}, 502),
    ],
)
async def test_what_cannot_be_searched_for_is_refused_with_a_reason(server, body, status):
    found, said = await ask(server, body)
    assert (found, bool(said["error"]["message"])) == (status, True)


def test_documents_are_offered_without_a_model(tmp_path):
    setup = setup_of(Serve(model=["none"], corpus=[str(tmp_path)]))
    assert (setup.names_of_models, setup.offers, len(setup.sources)) == ((), {}, 1)

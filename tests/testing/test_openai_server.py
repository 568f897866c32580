import math

import aiohttp
import pytest

from reground.testing.openai_server import FAULTS, MockOpenAI, embed

CHAT = {"model": "mock", "messages": [{"role": "user", "content": "hello there"}]}


async def post(url, body):
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
        return response.status, await response.json()


async def test_it_speaks_the_protocol():
    async with MockOpenAI(lambda body: ["a b", "c"], cached=1) as server:
        status, reply = await post(f"{server.url}/chat/completions", {**CHAT, "n": 3, "logprobs": True})
    assert status == 200
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["a b", "c", "a b"]
    assert [each["token"] for each in reply["choices"][0]["logprobs"]["content"]] == ["a", " b"]
    assert reply["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 5,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 1},
    }
    assert server.completed == {"hello there": 1}
    assert server.most_at_once == 1


async def test_only_whole_replies_count():
    async with MockOpenAI() as server:
        server.misbehave("500", "ok", "429:3")
        statuses = [(await post(f"{server.url}/chat/completions", CHAT))[0] for _ in range(4)]
    assert statuses == [500, 200, 429, 200]
    assert server.completed == {"hello there": 2}


def test_a_fault_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"no such fault: nap"):
        MockOpenAI().misbehave("429", "nap")
    assert {"429", "500", "503", "cut", "stall", "malformed", "401", "context", "404"} <= set(FAULTS)


async def test_embeddings_are_the_same_everywhere_and_near_where_words_are_shared():
    async with MockOpenAI() as server:
        body = {"model": "mock", "input": ["the long river", "a long river", "quite unrelated matters", ""]}
        status, reply = await post(f"{server.url}/embeddings", body)
        _, single = await post(
            f"{server.url}/embeddings", {"model": "mock", "input": "the long river", "dimensions": 8}
        )
    vectors = [each["embedding"] for each in reply["data"]]
    assert status == 200
    assert vectors[0] == embed("The long RIVER!")
    assert [len(vector) for vector in vectors] == [64] * 4
    assert all(math.isclose(sum(x * x for x in vector), 1.0) for vector in vectors)
    near, far = (sum(a * b for a, b in zip(vectors[0], other, strict=True)) for other in vectors[1:3])
    assert near > far
    assert len(single["data"][0]["embedding"]) == 8

import asyncio
import contextlib
import math
import sys

import aiohttp
import pytest

from reground.testing.fast_server import serve_fixed
from reground.testing.openai_server import FAULTS, MockOpenAI, embed, main

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


@contextlib.asynccontextmanager
async def process(*arguments):
    command = [sys.executable, "-m", "reground.testing.openai_server", *arguments]
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield (await server.stdout.readline()).decode().strip()
    finally:
        server.terminate()
        await server.wait()


@pytest.mark.parametrize("arguments", [("--latency", "0.01"), ("--latency", "0.01", "--fast")])
async def test_it_runs_as_a_process_of_its_own(arguments):
    async with process(*arguments) as url:
        status, reply = await post(f"{url}/chat/completions", CHAT)
    assert status == 200
    assert reply["choices"][0]["message"]["content"]
    assert reply["usage"]["prompt_tokens"] > 0


async def test_the_fast_server_finds_requests_however_they_are_cut():
    url = await serve_fixed(MockOpenAI().completion, port=0, latency=0.0)
    port = int(url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody"
    stream = request * 3 + b"GET /v1/models HTTP/1.1\r\n\r\n"
    for at in range(0, len(stream), 7):
        writer.write(stream[at : at + 7])
        await writer.drain()
        await asyncio.sleep(0)
    for _ in range(4):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        assert len(await reader.readexactly(length)) == length
    writer.close()
    await writer.wait_closed()


async def test_the_fast_server_makes_only_a_models_answer_wait():
    url = await serve_fixed(MockOpenAI().completion, port=0, latency=30.0)
    async with aiohttp.ClientSession() as session, asyncio.timeout(10):
        async with session.get(f"{url}/models") as listed:
            assert listed.status == 200
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), session.post(f"{url}/chat/completions", json=CHAT):
                pass


def test_the_command_explains_itself(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "--latency" in capsys.readouterr().out

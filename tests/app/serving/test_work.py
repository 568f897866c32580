"""Many questions at once, and clients that go away."""

import asyncio
import json
import socket
import time

import aiohttp

from reground.core.language import Reply
from tests.app.serving.served import ANSWER, Slow, served

CHAT = "/v1/chat/completions"


def asked(text, **more):
    return {"messages": [{"role": "user", "content": text}], **more}


def until(true, seconds=5.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def raw(server, body):
    data = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection.sendall(
        b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(data))
    )
    connection.sendall(data)
    return connection


async def test_two_hundred_questions_at_once_are_counted_exactly(tmp_path):
    model = Slow(lambda messages, sampling: "words " * (1 + len(messages[-1].content) % 7), seconds=0.01)
    with served(tmp_path, model, methods=["rag"], concurrency=50, waiting=200) as server:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def one(number):
                body = asked("why " * number + "?", stream=number % 2 == 0, stream_options={"include_usage": True})
                async with session.post(server.url + CHAT, json=body) as reply:
                    assert reply.status == 200
                    if not body["stream"]:
                        return (await reply.json())["usage"]
                    lines = (await reply.text()).split("\n\n")
                    return json.loads(lines[-3].removeprefix("data: "))["usage"]

            usages = await asyncio.gather(*(one(number) for number in range(1, 201)))
            async with session.get(f"{server.url}/metrics") as reply:
                figures = await reply.text()
    prompts = sum(len(each.content.split()) for messages, _ in model.calls for each in messages)
    written = sum(1 + len(messages[-1].content) % 7 for messages, _ in model.calls)
    assert len(model.calls) == 200
    assert sum(usage["prompt_tokens"] for usage in usages) == prompts
    assert sum(usage["completion_tokens"] for usage in usages) == written
    assert f'reground_tokens_total{{kind="prompt",model="rag/m@docs"}} {float(prompts)}' in figures
    assert f'reground_tokens_total{{kind="completion",model="rag/m@docs"}} {float(written)}' in figures
    assert (server.engine.working, server.engine.waiting) == (0, 0)


async def test_a_full_queue_says_when_to_come_back(tmp_path):
    model = Slow(lambda messages, sampling: ANSWER, seconds=0.3)
    with served(tmp_path, model, methods=["direct"], concurrency=1, waiting=1) as server:
        async with aiohttp.ClientSession() as session:

            async def one(number, *, stream):
                body = asked(f"{number}?", stream=stream)
                async with session.post(server.url + CHAT, json=body) as reply:
                    text = await reply.text()
                    assert reply.status == 200 or json.loads(text)["error"]["code"] == "busy"
                    return reply.status, reply.headers.get("Retry-After")

            said = await asyncio.gather(*(one(number, stream=number % 2 == 0) for number in range(6)))
    assert sorted(status for status, _ in said) == [200, 200, 429, 429, 429, 429]
    assert all(int(again or 0) >= 1 for status, again in said if status == 429)


def test_a_client_that_goes_away_ends_its_work(tmp_path):
    for stream in (True, False):
        model = Slow(lambda messages, sampling: ANSWER, seconds=30)
        with served(tmp_path, model, methods=["rat"]) as server:
            connection = raw(server, asked("river?", stream=stream))
            until(lambda model=model: model.begun == 1)
            connection.close()
            until(lambda model=model: model.cancelled == 1, 2)
            until(lambda server=server: server.engine.working == 0)
            assert model.ended == 0


def test_a_client_that_waits_for_its_turn_and_goes_away_leaves_the_queue(tmp_path):
    model = Slow(lambda messages, sampling: ANSWER, seconds=30)
    with served(tmp_path, model, methods=["direct"], concurrency=1) as server:
        first, second = raw(server, asked("one?")), raw(server, asked("two?", stream=True))
        until(lambda: server.engine.waiting == 1)
        second.close()
        until(lambda: server.engine.waiting == 0)
        assert server.engine.working == 1
        first.close()
        until(lambda: model.cancelled == 1)


def test_a_stream_is_kept_awake_while_a_call_takes_long(tmp_path):
    model = Slow(lambda messages, sampling: Reply(text=ANSWER), seconds=0.6)
    said = b""
    with served(tmp_path, model, methods=["direct"], heartbeat=0.1) as server:
        connection = raw(server, asked("river?", stream=True))
        while b"[DONE]" not in said:
            said += connection.recv(65536)
        connection.close()
    before, _, after = said.partition(b'"content":"The')
    assert before.count(b": still working\n\n") >= 3
    assert b": still working" not in after

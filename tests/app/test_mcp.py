"""`reground mcp`, asked by the SDK's own client: over standard input and output, and over HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

pytest.importorskip("mcp")

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from reground.app.cli import run
from reground.app.serving.mcp import TOOLS
from reground.app.serving.mcp import server as serving
from reground.app.serving.tools import Tools
from reground.core.language import Reply, hearing, tokens_of
from reground.retrieval.scripted import ScriptedRetriever
from reground.testing.openai_server import MockOpenAI
from tests.app.serving.served import ANSWER, PASSAGES, Slow, engine_of
from tests.signals import heed_ctrl_c

BRIDGES = "# Bridges\n\nCharles Bridge was finished in 1402.\n\nLegion Bridge was finished in 1901.\n"
START = [sys.executable, "-m", "reground", "mcp"]


@pytest.fixture
async def server():
    async with MockOpenAI(lambda body: "It was finished in 1402 [1].") as server:
        yield server


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "bridges.md").write_text(BRIDGES)
    (folder / "long.md").write_text("# Long\n\n" + "".join(f"The mill {n} stands at the river. " for n in range(3000)))
    return folder


def environment(tmp_path):
    return {**os.environ, "REGROUND_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "sk-secret-of-the-test"}


def arguments(docs, server, *more):
    asked = ["--corpus", str(docs), "--method", "rag", "--model", "openai/mock", "--base-url", server.url]
    return [*START, *asked, "--quiet", *more]


def by_stdio(tmp_path, docs, server, *more):
    command, *rest = arguments(docs, server, *more)
    return StdioServerParameters(command=command, args=rest, env=environment(tmp_path))


@asynccontextmanager
async def by_http(tmp_path, docs, server, *more):
    """The address of a server, which is ended by Ctrl-C within three seconds."""
    process = await asyncio.create_subprocess_exec(
        *arguments(docs, server, "--http", "--port", "0", *more),
        env=environment(tmp_path),
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while not (found := re.search(rb"http://127\.0\.0\.1:\d+/mcp", line := await process.stderr.readline())):
                assert line, "it ended"
        yield found[0].decode()
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(3):
            assert await process.wait() == 130
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def connected(kind, tmp_path, docs, server, *more):
    mode = "legacy" if kind.endswith("legacy") else "auto"
    if kind.startswith("stdio"):
        async with Client(by_stdio(tmp_path, docs, server, *more), mode=mode) as client:
            yield client
    else:
        async with by_http(tmp_path, docs, server, *more) as url, Client(url, mode=mode) as client:
            yield client


def text_of(result):
    assert len(result.content) == 1
    return str(result.content[0].text)


@pytest.mark.parametrize("kind", ["stdio", "stdio legacy", "http", "http legacy"])
async def test_ask_retrieve_and_fetch(kind, tmp_path, docs, server):
    told: list[tuple[float, str | None]] = []

    async def tell(progress, total, message):
        told.append((progress, message))

    async with connected(kind, tmp_path, docs, server) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["ask", "check", "retrieve", "fetch"]
        assert "rag/mock@docs" in json.dumps(listed[0].input_schema)
        assert all(tool.description and tool.output_schema for tool in listed)

        asked = await client.call_tool("ask", {"question": "When was Charles Bridge finished?"}, progress_callback=tell)
        assert not asked.is_error
        answer = asked.structured_content
        assert json.loads(text_of(asked)) == answer
        assert answer["answer"] == "It was finished in 1402 [1]."
        assert (answer["answered"], answer["usage"]["calls"]) == (True, 1)
        assert answer["citations"][0]["quote"] == "Charles Bridge was finished in 1402."
        assert answer["citations"][0]["line"] == 3
        assert [count for count, _ in told] == sorted({count for count, _ in told})
        assert any("retrieve" in (message or "") for _, message in told)
        assert any("answer done: 1 calls" in (message or "") for _, message in told)

        text = "Penguins swim. Charles Bridge was finished in 1402."
        checked = (await client.call_tool("check", {"text": text})).structured_content
        assert (checked["supported"], checked["corpus"]) == (False, "docs")
        assert [each["verdict"] for each in checked["sentences"]] == ["not found", "supported"]
        (quote,) = checked["sentences"][1]["evidence"]
        assert (quote["url"], quote["line"]) == ("bridges.md", 3) and "1402" in quote["quote"]

        found = await client.call_tool("retrieve", {"query": "mill at the river", "k": 5})
        assert tokens_of(text_of(found)) <= 2000
        first = next(hit for hit in found.structured_content["passages"] if not hit["whole"])
        assert first["id"].startswith("long.md")
        parts, offset = "", 0
        while offset is not None:
            part = await client.call_tool("fetch", {"id": first["id"], "offset": offset})
            assert tokens_of(text_of(part)) <= 2000
            parts += part.structured_content["text"]
            offset = part.structured_content.get("next_offset")
        assert parts.count("mill") > 30
        whole = await client.call_tool("fetch", {"id": first["id"], "document": True, "max_tokens": 300})
        assert whole.structured_content["characters"] > len(parts)


class Telling(Slow):
    """Tells who listens the first words of its reply."""

    async def generate(self, messages, sampling, /):
        self.heard = hearing.get()
        if self.heard is not None:
            self.heard(Reply(text="The Vltava"))
        return await super().generate(messages, sampling)


@pytest.mark.parametrize("wants", [True, False])
async def test_a_client_that_wants_progress_hears_what_a_model_writes(wants, tmp_path):
    model, told = Telling(lambda messages, sampling: ANSWER), list[str]()

    async def opened():
        return Tools(engine_of(tmp_path, model, ["rag"], {"docs": ScriptedRetriever(PASSAGES)}))

    async def tell(progress, total, message):
        told.append(message)

    async with Client(serving(opened, ["rag/m@docs"], ["docs"]), mode="legacy") as client:
        asked = await client.call_tool("ask", {"question": "Which?"}, progress_callback=tell if wants else None)
    assert asked.structured_content["answer"] == ANSWER
    assert ("answer: The Vltava" in told, model.heard is not None) == (wants, wants)


WRONG = [
    ("ask", {"question": ""}, "question: "),
    ("ask", {"question": "Why?", "offer": "rat/mock"}, "no model is called 'rat/mock'; did you mean"),
    ("check", {"text": " \n"}, "empty"),
    ("check", {"text": "The mill stands.", "corpus": "other"}, "no documents are called 'other'"),
    ("retrieve", {"query": "mill", "corpus": "other"}, "no documents are called 'other'"),
    ("retrieve", {"query": "mill", "k": 1000}, "k: "),
    ("retrieve", {"quary": "mill"}, "query: Field required; quary: "),
    ("fetch", {"id": "nothing"}, "nothing has the id 'nothing'"),
    ("fetch", {"id": "bridges.md", "offset": 10**9}, "characters"),
    ("fetchh", {}, "no tool is called 'fetchh'; did you mean fetch?"),
]


NOT_GIVEN = [
    ("retrieve", {"query": "mill", "k": None, "corpus": None, "cursor": "", "toolCallId": "a1"}),
    ("check", {"text": "The mill stands.", "question": "", "corpus": "", "max_tokens": None, "": {}}),
    ("fetch", {"id": "bridges.md", "offset": "", "document": None, "sessionId": [1]}),
    ("ask", {"question": "When?", "offer": None, "budget_tokens": "", "action": "sendMessage"}),
]


async def test_null_an_empty_text_and_an_unknown_field_mean_that_an_argument_is_not_given(tmp_path, docs, server):
    async with Client(by_stdio(tmp_path, docs, server)) as client:
        for name, given in NOT_GIVEN:
            done = await client.call_tool(name, given)
            assert not done.is_error, text_of(done)


async def test_errors_are_one_clear_line_and_the_server_goes_on(tmp_path, docs, server):
    async with Client(by_stdio(tmp_path, docs, server)) as client:
        server.misbehave("401")
        for name, given, why in [*WRONG, ("ask", {"question": "When was it?"}, "")]:
            failed = await client.call_tool(name, given)
            assert failed.is_error
            assert why in text_of(failed)
            assert "\n" not in text_of(failed) and "sk-secret" not in text_of(failed)
        assert not (await client.call_tool("ask", {"question": "When was it?"})).is_error


@pytest.mark.parametrize("kind", ["stdio", "stdio legacy", "http", "http legacy"])
async def test_a_call_that_the_client_gives_up_is_no_longer_worked_on(kind, tmp_path, docs, server):
    """With one place for questions, the next one is answered only if the first has left it."""
    server.misbehave("stall")
    async with connected(kind, tmp_path, docs, server, "--concurrency", "1") as client:
        first = asyncio.create_task(client.call_tool("ask", {"question": "Which stalls?"}))
        for _ in range(3000):
            if server.received:  # else the second would be the one that stalls
                break
            await asyncio.sleep(0.02)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        async with asyncio.timeout(20):
            assert not (await client.call_tool("ask", {"question": "Which goes on?"})).is_error


async def test_other_hosts_and_pages_of_browsers_are_refused(tmp_path, docs, server):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepts = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with by_http(tmp_path, docs, server) as url, aiohttp.ClientSession() as session:
        for headers, status in (({"Origin": "https://evil.test"}, 403), ({"Host": "evil.test"}, 421)):
            async with session.post(url, json=message, headers={**accepts, **headers}) as refused:
                assert refused.status == status


def raw(*messages):
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}

READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
SEARCH = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "retrieve", "arguments": {"query": "Legion Bridge"}},
}


async def started(command, tmp_path):
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *command, env=environment(tmp_path), stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=heed_ctrl_c
    )


async def answers(process, sent, count):
    """The first replies to what is sent, and the end of the process."""
    process.stdin.write(sent)
    replies = [json.loads(await asyncio.wait_for(process.stdout.readline(), 60)) for _ in range(count)]
    process.stdin.close()
    await asyncio.wait_for(process.communicate(), 60)
    return replies


async def test_standard_output_holds_the_protocol_alone_and_its_end_is_the_end(tmp_path, docs, server):
    process = await started([each for each in arguments(docs, server) if each != "--quiet"], tmp_path)
    out, err = await asyncio.wait_for(process.communicate(raw(HELLO) + b"no json\n"), 60)
    assert process.returncode == 0
    assert all("jsonrpc" in json.loads(line) for line in out.splitlines())
    hello = next(message for line in out.splitlines() if (message := json.loads(line))["id"] == 1)
    assert hello["result"]["serverInfo"]["name"] == "reground"
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("line", "name", "code"),
    [
        (b"{bad", None, -32700),
        (b"[" * 100_000, None, -32700),
        (raw(SEARCH).strip().join((b"[", b"]")), None, -32600),
        (b'"words"', None, -32600),
        (b'{"id": 7}', 7, -32600),
        (raw({**SEARCH, "id": 8, "params": []}).strip(), 8, -32602),
        (raw({**SEARCH, "id": 8.5}).strip(), None, -32600),
        (raw({**SEARCH, "id": None}).strip(), None, -32600),
        (b'{"text": "' + b"a" * 5_000_000 + b'"}', None, -32600),
    ],
)
async def test_what_is_no_message_is_answered_with_an_error(line, name, code, tmp_path, docs, server):
    process = await started(arguments(docs, server), tmp_path)
    replies = await answers(process, raw(HELLO, READY) + line + b"\n\n" + raw(SEARCH), 3)
    (refused,) = (each for each in replies if "error" in each)
    assert (refused["id"], refused["error"]["code"]) == (name, code)
    assert "1901" in json.dumps([each for each in replies if each["id"] == 2])


async def test_a_text_that_was_cut_inside_a_character_is_read(tmp_path, docs, server):
    search = raw(SEARCH).replace(b"Legion Bridge", b"Legion Bridge \\ud83d")
    process = await started(arguments(docs, server), tmp_path)
    assert "1901" in json.dumps(await answers(process, raw(HELLO, READY) + search, 2))


async def test_ctrl_c_ends_it_within_a_second_while_it_waits_for_a_message(tmp_path, docs, server):
    process = await started(arguments(docs, server), tmp_path)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(raw(HELLO, READY, SEARCH))
    assert b"reground" in await asyncio.wait_for(process.stdout.readline(), 60)
    assert b"Legion" in await asyncio.wait_for(process.stdout.readline(), 60)
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 3) == 130


async def test_what_cannot_be_opened_ends_the_server_with_a_line(tmp_path):
    """A client is answered before the documents are open, and shows in its log why the server ended."""
    process = await started([*START, "--corpus", str(tmp_path / "absent"), "--model", "openai/mock"], tmp_path)
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(raw(HELLO))
    assert await asyncio.wait_for(process.wait(), 60) == 2
    err = await process.stderr.read()
    assert b"absent" in err
    assert err.count(b"\n") == 1


def test_the_lines_for_a_client_have_whole_paths(tmp_path, docs, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text("concurrency = 2\n")
    place, model = ["--corpus", str(docs)], ["--model", "openai/docs"]
    for given, name, args in (
        (["-c", "notes=docs", "--json"], "notes", ["--corpus", f"notes={docs}"]),
        (["--json", "-qcdocs"], "docs", ["--quiet", *place]),
        (["--corpus=docs", "--config", "own.toml"], "docs", [*place, "--config", str(tmp_path / "own.toml")]),
    ):
        assert run(["mcp", *given, *model, "--json"]) == 0
        ((key, made),) = json.loads(capsys.readouterr().out)["mcpServers"].items()
        assert key == name and Path(made["command"]).is_absolute()
        assert made["args"][made["args"].index("mcp") + 1 :] == [*args, *model]


def test_wrong_options_are_refused(tmp_path, capsys):
    assert run(["mcp", "--method", "ragg"]) == 2
    assert "rag" in capsys.readouterr().err
    wrong = ["--method", "direct", "--model", "gguf/no-such-model", "--support", "wrods"]
    assert run(["mcp", *wrong]) == 2
    assert "no check of support is called 'wrods'" in capsys.readouterr().err
    assert set(TOOLS) == {"ask", "check", "retrieve", "fetch"}

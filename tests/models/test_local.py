"""Servers on this machine: found where they usually are, and harmless whatever answers there."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.app import catalogue
from reground.core.errors import ConfigurationError, ModelError, TransientModelError
from reground.core.language import Message, Sampling
from reground.models import LOCAL_SERVERS, servers
from reground.models.openai import Provider, command_words, model_names
from reground.models.options import Listing, ModelOptions
from reground.models.servers import OLLAMA, ollama_url
from reground.testing.openai_server import MockOpenAI
from tests.servers import Recorded, RecordedServer

LOCAL = {name: getattr(servers, name.upper()) for name in LOCAL_SERVERS}
ASK = (Message(role="user", content="one two"),)


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    for name in ("OLLAMA_HOST", *(kind.key_env for kind in LOCAL.values())):
        monkeypatch.delenv(name, raising=False)


def at(kind: str, url: str) -> Provider:
    """This kind of server at another place."""
    return replace(LOCAL[kind], url=url)


async def listed(url: str, kind: str = "lmstudio") -> list[Listing]:
    return await at(kind, url).available(ModelOptions())


@pytest.mark.parametrize(("kind", "port"), [("ollama", 11434), ("lmstudio", 1234), ("llamacpp", 8080), ("vllm", 8000)])
def test_each_is_looked_for_on_its_usual_port(kind: str, port: int) -> None:
    model = catalogue.load_model(f"{kind}/m")
    assert getattr(model, "served_at", None) == f"http://127.0.0.1:{port}/v1"
    assert model.name == f"{kind}/m"


@pytest.mark.parametrize("kind", LOCAL)
async def test_its_models_are_found_and_can_be_asked_without_a_key_and_price(kind: str) -> None:
    async with MockOpenAI(models=("qwen3:8b", "/models/a b.gguf", "text-embedding-nomic")) as server:
        lines = await listed(server.url, kind)
        model = at(kind, server.url).create("qwen3:8b", ModelOptions())
        (reply,) = await model.generate(ASK, Sampling())
        await model.aclose()
    assert [(line.name, line.usable, line.use) for line in lines] == [
        (f"{kind}//models/a b.gguf", True, f"--model '{kind}//models/a b.gguf'"),
        (f"{kind}/qwen3:8b", True, f"--model {kind}/qwen3:8b"),
        (f"{kind}/text-embedding-nomic", False, None),
    ]
    assert {line.server for line in lines} == {server.url}
    assert (reply.text, reply.usage.usd) == ("one two", 0.0)
    assert "Authorization" not in server.headers


async def test_a_probe_sends_no_key_and_says_where_one_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MockOpenAI(key="its-key") as server:
        (without,) = await listed(server.url, "llamacpp")
        monkeypatch.setenv("LLAMA_API_KEY", "another-key")
        (having,) = await listed(server.url, "llamacpp")
    assert not without.usable and "set LLAMA_API_KEY" in without.why
    assert having.usable and "LLAMA_API_KEY is set" in having.why
    refused = Recorded(401, '{"error": {"message": "no"}}')
    async with RecordedServer([refused]) as server:
        await listed(server.url + "/v1", "llamacpp")
        assert "Authorization" not in server.asked[0].headers
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        monkeypatch.setenv("OLLAMA_API_KEY", "its-key")
        (told,) = await OLLAMA.available(ModelOptions())
        assert server.asked[1].headers["Authorization"] == "Bearer its-key"
    assert not told.usable and "refused the key in OLLAMA_API_KEY" in told.why


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"object": "list", "data": null}', "has no model yet"),
        ('{"object": "list", "data": []}', "has no model yet"),
        ('{"data": "no list"}', "another kind of server"),
        ('{"error": "Unexpected endpoint or method"}', "another kind of server"),
        ("<html>Welcome</html>", "another kind of server"),
        ("[" * 100_000, "another kind of server"),
        ('{"data": [1, null, {"id": 5}, {"id": "x\\u001b[2J"}, {"id": ""}, {"id": "  "}]}', "has no model yet"),
    ],
)
async def test_what_lists_no_models_is_said(body: str, why: str) -> None:
    async with RecordedServer([Recorded(200, body)]) as server:
        (line,) = await listed(server.url + "/v1")
    assert (line.usable, line.use) == (False, None)
    assert why in line.why


@pytest.mark.parametrize("status", [302, 400, 403, 404, 405, 418, 429, 500, 503])
async def test_a_refusal_is_one_line(status: int) -> None:
    headers = {"Location": "http://127.0.0.1:9/elsewhere"} if status == 302 else {}
    async with RecordedServer([Recorded(status, "x" * 100_000, headers)]) as server:
        (line,) = await listed(server.url + "/v1")
        assert len(server.asked) == 1  # no redirect is followed and nothing is tried again
    assert not line.usable
    assert len(line.why) < 1000 and line.why.isprintable()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


@contextlib.asynccontextmanager
async def raw(answer: Answering) -> AsyncIterator[str]:
    """A server without a protocol; its URL."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await answer(reader, writer)  # type: ignore[misc]
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def talks_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01\xff SSH-2.0-what\r\n" * 1000)
    await writer.drain()


async def never_ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b'\r\n{"data": [')
    while True:
        writer.write(b'{"id": "model"},' * 4096)
        await writer.drain()


async def bombs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    packed = gzip.compress(b'{"data": [' + b" " * (1 << 26))
    writer.write(HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)
    await writer.drain()


@pytest.mark.parametrize("answer", [says_nothing, talks_nonsense, never_ends, bombs])
async def test_a_server_that_means_harm_does_none(answer: Answering) -> None:
    async with raw(answer) as url:
        lines = await asyncio.wait_for(listed(url), 25)  # a server without an end would hold it for 30 s and more
    assert [line.usable for line in lines] == [False]
    assert url in lines[0].why


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["data", "id", "object"]), inner),
        max_leaves=20,
    )
)
def test_whatever_json_a_server_sends_there_are_names_to_type_or_none(told: object) -> None:
    for name in model_names(json.dumps(told).encode()) or ():
        assert name.strip() and name.isprintable()
        assert "\n" not in command_words(name)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        (":1234", "http://127.0.0.1:1234/v1"),
        ("box", "http://box:11434/v1"),
        ("box:1234", "http://box:1234/v1"),
        ("http://box", "http://box:80/v1"),
        ("https://box/ollama/", "https://box:443/ollama/v1"),
        ("http://box:1234/v1", "http://box:1234/v1"),
        ("[::1]:1234", "http://[::1]:1234/v1"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert ollama_url() == url


@pytest.mark.parametrize("host", ["box:port", "ftp://box"])
def test_what_is_no_address_is_said(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(ConfigurationError, match="OLLAMA_HOST"):
        OLLAMA.create("llama3.2", ModelOptions())


async def test_a_server_that_never_answered_is_not_waited_for_and_one_that_did_is() -> None:
    async with MockOpenAI() as server:
        url = server.url
        model = OLLAMA.create("mock", ModelOptions(base_url=url))
        await model.generate(ASK, Sampling())
    with pytest.raises(TransientModelError, match=r"cut the connection|OLLAMA_HOST"):
        await model.generate(ASK, Sampling())
    await model.aclose()
    fresh = OLLAMA.create("mock", ModelOptions(base_url=url))
    with pytest.raises(ModelError, match="ollama serve") as refused:
        await fresh.generate(ASK, Sampling())
    assert not isinstance(refused.value, TransientModelError)
    await fresh.aclose()

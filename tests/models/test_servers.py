"""Servers on this machine, found where they usually are and harmless whatever answers there, and hosted providers.

The replies of Anthropic and Gemini are in tests/recorded/wire, each with its source, as they are documented.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from reground.app import catalogue
from reground.app.options import Serve
from reground.core.errors import (
    AuthenticationError,
    CapabilityError,
    ConfigurationError,
    ModelError,
    TransientModelError,
)
from reground.core.http import redacted
from reground.core.language import Grammar, Message, Reply, Sampling
from reground.core.run import Run
from reground.models import LOCAL_SERVERS, servers
from reground.models._openai_protocol import read_complaint, without_key
from reground.models.openai import OpenAIModel, command_words, model_names
from reground.models.options import Listing, ModelOptions, Price
from reground.models.servers import OLLAMA, ollama_url
from reground.models.wrappers import Retry
from reground.testing.openai_server import MockOpenAI
from tests.servers import Recorded, RecordedServer

LOCAL = {name: getattr(servers, name.upper()) for name in LOCAL_SERVERS}
ASK = (Message(role="user", content="one two"),)


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-key-that-must-not-leave")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    for name in ("OLLAMA_HOST", *(kind.key_env for kind in LOCAL.values())):
        monkeypatch.delenv(name, raising=False)
    for hosted in HOSTED.values():
        monkeypatch.setenv(hosted.key_env, KEYS[hosted.name])


async def listed(url: str, kind: str = "lmstudio") -> list[Listing]:
    """The models of this kind of server at another place."""
    return await replace(LOCAL[kind], url=url).available(ModelOptions())


@pytest.mark.parametrize(
    ("kind", "port"), [("ollama", 11434), ("lmstudio", 1234), ("llamacpp", 8080), ("vllm", 8000), ("sglang", 30000)]
)
def test_each_is_looked_for_on_its_usual_port(kind: str, port: int) -> None:
    model = catalogue.load_model(f"{kind}/m")
    assert getattr(model, "served_at", None) == f"http://127.0.0.1:{port}/v1"
    assert model.name == f"{kind}/m"


@pytest.mark.parametrize("kind", LOCAL)
async def test_its_models_are_found_and_can_be_asked_without_a_key_and_price(kind: str) -> None:
    async with MockOpenAI(models=("qwen3:8b", "/models/a b.gguf", "text-embedding-nomic")) as server:
        lines = await listed(server.url, kind)
        model = LOCAL[kind].create("qwen3:8b", ModelOptions(base_url=server.url))
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
    async with RecordedServer([Recorded(401, '{"error": {"message": "no"}}')]) as server:
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


async def test_regrounds_own_server_is_no_model() -> None:
    entry = {"id": "rag/gguf/m@docs", "object": "model", "created": 1, "owned_by": "reground"}
    async with RecordedServer([Recorded(200, json.dumps({"object": "list", "data": [entry]}))]) as server:
        (line,) = await listed(server.url + "/v1", "vllm")
    assert not line.usable and "is reground itself" in line.why
    assert Serve(method=["rag"]).port not in {URL(str(kind.url)).port for kind in LOCAL.values() if kind.url_env == ""}


@pytest.mark.parametrize("status", [302, 400, 403, 404, 405, 418, 429, 500, 503])
async def test_a_refusal_is_one_line(status: int) -> None:
    headers = {"Location": "http://127.0.0.1:9/elsewhere"} if status == 302 else {}
    async with RecordedServer([Recorded(status, "x" * 100_000, headers)]) as server:
        (line,) = await listed(server.url + "/v1")
        assert len(server.asked) == 1  # no redirect is followed and nothing is tried again
    assert not line.usable
    assert len(line.why) < 1000 and line.why.isprintable()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


async def says_nothing(wire: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def talks_nonsense(wire: asyncio.StreamWriter) -> None:
    wire.write(b"\x00\x01\xff SSH-2.0-what\r\n" * 1000)


async def never_ends(wire: asyncio.StreamWriter) -> None:
    wire.write(HEAD + b'\r\n{"data": [')
    while True:
        wire.write(b'{"id": "model"},' * 4096)
        await wire.drain()


async def bombs(wire: asyncio.StreamWriter) -> None:
    packed = gzip.compress(b'{"data": [' + b" " * (1 << 26))
    wire.write(HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)


@pytest.mark.parametrize("answer", [says_nothing, talks_nonsense, never_ends, bombs])
async def test_a_server_that_means_harm_does_none(answer: Callable[[asyncio.StreamWriter], object]) -> None:
    async def connected(reader: asyncio.StreamReader, wire: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await answer(wire)  # type: ignore[misc]
            await wire.drain()
        wire.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    lines = await asyncio.wait_for(listed(url), 25)  # a server without an end would hold it for 30 s and more
    server.close()
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


HOSTS = {
    "": "http://127.0.0.1:11434/v1", "0.0.0.0": "http://127.0.0.1:11434/v1", ":1234": "http://127.0.0.1:1234/v1",
    "box": "http://box:11434/v1", "box:1234": "http://box:1234/v1", "http://box": "http://box:80/v1",
    "https://box/ollama/": "https://box:443/ollama/v1", "http://box:1234/v1": "http://box:1234/v1",
    "[::1]:1234": "http://[::1]:1234/v1", "box:port": None, "ftp://box": None,
}  # fmt: skip


@pytest.mark.parametrize(("host", "url"), HOSTS.items())
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    if url is None:
        with pytest.raises(ConfigurationError, match="OLLAMA_HOST"):
            OLLAMA.create("llama3.2", ModelOptions())
    else:
        assert ollama_url() == url


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


# --- hosted providers

HOSTED = {"anthropic": servers.ANTHROPIC, "gemini": servers.GEMINI}
KEYS = {"anthropic": "sk-ant-api03-secret-of-the-test", "gemini": "AIzaSy-secret-of-the-test"}
ENVS = {name: hosted.key_env for name, hosted in HOSTED.items()}
PATHS = {"anthropic": "/v1", "gemini": "/v1beta/openai"}
GRAMMAR = Grammar(gbnf='root ::= "yes" | "no"', json_schema='{"enum": ["yes", "no"]}')
WIRE = {
    name: json.loads((Path(__file__).parent.parent / "recorded" / "wire" / f"{name}.json").read_text())["records"]
    for name in KEYS
}


def recorded(provider: str, name: str) -> Recorded:
    """One reply of the files."""
    record = WIRE[provider][name]
    return Recorded(record["status"], json.dumps(record["body"], ensure_ascii=False), record["headers"])


@contextlib.asynccontextmanager
async def asked(
    provider: str, *replies: str | Recorded, price: Price | None = None
) -> AsyncIterator[tuple[RecordedServer, OpenAIModel]]:
    """A model of the provider behind a server with these replies, each whole or by its name in the files."""
    each = [recorded(provider, reply) if isinstance(reply, str) else reply for reply in replies]
    async with RecordedServer(each) as server:
        options = ModelOptions(base_url=server.url + PATHS[provider], api_key_env=ENVS[provider], price=price)
        model = HOSTED[provider].create("m", options)
        try:
            yield server, model
        finally:
            await model.aclose()


def written(text: str) -> Recorded:
    return Recorded(200, json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}))


class TestHosted:
    @pytest.mark.parametrize("provider", KEYS)
    async def test_a_reply_with_its_key_usage_and_price(self, provider: str) -> None:
        async with asked(provider, "success", price=Price(1.0, 1.0, 5.0)) as (server, model):
            (reply,) = await model.generate(ASK, Sampling(max_tokens=9))
        (request,) = server.asked
        assert (request.method, request.path) == ("POST", PATHS[provider] + "/chat/completions")
        assert request.headers["Authorization"] == f"Bearer {KEYS[provider]}"
        messages = [{"role": "user", "content": ASK[0].content}]
        assert request.body == {"model": "m", "messages": messages, "max_tokens": 9, "temperature": 0.0}
        assert (model.name, reply.text, reply.finish_reason) == (f"{provider}/m", "The Vistula.", "stop")
        assert (reply.usage.prompt, reply.usage.completion) == (21, 6)
        assert reply.usage.usd == pytest.approx((21 * 1.0 + 6 * 5.0) / 1e6)

    @pytest.mark.parametrize("provider", KEYS)
    def test_without_a_key_it_says_which(self, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(ENVS[provider])
        with pytest.raises(ConfigurationError, match=f"{ENVS[provider]} is not set"):
            catalogue.load_model(f"{provider}/m")

    @pytest.mark.parametrize("provider", KEYS)
    @pytest.mark.parametrize("url", ["http://box:8000/v1", "http://api.anthropic.com/v1", "https://x.example"])
    def test_its_key_goes_nowhere_else_unless_the_variable_is_named(self, provider: str, url: str) -> None:
        with pytest.raises(ConfigurationError, match="--api-key-env") as refused:
            catalogue.load_model(f"{provider}/m", ModelOptions(base_url=url))
        assert KEYS[provider] not in str(refused.value)
        catalogue.load_model(f"{provider}/m", ModelOptions(base_url=url, api_key_env=ENVS[provider]))

    @pytest.mark.parametrize(
        ("provider", "name"), [("anthropic", "overloaded"), ("gemini", "overloaded"), ("gemini", "exhausted")]
    )
    async def test_what_passes_is_tried_again(self, provider: str, name: str) -> None:
        async with asked(provider, name, name, "success") as (server, model):
            (reply,) = await Retry(model, base=0.0).generate(ASK, Sampling())
        assert reply.text == "The Vistula."
        assert len(server.asked) == 3

    @pytest.mark.parametrize(("provider", "seconds"), [("anthropic", 17.0), ("gemini", 26.0)])
    async def test_a_rate_limit_says_how_long_to_wait(self, provider: str, seconds: float) -> None:
        async with asked(provider, "rate limit") as (_, model):
            with pytest.raises(TransientModelError, match="answered 429") as limited:
                await model.generate(ASK, Sampling())
        assert limited.value.retry_after == seconds

    @pytest.mark.parametrize(
        ("provider", "name", "said"),
        [
            ("anthropic", "no money", "ANTHROPIC_API_KEY has no quota left"),
            ("anthropic", "billing", "ANTHROPIC_API_KEY has no quota left"),
            ("gemini", "day's quota", "GEMINI_API_KEY has no quota left"),
            ("gemini", "no free tier", "GEMINI_API_KEY has no quota left"),
            ("anthropic", "bad key", "refused the key in ANTHROPIC_API_KEY"),
            ("gemini", "bad key", "refused the key in GEMINI_API_KEY"),
        ],
    )
    async def test_no_money_no_quota_of_the_day_and_a_wrong_key_are_not_waited_for(
        self, provider: str, name: str, said: str
    ) -> None:
        async with asked(provider, name) as (_, model):
            with pytest.raises(ModelError, match=said) as refused:
                await model.generate(ASK, Sampling())
        assert not isinstance(refused.value, TransientModelError)
        assert isinstance(refused.value, AuthenticationError) is (name == "bad key")

    @pytest.mark.parametrize(
        ("provider", "models"), [("anthropic", "claude-opus-4-6, claude-opus-5-5"), ("gemini", "gemini-2.5-pro, ")]
    )
    async def test_its_models_are_listed(self, provider: str, models: str) -> None:
        async with RecordedServer([recorded(provider, "models")]) as server:
            there = replace(HOSTED[provider], url=server.url + PATHS[provider])
            (line,) = await there.available(ModelOptions())
        assert line.usable and models in line.why and f"key from {ENVS[provider]}" in line.why
        assert server.asked[0].path == PATHS[provider] + "/models"
        assert KEYS[provider] not in str(line)
        headers = server.asked[0].headers
        if provider == "anthropic":  # the list belongs to its own interface, which takes the key in another header
            assert (headers["x-api-key"], headers["anthropic-version"]) == (KEYS[provider], "2023-06-01")
        assert ("Authorization" in headers) == (provider == "gemini")

    @pytest.mark.parametrize("provider", KEYS)
    async def test_a_key_is_in_no_error_log_or_name(self, provider: str, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        key = KEYS[provider]
        body = json.dumps([{"error": {"code": 400, "message": f"Invalid API key: {key} is odd", "status": key}}])
        async with RecordedServer([Recorded(status, body) for status in (400, 403, 429, 500, 404)]) as server:
            there = replace(HOSTED[provider], url=server.url + PATHS[provider])
            model = there.create("m", ModelOptions())
            for _ in range(5):
                with pytest.raises(ModelError) as refused:
                    await model.generate(ASK, Sampling())
                assert key not in str(refused.value) and "secret" not in str(refused.value)
                assert refused.value.__cause__ is None
            (line,) = await there.available(ModelOptions())
        assert key not in repr(model) + model.identity + str(line)
        assert key not in caplog.text

    @pytest.mark.parametrize("spelling", [str.upper, "\n".join, "\u200b".join])
    async def test_a_key_that_a_server_repeats_is_kept_nowhere(self, spelling: Callable[[str], str]) -> None:
        key = spelling(KEYS["anthropic"])
        scored = [{"token": each, "logprob": -1.0} for each in key]
        message = {"content": f"It is {key}.", "reasoning": f"{key}?"}
        choice = {"message": message, "finish_reason": key, "logprobs": {"content": scored}}
        replies = [Recorded(200, json.dumps({"choices": [choice]}))]
        replies += [Recorded(400, json.dumps({"error": {"message": f"odd: {key}", "code": key}}))]
        async with asked("anthropic", *replies) as (_, model):
            (reply,) = await model.generate(ASK, Sampling())
            with pytest.raises(ModelError) as refused:
                await model.generate(ASK, Sampling())
        for said in (reply.text, reply.reasoning, reply.finish_reason, reply.token_logprobs, refused.value):
            assert "secretofthetest" not in re.sub(r"\W", "", str(said)).lower()
        assert reply.text == "It is [key]."

    @pytest.mark.parametrize("key", ["ollama", "EMPTY", "my-own-local-key"])
    def test_a_word_that_is_a_key_too_may_be_said(self, key: str) -> None:
        reply = Reply(text=f"With {key.replace('-', ' ')} it runs; EMPTY stays.", finish_reason="stop")
        assert without_key(reply, key) == reply

    @given(
        st.text(alphabet="ab -", max_size=900),
        st.text(alphabet="XYZ0123456789", min_size=8, max_size=60),
        st.text(alphabet="ab -", max_size=900),
        st.integers(1, 40),
    )
    @example("", "XY9Z" * 15, "", 40)
    def test_no_piece_of_a_key_of_any_form_is_left_wherever_a_long_message_is_cut(
        self, before: str, key: str, after: str, times: int
    ) -> None:
        message = (before + key) * times * 2 + after
        complaint = read_complaint(400, {}, json.dumps({"error": {"message": message}}).encode())
        said = redacted(complaint.message, key)
        assert len(said) <= 400
        assert not any(key[at : at + 5] in said for at in range(len(key) - 4))


class TestAnthropic:
    async def test_what_it_ignores_is_not_sent_and_replies_are_asked_for_one_by_one(self) -> None:
        async with asked("anthropic", "success") as (server, model):
            replies = await model.generate(ASK, Sampling(n=3, temperature=0.7, seed=5))
        assert len(replies) == len(server.asked) == 3
        assert sum(reply.usage.calls for reply in replies) == 3
        assert all(not {"n", "seed", "logprobs", "response_format"} & set(each.body) for each in server.asked)

    async def test_log_probabilities_that_are_welcome_are_left_out_and_those_needed_are_an_error(self) -> None:
        async with asked("anthropic", "success") as (server, model):
            with pytest.raises(CapabilityError, match="anthropic/m gives no log-probabilities"):
                await Run().generate(model, "Why?", name="a", sampling=Sampling(logprobs=True))
            assert server.asked == []  # nothing was paid for
            for wish in ({"logprobs": True}, {"grammar": GRAMMAR}):
                (reply,) = await Run().generate(
                    model, "Why?", name="a", sampling=Sampling(**wish), logprobs="welcome", grammar="welcome"
                )
                assert reply.text == "The Vistula."
            with pytest.raises(CapabilityError, match="grammar"):
                await Run().generate(model, "Why?", name="a", sampling=Sampling(grammar=GRAMMAR))

    @pytest.mark.parametrize(("refusal", "name"), [("no temperature", "temperature"), ("not both", "top_p")])
    async def test_a_parameter_that_a_model_refuses_is_left_out_from_then_on(self, refusal: str, name: str) -> None:
        async with asked("anthropic", refusal, "success") as (server, model):
            for _ in range(2):
                await model.generate(ASK, Sampling(temperature=0.7, top_p=0.9))
        assert [name in each.body for each in server.asked] == [True, False, False]
        assert {"temperature", "top_p"} & server.asked[-1].body.keys() == {"temperature", "top_p"} - {name}

    async def test_stop_strings_of_white_space_are_applied_here(self) -> None:
        async with asked("anthropic", written("One.\nTwo.")) as (server, model):
            (reply,) = await model.generate(ASK, Sampling(stop=("\n", "END")))
            (whole,) = await model.generate(ASK, Sampling(stop=("END",)))
            await model.generate(ASK, Sampling(stop=("\n",)))
        assert [each.body.get("stop") for each in server.asked] == [["END"], ["END"], None]
        assert (reply.text, whole.text) == ("One.", "One.\nTwo.")


class TestGemini:
    async def test_no_seed_and_at_most_eight_replies_a_request(self) -> None:
        async with asked("gemini", "eight") as (server, model):
            replies = await model.generate(ASK, Sampling(n=11, temperature=0.7, seed=5))
        assert len(replies) == 11
        assert [each.body.get("n", 1) for each in server.asked] == [8, 3]
        assert all("seed" not in each.body for each in server.asked)

    @pytest.mark.parametrize("name", ["one candidate", "range of candidates"])
    async def test_a_model_of_one_candidate_is_asked_one_by_one(self, name: str) -> None:
        async with asked("gemini", name, "success") as (server, model):
            replies = await model.generate(ASK, Sampling(n=3, temperature=0.7))
        assert len(replies) == 3
        assert ["n" in each.body for each in server.asked] == [True, False, False, False]

    async def test_a_model_without_log_probabilities(self) -> None:
        async with asked("gemini", "no logprobs", "no logprobs", "success") as (server, model):
            with pytest.raises(CapabilityError, match="Logprobs is not enabled"):
                await model.generate(ASK, Sampling(logprobs=True))
            wish = Sampling(logprobs=True)
            (reply,) = await Run().generate(model, "Why?", name="a", sampling=wish, logprobs="welcome")
        assert reply.text == "The Vistula."
        assert "logprobs" not in server.asked[-1].body

    @pytest.mark.parametrize(("name", "tokens"), [("thought", 603), ("thought without end", 60), ("success", 6)])
    async def test_thoughts_are_paid_for(self, name: str, tokens: int) -> None:
        async with asked("gemini", name) as (_, model):
            (reply,) = await model.generate(ASK, Sampling())
        assert reply.usage.completion == tokens

    @pytest.mark.parametrize("name", ["filtered", "filtered in its own words"])
    async def test_what_a_filter_held_back_is_an_empty_reply_and_no_fault(self, name: str) -> None:
        async with asked("gemini", name) as (server, model):
            (reply,) = await Retry(model, base=0.0).generate(ASK, Sampling())
        assert (reply.text, reply.finish_reason, len(server.asked)) == ("", "content_filter", 1)

    async def test_only_five_stop_strings_are_sent_and_the_others_are_applied_here(self) -> None:
        async with asked("gemini", written("a b6 c")) as (server, model):
            (reply,) = await model.generate(ASK, Sampling(stop=tuple(f"b{n}" for n in range(1, 7))))
        assert server.asked[0].body["stop"] == ["b1", "b2", "b3", "b4", "b5"]
        assert reply.text == "a "

import asyncio
import contextlib
import gzip
import json
import resource
import tracemalloc

import pytest
from yarl import URL

from reground.core.budget import Budget
from reground.core.errors import (
    CapabilityError,
    ConfigurationError,
    ModelError,
    TransientModelError,
)
from reground.core.http import LARGE, BadBody, read_body, read_json
from reground.core.language import Grammar, LanguageModel, Message, Sampling
from reground.core.run import Run
from reground.models._openai_protocol import read_replies
from reground.models.openai import OPENAI, OpenAIModel, control_tokens, is_private
from reground.models.options import ModelOptions, Price
from reground.models.wrappers import Retry
from reground.testing.openai_server import MockOpenAI
from tests.models import says

SECRET = "sk-very-secret-0123456789"
ASK = (Message(role="system", content="be brief"), Message(role="user", content="one two three"))

GRAMMAR = Grammar(gbnf='root ::= "yes" | "no"', json_schema='{"enum": ["yes", "no"]}')
JSON_SCHEMA = {"name": "reply", "strict": True, "schema": {"enum": ["yes", "no"]}}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@contextlib.asynccontextmanager
async def adapter(model="mock", *, key=None, script=None, timeout=300.0, price=None, **server):
    arguments = () if script is None else (script,)
    async with MockOpenAI(*arguments, key=key, **server) as mock:
        made = OPENAI.create(model, ModelOptions(base_url=mock.url, timeout=timeout, price=price))
        try:
            yield mock, made
        finally:
            await made.aclose()


def proxied(monkeypatch, scheme, proxy):
    """Let the environment name this proxy alone."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv(f"{scheme}_proxy", proxy)


@contextlib.asynccontextmanager
async def refusing_proxy(status):
    """A proxy that opens no tunnel; gives its port."""

    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_a_reply_with_its_usage_and_price():
    async with adapter(cached=2, price=Price(1.0, 0.5, 2.0)) as (_, model):
        (reply,) = await model.generate(ASK, Sampling())
    assert isinstance(model, LanguageModel)
    assert model.name == "openai/mock"
    assert (reply.text, reply.finish_reason, reply.token_logprobs) == ("one two three", "stop", None)
    usage = reply.usage
    assert (usage.calls, usage.prompt, usage.cached, usage.completion) == (1, 5, 2, 3)
    assert usage.usd == pytest.approx((3 * 1.0 + 2 * 0.5 + 3 * 2.0) / 1e6)


async def test_the_request_holds_what_was_asked_for_and_nothing_else():
    async with adapter() as (mock, model):
        await model.generate(ASK, Sampling(max_tokens=7))
        await model.generate(
            ASK, Sampling(n=2, temperature=0.5, top_p=0.9, max_tokens=7, stop=("END",), seed=3, logprobs=True)
        )
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "one two three"}]
    assert mock.received[0] == {"model": "mock", "messages": messages, "max_tokens": 7, "temperature": 0.0}
    assert mock.received[1] == {
        "model": "mock",
        "messages": messages,
        "max_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 3,
        "n": 2,
        "logprobs": True,
    }


async def test_the_key_is_sent_and_never_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f" {SECRET}\n")
    async with adapter(key=SECRET) as (mock, model):
        await model.generate(ASK, Sampling())
        assert mock.headers["Authorization"] == f"Bearer {SECRET}"
        assert SECRET not in repr(model) + model.identity


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({"props": {}}, {"grammar": GRAMMAR.gbnf}),
        ({"version": {"version": "0.12"}}, {"structured_outputs": {"grammar": GRAMMAR.gbnf}}),
        ({}, {"response_format": {"type": "json_schema", "json_schema": JSON_SCHEMA}}),
    ],
    ids=["llama.cpp", "vLLM", "others"],
)
async def test_a_grammar_is_sent_as_the_server_reads_it(pages, expected):
    async with adapter(pages=pages) as (mock, model):
        await asyncio.gather(*(model.generate(ASK, Sampling(grammar=GRAMMAR)) for _ in range(3)))
        await model.generate(ASK, Sampling())
    assert all(body.items() >= expected.items() for body in mock.received[:3])
    assert not mock.received[3].keys() & expected.keys()
    assert len(set(mock.asked)) == len(mock.asked), "each page is asked for once"


async def test_a_server_too_busy_to_tell_what_it_is_is_asked_again():
    async with adapter(pages={"props": {}}, timeout=0.5) as (mock, model):
        mock.busy = [5.0]
        for _ in range(2):
            await model.generate(ASK, Sampling(grammar=GRAMMAR))
    assert "response_format" in mock.received[0]
    assert mock.received[1]["grammar"] == GRAMMAR.gbnf


async def test_a_server_that_never_tells_what_it_is_is_not_waited_for_for_ever():
    async with adapter(timeout=0.2) as (mock, model):
        mock.busy = [5.0] * 40
        for _ in range(6):
            await model.generate(ASK, Sampling(grammar=GRAMMAR))
        asked = len(mock.asked)
        await model.generate(ASK, Sampling(grammar=GRAMMAR))
    assert len(mock.asked) == asked, "it has been given up"
    assert len(mock.received) == 7


async def test_a_server_that_cannot_keep_to_a_grammar_is_named():
    async with adapter(refuses=("response_format",)) as (_, model):
        with pytest.raises(CapabilityError, match="cannot keep a reply to a grammar") as refusal:
            await model.generate(ASK, Sampling(grammar=GRAMMAR))
    assert refusal.value.lacks == "grammar"


class TestSamples:
    @pytest.mark.parametrize(("granted", "requests"), [(1, [7, 1, 1, 1, 1, 1, 1]), (3, [7, 3, 1]), (4, [7, 3])])
    async def test_the_missing_are_asked_for_with_seeds_of_their_own(self, granted, requests):
        async with adapter(max_samples=granted) as (mock, model):
            replies = await model.generate(ASK, Sampling(n=7, temperature=1, seed=10))
        assert len(replies) == 7
        assert [body.get("n", 1) for body in mock.received] == requests
        seeds = [body["seed"] for body in mock.received]
        assert len(set(seeds)) == len(seeds)
        assert sum(reply.usage.calls for reply in replies) == len(requests)
        assert sum(reply.usage.completion for reply in replies) == 3 * 7

    async def test_a_retry_asks_only_for_the_samples_still_missing(self):
        async with adapter(max_samples=1) as (mock, model):
            mock.misbehave("ok", "503", "ok", "cut")
            replies = await Retry(model, base=0.0).generate(ASK, Sampling(n=5, temperature=1))
        assert len(replies) == 5
        assert sum(mock.completed.values()) == 5
        assert sum(reply.usage.calls for reply in replies) == 5

    async def test_a_budget_counts_the_prompt_of_every_request(self):
        async with adapter(max_samples=1) as (_, model):
            await model.generate(ASK, Sampling(n=2, temperature=1))  # now it is known
            run = Run(budget=Budget(tokens=200, calls=9))
            await run.generate(model, ASK, name="x", sampling=Sampling(n=50, temperature=1, max_tokens=8))
            assert 0 < run.usage.tokens <= 200 and run.usage.calls <= 9
            calls = Run(budget=Budget(calls=3))
            assert len(await calls.generate(model, ASK, name="x", sampling=Sampling(n=5, temperature=1))) == 3


class TestDialects:
    async def test_a_reasoning_model_that_takes_no_sampling_parameters(self):
        refuses = ("max_tokens", "temperature", "top_p", "seed", "stop")
        async with adapter(refuses=refuses, script=lambda body: "a b STOP c END d") as (mock, model):
            sampling = Sampling(temperature=0.3, top_p=0.5, seed=1, stop=("END", "STOP"))
            (reply,) = await model.generate(ASK, sampling)
        assert set(mock.received[-1]) == {"model", "messages", "max_completion_tokens"}
        assert reply.text == "a b "

    async def test_a_refused_parameter_that_is_not_sent_any_more_is_an_error(self):
        async with adapter() as (mock, model):
            for _ in range(2):
                mock.misbehave("400:temperature is not supported")
            with pytest.raises(ModelError, match="temperature is not supported"):
                await model.generate(ASK, Sampling())
            assert len(mock.received) == 2


class TestFailures:
    @pytest.mark.parametrize(
        "fault",
        ["408", "409", "429", "500", "503", "page", "cut", "hang-up", "malformed", "malformed: ", "malformed:[]",
         'malformed:{"choices": []}', 'malformed:{"choices": [{}]}', "malformed:\x00",
         'malformed:{"choices": [{"message": {"content": 42}}]}',
         'malformed:{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": "many"}}',
         'malformed:{"choices": [{"message": {"content": "x"}, "logprobs": {"content": [{"token": 1}]}}]}'],
    )  # fmt: skip
    async def test_what_may_pass_is_transient(self, fault):
        async with adapter() as (mock, model):
            mock.misbehave(fault)
            with pytest.raises(TransientModelError) as caught:
                await model.generate(ASK, Sampling())
            assert mock.url in str(caught.value)
            assert "\n" not in str(caught.value)
            (reply,) = await model.generate(ASK, Sampling())
        assert reply.text == "one two three"

    async def test_a_stall_ends_with_the_timeout(self):
        async with adapter(timeout=0.1) as (mock, model):
            mock.misbehave("stall")
            with pytest.raises(TransientModelError, match=r"no reply within 0\.1 s"):
                await model.generate(ASK, Sampling())

    async def test_a_redirect_is_told(self):
        async with adapter() as (mock, model):
            mock.misbehave("redirect")
            with pytest.raises(ModelError, match="redirects elsewhere"):
                await model.generate(ASK, Sampling())

    async def test_an_unknown_model_lists_what_there_is(self):
        async with adapter("mick", models=("mock", "other")) as (_, model):
            with pytest.raises(ModelError, match=r"no model 'mick'; did you mean mock\? it serves mock, other"):
                await model.generate(ASK, Sampling())

    @pytest.mark.parametrize("path", ["", "/", "/api/", "/v1/chat/completions"])
    async def test_an_address_beside_the_interface_gets_the_right_one_told(self, path):
        async with MockOpenAI() as mock:
            model = OpenAIModel("mock", ModelOptions(base_url=mock.origin + path))
            with pytest.raises(ModelError, match=f"give {mock.url} as base URL"):
                await model.generate(ASK, Sampling())
            await model.aclose()

    async def test_an_unreachable_server_says_what_to_do(self, unused_tcp_port):
        model = OpenAIModel("mock", ModelOptions(base_url=f"http://127.0.0.1:{unused_tcp_port}/v1"))
        with pytest.raises(TransientModelError, match=f"cannot reach http://127.0.0.1:{unused_tcp_port}/v1") as caught:
            await model.generate(ASK, Sampling())
        assert "OPENAI_BASE_URL" in str(caught.value)
        await model.aclose()

    async def test_tls_that_cannot_be_trusted_is_not_tried_again(self):
        async with MockOpenAI() as mock:
            model = OpenAIModel("mock", ModelOptions(base_url=mock.url.replace("http:", "https:")))
            with pytest.raises(ModelError, match="no trusted TLS") as caught:
                await model.generate(ASK, Sampling())
            assert not isinstance(caught.value, TransientModelError)
            await model.aclose()


class TestSettings:
    async def test_the_base_url_comes_from_the_environment(self, monkeypatch):
        async with MockOpenAI() as mock:
            monkeypatch.setenv("OPENAI_BASE_URL", mock.url + "/")
            model = OpenAIModel("mock")
            assert len(await model.generate(ASK, Sampling())) == 1
            await model.aclose()

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            *((url, "base URL") for url in ("localhost:8000", "ftp://x/v1", "http://", "http://[broken")),
            ("http://me:hidden@127.0.0.1:9/v1", r"OPENAI_BASE_URL.*--api-key-env"),
            ("http://127.0.0.1:9/v1?api-key=hidden", r"OPENAI_BASE_URL.*--api-key-env"),
            ("//me:hidden@127.0.0.1", r"OPENAI_BASE_URL.*--api-key-env"),
        ],
    )
    def test_a_base_url_that_is_none_or_holds_a_password_is_refused_and_not_shown(self, monkeypatch, url, said):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        with pytest.raises(ConfigurationError, match=said) as refused:
            OpenAIModel("m")
        assert "hidden" not in str(refused.value)

    async def test_the_environments_proxy_is_used_for_other_machines_only(self, monkeypatch):
        async with MockOpenAI() as proxy, MockOpenAI() as mock:
            monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            near = OpenAIModel("mock", ModelOptions(base_url=mock.url))
            far = OpenAIModel("mock", ModelOptions(base_url="http://models.example/v1"))
            await near.generate(ASK, Sampling())
            await far.generate(ASK, Sampling())
            assert (len(mock.received), len(proxy.received)) == (1, 1)
            assert proxy.headers["Host"] == "models.example"
            await near.aclose()
            await far.aclose()

    @pytest.mark.parametrize(
        ("proxy", "said"),
        [
            ("socks5h://me:hidden@127.0.0.1:1080", "HTTPS_PROXY is a socks5h proxy, and only HTTP proxies"),
            ("http://me:hidden@box:port", "HTTPS_PROXY must look like http://"),
            ("http://[hidden", "HTTPS_PROXY must look like http://"),
        ],
    )
    def test_a_proxy_that_cannot_be_used_is_told_before_anything_is_asked(self, monkeypatch, proxy, said):
        proxied(monkeypatch, "https", proxy)
        with pytest.raises(ConfigurationError, match=said) as refused:
            OpenAIModel("m", ModelOptions(base_url="https://models.example/v1"))
        assert "hidden" not in str(refused.value)
        OpenAIModel("m", ModelOptions(base_url="https://127.0.0.1/v1"))  # which needs none

    @pytest.mark.parametrize(
        ("status", "said", "passing"),
        [
            (407, "HTTPS_PROXY wants a user and a password", False),
            (403, r"HTTPS_PROXY gives no way to models\.example \(403\)", False),
            (502, r"HTTPS_PROXY gives no way to models\.example \(502\)", True),
            (None, r"cannot reach the proxy in HTTPS_PROXY \(connection refused\)", True),
        ],
    )
    async def test_a_fault_of_the_proxy_is_not_told_as_the_servers(
        self, monkeypatch, unused_tcp_port, status, said, passing
    ):
        async with refusing_proxy(status) if status else contextlib.nullcontext(unused_tcp_port) as port:
            proxied(monkeypatch, "https", f"http://127.0.0.1:{port}")
            model = OpenAIModel("m", ModelOptions(base_url="https://models.example/v1"))
            with pytest.raises(ModelError, match=said) as lost:
                await model.generate(ASK, Sampling())
            await model.aclose()
        assert isinstance(lost.value, TransientModelError) is passing

    def test_one_model_serves_event_loops_in_turn(self, unused_tcp_port):
        model = OpenAIModel("mock", ModelOptions(base_url=f"http://127.0.0.1:{unused_tcp_port}/v1"))

        async def one_loop():
            mock = await MockOpenAI().start(unused_tcp_port)
            try:
                return (await model.generate(ASK, Sampling()))[0].text
            finally:
                await mock.stop()

        assert [asyncio.run(one_loop()) for _ in range(3)] == ["one two three"] * 3
        asyncio.run(model.aclose())
        assert not model._sessions._made


async def test_a_server_that_lists_its_models():
    async with MockOpenAI(models=["m0", "m1"]) as mock:
        listings = await OPENAI.available(ModelOptions(base_url=mock.url))
    assert [(each.name, each.usable, each.server) for each in listings] == [
        ("openai/m0", True, mock.url),
        ("openai/m1", True, mock.url),
    ]
    assert listings[0].why == f"{mock.url}, no key"
    assert listings[0].use == f"--model openai/m0 --base-url {mock.url}"


def completion(*messages, finish="stop", usage=None, **more):
    """A whole reply of a server with these messages, one a choice."""
    choices = [{"index": i, "message": message, "finish_reason": finish} for i, message in enumerate(messages)]
    return {"choices": choices, "usage": usage or {"prompt_tokens": 5, "completion_tokens": 9}, **more}


@pytest.mark.parametrize(
    ("message", "text", "thought"),
    [
        ({"content": "Four END.", "reasoning_content": "2+2"}, "Four END.", "2+2"),
        ({"content": "\n\nFour END.", "reasoning": "2+2"}, "Four END.", "2+2"),
        ({"content": "<think>\n2+2\n</think>\n\nFour END."}, "Four END.", "2+2"),
        ({"content": "2+2\n</think>\n\nFour END."}, "Four END.", "2+2"),
        ({"content": None, "refusal": "I will not"}, "I will not", None),
    ],
)
def test_a_message_is_read_with_its_thought_apart(message, text, thought):
    first, second = read_replies(completion(message, message), ASK, None)
    assert [(reply.text.strip(), reply.reasoning) for reply in (first, second)] == [(text, thought)] * 2
    assert (first.usage.completion, second.usage.completion) == (9, 0)


def counted(prompt, completion, total, thought):
    """The usage of a reply; what is None is left out."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    details = {"completion_tokens_details": {"reasoning_tokens": thought}}
    return {name: value for name, value in usage.items() if value is not None} | details


ESTIMATED = sum(4 + len(m.content) // 4 for m in ASK)
TWELVE = {"content": "Twelve bytes"}


@pytest.mark.parametrize(
    ("data", "prompt", "tokens"),
    [
        # xAI, whose total shows that the thought is apart
        (completion({"content": "x"}, usage=counted(10120, 1499, 14428, 2809)), 10120, 4308),
        (completion({"content": "x"}, usage=counted(10, 0, 40, 30)), 10, 30),
        # OpenAI, with the thought among the completion
        (completion({"content": "x"}, usage=counted(75, 1186, 1261, 1024)), 75, 1186),
        (completion({"content": "x"}, usage=counted(75, 64, 139, 64)), 75, 64),
        (completion({"content": "x"}, usage=counted(75, 0, 75, 0)), 75, 0),
        # totals that are left out, or that mean something else
        (completion({"content": "x"}, usage=counted(75, 9, None, 5)), 75, 9),
        (completion({"content": "x"}, usage=counted(75, 9, 99, 5)), 75, 9),
        (completion({"content": "x"}, usage=counted(75, 9, 90, None)), 75, 9),
        # llama.cpp, whose usage is that of the first choice and whose replies are told by their timings
        (completion(TWELVE, TWELVE), 5, 9),
        (completion(TWELVE, TWELVE, timings={"predicted_n": 9}), 5, 9 + 3),
        # who does not count, or tells 0
        ({"choices": [{"message": TWELVE}]}, ESTIMATED, 3),
        (completion({"content": "Four", "reasoning": "x" * 400}, usage=counted(0, 0, None, 0)), ESTIMATED, 101),
        (
            completion({"content": "x"}, usage={"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 400}}),
            7,
            0,
        ),
    ],
)
def test_what_was_read_and_written_is_paid_for_whoever_counts(data, prompt, tokens):
    replies = read_replies(data, ASK, Price(prompt=1e6, cached=1e6, completion=1e6))
    usage = replies[0].usage
    assert (usage.calls, usage.prompt, usage.completion, usage.usd) == (1, prompt, tokens, prompt + tokens)
    assert usage.cached <= prompt


@pytest.mark.parametrize("text", ["Four. ", "Four", ""])
def test_the_token_that_ended_a_reply_is_none_of_its_tokens(text):
    scored = [{"token": token, "logprob": -1} for token in ("Four", ". ", "<|im_end|>")]
    data = completion({"content": text})
    data["choices"][0]["logprobs"] = {"content": scored}
    (reply,) = read_replies(data, ASK, None)
    assert "".join(token.token for token in reply.token_logprobs) == text


def test_the_scored_samples_that_llama_cpp_does_not_count_are_counted_by_their_tokens():
    data = completion(TWELVE, TWELVE, timings={"predicted_n": 9})
    for choice in data["choices"]:
        choice["logprobs"] = {"content": [{"token": "x", "logprob": 0}] * 5}
    assert read_replies(data, ASK, None)[0].usage.completion == 9 + 5


async def test_stop_strings_that_the_server_takes_none_of_do_not_cut_a_thought():
    async with adapter(script=lambda body: "<think>an END</think>Four END.", refuses=("stop",)) as (_, model):
        (reply,) = await model.generate(ASK, Sampling(stop=("END",), logprobs=True))
    assert (reply.reasoning, reply.text) == ("an END", "Four ")
    assert "".join(token.token for token in reply.token_logprobs or ()) == reply.text


@pytest.mark.parametrize("finish", ["error", "insufficient_system_resource", "abort", "network_error"])
async def test_a_reply_that_the_server_broke_off_is_asked_for_again(finish):
    async with adapter() as (mock, model):
        broken = f"malformed:{json.dumps(completion({'content': 'The first half of'}, finish=finish))}"
        mock.misbehave(broken)
        with pytest.raises(TransientModelError, match=rf"broke its reply off \({finish}\)"):
            await model.generate(ASK, Sampling())
        mock.misbehave(broken)
        (reply,) = await Retry(model, base=0.0).generate(ASK, Sampling())
    assert reply.text == "one two three"


async def test_half_a_surrogate_pair_that_a_token_limit_left_is_a_reply_all_the_same():
    async with adapter() as (mock, model):
        mock.misbehave('malformed:{"choices": [{"message": {"content": "smile \\ud83d"}}]}')
        (reply,) = await model.generate(ASK, Sampling())
    assert reply.text == "smile \ufffd"
    reply.text.encode()


# What a server may send: no more than the call can need, packed or not, and not ever more slowly.


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("fault", ["flood:400", "bomb:400"])
async def test_a_flood_is_refused_at_once_and_is_not_kept_in_memory(fault):
    async with adapter() as (mock, model):
        before = peak_mib()
        mock.misbehave(fault)
        with pytest.raises(ModelError, match="sent more than the 2 MiB that a reply to this call may take") as refused:
            await model.generate(ASK, Sampling())
        assert peak_mib() - before < 100
        assert not isinstance(refused.value, TransientModelError)
        assert len(mock.received) == 1
        (reply,) = await model.generate(ASK, Sampling())
    assert reply.text == "one two three"


class Pieces:
    """A reply that comes in these pieces."""

    def __init__(self, *pieces):
        self.headers = {"Content-Encoding": "gzip"}
        self.content, self.pieces, self.closed = self, list(pieces), False

    def is_eof(self):
        return True

    async def readany(self):
        return self.pieces.pop(0) if self.pieces else b""

    def close(self):
        self.closed = True


ONE, TWO = (gzip.compress(text, mtime=0) for text in (b"one", b"two"))


@pytest.mark.parametrize("more", [[TWO], [bytes(512)], [b"!", b"!"]], ids=["member", "padding", "garbage"])
async def test_what_follows_the_end_of_a_packed_reply_is_passed_over(more):
    assert await read_body(Pieces(ONE, *more), LARGE) == b"one"
    assert await read_body(Pieces(ONE + b"".join(more)), LARGE) == b"one"


# The last block of no bytes is a packed nothing, of which there may be any number.
@pytest.mark.parametrize("begin", [ONE, ONE[:10]], ids=["after the end", "before it"])
async def test_pieces_that_unpack_to_nothing_count_as_well(begin):
    reply = Pieces(begin, *[b"\0\0\0\xff\xff" * 100_000] * 8)
    tracemalloc.start()
    with pytest.raises(BadBody, match="sent more than the 1 MiB"):
        await read_body(reply, LARGE)
    assert tracemalloc.get_traced_memory()[1] < 2 * LARGE
    tracemalloc.stop()
    assert reply.closed


@pytest.mark.parametrize("body", [b"[" * 3_000_000, b"[" * 5_000, b"{" + b" " * 3_000_000, b"\xff{"])
def test_what_is_no_json_is_a_value_error(body):
    with pytest.raises(ValueError, match=r"nested|Expect|expected|EOF|recursion"):
        read_json(body)


# A server's own control tokens are broken in what goes to it, though nobody here knows them beforehand.

PROPS = {
    "bos_token": "<~begin~>",
    "eos_token": "\n\n",
    "media_marker": "<__media_x__>",
    "chat_template": "{% for m in messages[1:] %}{{ '<turn:' + m['role'] + '>' }}"
    "{{ '<~end~>' }}[TURN_OVER]{% endfor %}</passage>",
}
SAID = "x <~end~> y <~begin~>\n\n[TURN_OVER] <__media_x__> </passage>"


async def asked(server, calls=1):
    model = OPENAI.create("mock", ModelOptions(base_url=server.url))
    try:
        await asyncio.gather(*(model.generate(says(SAID), Sampling()) for _ in range(calls)))
    finally:
        await model.aclose()


async def test_no_token_that_the_server_names_goes_out_whole():
    async with MockOpenAI(pages={"props": PROPS}) as server:
        await asked(server)
        sent = server.received[0]["messages"][0]["content"]
    assert sent == "x < ~end~> y < ~begin~>\n\n[ TURN_OVER] < __media_x__> </passage>"


async def test_a_server_is_asked_once_whatever_it_answers():
    async with MockOpenAI(pages={"props": PROPS}) as server:
        await asked(server, calls=5)
        assert server.asked == ["/props"]
    async with MockOpenAI() as server:
        await asked(server, calls=5)
        assert server.asked == ["/props", "/tokenizer_info", "/version"]
        assert server.received[0]["messages"][0]["content"] == SAID


async def test_a_server_that_is_not_there_yet_is_asked_when_it_is(unused_tcp_port):
    model = OpenAIModel("mock", ModelOptions(base_url=f"http://127.0.0.1:{unused_tcp_port}/v1"))
    with pytest.raises(ModelError, match="cannot reach"):
        await model.generate(says(SAID), Sampling())
    server = await MockOpenAI(pages={"props": PROPS}).start(unused_tcp_port)
    await model.generate(says(SAID), Sampling())
    await model.aclose()
    await server.stop()
    assert "<~end~>" not in server.received[0]["messages"][0]["content"]


def test_only_a_server_of_ones_own_is_asked():
    own = ("http://127.0.0.1:8080/v1", "https://10.1.2.3/v1", "http://models.example/v1", "https://gpu-box/v1")
    assert all(is_private(URL(url)) for url in (*own, "https://box.local/v1", "https://[::1]/v1"))
    assert not any(
        is_private(URL(url)) for url in ("https://api.openai.com/v1", "https://models.example", "https://1.1.1.1")
    )


def test_what_a_tokenizers_configuration_names():
    told = {
        "added_tokens_decoder": {"0": {"content": "<@a@>"}, "1": {"content": "  "}},
        "eos_token": {"content": "<@b@>", "special": True},
        "additional_special_tokens": ["<@c@>", "word"],
        "chat_template": [{"name": "default", "template": "<@d@>"}],
        "unk_token": "<" * 101,
    }
    assert control_tokens(told) == ("<@a@>", "<@b@>", "<@c@>", "<@d@>")
    assert control_tokens(["<@a@>"]) == ()

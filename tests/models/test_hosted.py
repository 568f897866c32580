"""Anthropic and Gemini through their OpenAI-compatible interfaces, against replies as they are documented.

The replies are in tests/recorded/wire, each with its source.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reground.app import catalogue
from reground.core.errors import (
    AuthenticationError,
    CapabilityError,
    ConfigurationError,
    ModelError,
    TransientModelError,
)
from reground.core.language import Grammar, Message, Sampling
from reground.core.run import Run
from reground.models._openai_protocol import Endpoint, read_complaint
from reground.models.openai import OpenAIModel
from reground.models.options import ModelOptions, Price
from reground.models.servers import ANTHROPIC, GEMINI
from reground.models.wrappers import Retry
from tests.servers import Recorded, RecordedServer

ASK = (Message(role="user", content="Which river flows through Warsaw?"),)
HOSTED = {"anthropic": ANTHROPIC, "gemini": GEMINI}
KEYS = {"anthropic": "sk-ant-api03-secret-of-the-test", "gemini": "AIzaSy-secret-of-the-test"}
ENVS = {"anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
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


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-key-that-must-not-leave")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    for provider, name in ENVS.items():
        monkeypatch.setenv(name, KEYS[provider])


@contextlib.asynccontextmanager
async def asked(
    provider: str, *names: str, price: Price | None = None
) -> AsyncIterator[tuple[RecordedServer, OpenAIModel]]:
    """A model of the provider behind a server with these replies."""
    async with RecordedServer([recorded(provider, name) for name in names]) as server:
        options = ModelOptions(base_url=server.url + PATHS[provider], api_key_env=ENVS[provider], price=price)
        model = HOSTED[provider].create("m", options)
        try:
            yield server, model
        finally:
            await model.aclose()


class TestBoth:
    @pytest.mark.parametrize("provider", KEYS)
    async def test_a_reply_with_its_key_usage_and_price(self, provider: str) -> None:
        async with asked(provider, "success", price=Price(1.0, 1.0, 5.0)) as (server, model):
            (reply,) = await model.generate(ASK, Sampling(max_tokens=9))
        (request,) = server.asked
        assert (request.method, request.path) == ("POST", PATHS[provider] + "/chat/completions")
        assert request.headers["Authorization"] == f"Bearer {KEYS[provider]}"
        assert request.body == {
            "model": "m",
            "messages": [{"role": "user", "content": ASK[0].content}],
            "max_tokens": 9,
            "temperature": 0.0,
        }
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
        ("provider", "name"),
        [("anthropic", "no money"), ("anthropic", "billing"), ("gemini", "day's quota"), ("gemini", "no free tier")],
    )
    async def test_no_money_and_no_quota_of_the_day_are_not_waited_for(self, provider: str, name: str) -> None:
        async with asked(provider, name) as (_, model):
            with pytest.raises(ModelError, match=f"{ENVS[provider]} has no quota left") as refused:
                await model.generate(ASK, Sampling())
        assert not isinstance(refused.value, TransientModelError)

    @pytest.mark.parametrize("provider", KEYS)
    async def test_a_wrong_key_names_its_variable(self, provider: str) -> None:
        async with asked(provider, "bad key") as (_, model):
            with pytest.raises(AuthenticationError, match=f"refused the key in {ENVS[provider]}"):
                await model.generate(ASK, Sampling())

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
        text = json.dumps({"choices": [{"message": {"content": "One.\nTwo."}, "finish_reason": "stop"}]})
        async with RecordedServer([Recorded(200, text)]) as server:
            options = ModelOptions(base_url=server.url + "/v1", api_key_env="ANTHROPIC_API_KEY")
            model = ANTHROPIC.create("m", options)
            (reply,) = await model.generate(ASK, Sampling(stop=("\n", "END")))
            (whole,) = await model.generate(ASK, Sampling(stop=("END",)))
            await model.generate(ASK, Sampling(stop=("\n",)))
            await model.aclose()
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
            (reply,) = await Run().generate(
                model, "Why?", name="a", sampling=Sampling(logprobs=True), logprobs="welcome"
            )
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
        text = json.dumps({"choices": [{"message": {"content": "a b6 c"}, "finish_reason": "stop"}]})
        async with RecordedServer([Recorded(200, text)]) as server:
            options = ModelOptions(base_url=server.url + "/v1beta/openai", api_key_env="GEMINI_API_KEY")
            model = GEMINI.create("m", options)
            (reply,) = await model.generate(ASK, Sampling(stop=tuple(f"b{n}" for n in range(1, 7))))
            await model.aclose()
        assert server.asked[0].body["stop"] == ["b1", "b2", "b3", "b4", "b5"]
        assert reply.text == "a "


class TestSecrets:
    @pytest.mark.parametrize("provider", KEYS)
    async def test_a_key_is_in_no_error_log_or_name(self, provider: str, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        key = KEYS[provider]
        body = json.dumps([{"error": {"code": 400, "message": f"Invalid API key: {key} is odd", "status": key}}])
        async with RecordedServer([Recorded(status, body) for status in (400, 403, 429, 500, 404)]) as server:
            options = ModelOptions(base_url=server.url + PATHS[provider], api_key_env=ENVS[provider])
            there = replace(HOSTED[provider], url=server.url + PATHS[provider])
            model = there.create("m", options)
            for _ in range(5):
                with pytest.raises(ModelError) as refused:
                    await model.generate(ASK, Sampling())
                assert key not in str(refused.value) and "secret" not in str(refused.value)
                assert refused.value.__cause__ is None
            (line,) = await there.available(ModelOptions())
        assert key not in repr(model) + model.identity + str(line)
        assert key not in caplog.text

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
        said = Endpoint("http://box/v1", "MY_KEY", key).redact(complaint.message)
        assert len(said) <= 400
        assert not any(key[at : at + 5] in said for at in range(len(key) - 4))

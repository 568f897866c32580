"""A server's own control tokens are broken in what goes to it, though nobody here knows them beforehand."""

from __future__ import annotations

import asyncio

import pytest
from yarl import URL

from reground.core.errors import ModelError
from reground.core.language import Message, Sampling
from reground.models._server_info import control_tokens, is_private
from reground.models.openai import OpenAIModel, create
from reground.models.options import ModelOptions
from reground.testing.openai_server import MockOpenAI

PROPS = {
    "bos_token": "<~begin~>",
    "eos_token": "\n\n",
    "media_marker": "<__media_x__>",
    "chat_template": "{% for m in messages[1:] %}{{ '<turn:' + m['role'] + '>' }}"
    "{{ '<~end~>' }}[TURN_OVER]{% endfor %}</passage>",
}
SAID = "x <~end~> y <~begin~>\n\n[TURN_OVER] <__media_x__> </passage>"


async def asked(server: MockOpenAI, text: str = SAID, calls: int = 1) -> None:
    model = create("mock", ModelOptions(base_url=server.url))
    try:
        messages = [Message(role="user", content=text)]
        await asyncio.gather(*(model.generate(messages, Sampling()) for _ in range(calls)))
    finally:
        await model.aclose()


async def test_no_token_that_the_server_names_goes_out_whole() -> None:
    async with MockOpenAI(pages={"props": PROPS}) as server:
        await asked(server)
        sent = server.received[0]["messages"][0]["content"]
    assert sent == "x < ~end~> y < ~begin~>\n\n[ TURN_OVER] < __media_x__> </passage>"


async def test_a_server_is_asked_once_whatever_it_answers() -> None:
    async with MockOpenAI(pages={"props": PROPS}) as server:
        await asked(server, calls=5)
        assert server.asked == ["/props"]
    async with MockOpenAI() as server:
        await asked(server, calls=5)
        assert server.asked == ["/props", "/tokenizer_info", "/version"]
        assert server.received[0]["messages"][0]["content"] == SAID


async def test_a_server_that_is_not_there_yet_is_asked_when_it_is(unused_tcp_port: int) -> None:
    model = OpenAIModel("mock", ModelOptions(base_url=f"http://127.0.0.1:{unused_tcp_port}/v1"))
    ask = [Message(role="user", content=SAID)]
    with pytest.raises(ModelError, match="cannot reach"):
        await model.generate(ask, Sampling())
    server = await MockOpenAI(pages={"props": PROPS}).start(unused_tcp_port)
    await model.generate(ask, Sampling())
    await model.aclose()
    await server.stop()
    assert "<~end~>" not in server.received[0]["messages"][0]["content"]


def test_only_a_server_of_ones_own_is_asked() -> None:
    own = ("http://127.0.0.1:8080/v1", "https://10.1.2.3/v1", "http://models.example/v1", "https://gpu-box/v1")
    assert all(is_private(URL(url)) for url in (*own, "https://box.local/v1", "https://[::1]/v1"))
    assert not any(
        is_private(URL(url)) for url in ("https://api.openai.com/v1", "https://models.example", "https://1.1.1.1")
    )


def test_what_a_tokenizers_configuration_names() -> None:
    told = {
        "added_tokens_decoder": {"0": {"content": "<@a@>"}, "1": {"content": "  "}},
        "eos_token": {"content": "<@b@>", "special": True},
        "additional_special_tokens": ["<@c@>", "word"],
        "chat_template": [{"name": "default", "template": "<@d@>"}],
        "unk_token": "<" * 101,
    }
    assert control_tokens(told) == ("<@a@>", "<@b@>", "<@c@>", "<@d@>")
    assert control_tokens(["<@a@>"]) == ()

"""Clients that people have: what they send is answered, and what they read of a reply stands in it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.app.serving.served import ANSWER, Slow, served
from tests.app.serving.test_refusals import CHAT, MODELS, ask
from tests.data import ROOT

QUESTION = "Which river flows through Prague?"
ASKED = [{"role": "user", "content": QUESTION}]
OWN_FIELDS = {"chat_id": "c", "session_id": "s", "features": {"web_search": False}, "files": None, "filter_ids": []}
EARLIER = [
    {"role": "developer", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "Which"}, {"type": "text", "text": "river?"}]},
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "tool", "content": "something", "tool_call_id": "1"},
    {"role": "assistant", "content": '<details type="reasoning" done="true">\n> draft\n</details>\nThe Vltava.'},
]
TOOLS = {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto", "parallel_tool_calls": True}
SAMPLING = {"temperature": 0.3, "top_p": 1, "stop": ["a"], "logit_bias": {}, "presence_penalty": 0, "seed": 7, "n": 1}
SENT: dict[str, dict[str, Any]] = {
    "Open WebUI, a chat": {"stream": True, "stream_options": {"include_usage": True}, **OWN_FIELDS},
    "Open WebUI, a user": {"user": {"name": "Ada", "role": "admin"}, "metadata": {"variables": {"a": [1]}}},
    "Open WebUI, a title": {"stream": False, "max_completion_tokens": 1000, "metadata": {"task": "title_generation"}},
    "Open WebUI, tags": {
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": "### Task:\nWrite 1-3 tags."}],
    },
    "earlier turns": {"messages": [*EARLIER, {"role": "user", "name": "me", "content": QUESTION}]},
    "tools of the client": TOOLS,
    "what a method chooses itself": {**SAMPLING, "reasoning_effort": "low", "service_tier": "auto", "store": True},
    "nothing in particular": {"stream": None, "max_tokens": None, "stop": None, "response_format": {"type": "text"}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("home"), Slow(lambda messages, sampling: ANSWER)) as running:
        yield running


@pytest.mark.parametrize("kind", SENT)
def test_what_a_client_sends_is_answered(server, kind):
    headers = {"Authorization": "Bearer none", "X-OpenWebUI-User-Name": "Ada%20L"}
    listed = ask(server, "GET", MODELS, headers=headers)[1]
    body = {"model": listed["data"][1]["id"], "messages": ASKED} | SENT[kind]
    status, reply, _ = ask(server, "POST", CHAT, body, headers)
    assert status == 200
    if body.get("stream"):
        chunks = [json.loads(line[6:]) for line in reply.splitlines() if line.startswith("data: {")]
        assert "".join(each["delta"].get("content") or "" for chunk in chunks for each in chunk["choices"]) == ANSWER
        assert chunks[-1]["usage"]["total_tokens"] > 0 and reply.endswith("data: [DONE]\n\n")
    else:
        assert reply["choices"][0]["message"]["content"] == ANSWER


def test_the_examples_of_the_page_about_serving_run(tmp_path, capsys):
    page = (ROOT / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    bridge = '{"name": "Charles Bridge", "opened": null}'
    model = Slow(lambda messages, sampling: bridge if sampling.grammar else ANSWER)
    with served(tmp_path, model, methods=["rag"]) as server:
        exec(compile(code.replace("http://127.0.0.1:8767", server.url), "serve.md", "exec"), {"__name__": "serve_page"})
    said = capsys.readouterr().out
    assert said.count("supported The Vltava flows through Prague [1].") == 2
    assert "name='Charles Bridge' opened=None" in said


def test_langchain_has_the_answer_its_stream_and_its_sources(server):
    ChatOpenAI = pytest.importorskip("langchain_openai", reason="needs langchain-openai").ChatOpenAI
    to = {"model": "rag/m@docs", "base_url": f"{server.url}/v1", "api_key": "none"}
    model = ChatOpenAI(**to)
    assert model.bind_tools(TOOLS["tools"]).invoke([("system", "Be kind."), ("human", QUESTION)]).content == ANSWER
    assert "".join(chunk.content for chunk in model.stream(QUESTION)) == ANSWER
    _, text = ChatOpenAI(**to, use_responses_api=True).invoke(QUESTION).content_blocks
    assert [each["url"] for each in text["annotations"]] == ["prague.md"]


def test_llama_index_has_the_answer_and_its_stream(server):
    wanted = pytest.importorskip("llama_index.llms.openai_like", reason="needs llama-index-llms-openai-like")
    model = wanted.OpenAILike(model="rag/m@docs", api_base=f"{server.url}/v1", api_key="none", is_chat_model=True)
    assert model.complete(QUESTION).text == ANSWER
    assert [each.text for each in model.stream_complete(QUESTION)][-1] == ANSWER

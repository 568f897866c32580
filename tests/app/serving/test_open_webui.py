"""The calls that Open WebUI 0.12 made of a server, in the order in which it made them."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp

from tests.app.serving.served import ANSWER, Slow, served

TITLE = """### Task:
Generate a concise title summarizing the chat history.
### Output:
JSON format: { "title": "your concise title here" }
### Chat History:
<chat_history>
USER: Which river flows through Prague?
ASSISTANT: The Vltava.
</chat_history>"""
TOOL = {"name": "get_current_timestamp", "description": "Get the time.", "parameters": {"properties": {}}}


async def test_models_a_chat_with_a_follow_up_and_a_title(tmp_path: Path) -> None:
    def said(messages, sampling):
        return '{ "title": "Rivers of Prague" }' if "### Task" in messages[-1].content else ANSWER

    model = Slow(said)
    with served(tmp_path, model) as server:
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer none"}) as session:
            async with session.get(f"{server.url}/v1/models") as reply:
                names = [each["id"] for each in (await reply.json())["data"]]
            assert names[1] == "rag/m@docs"

            async def streamed(*messages: str, **more: object) -> list[dict]:
                roles = ("user", "assistant", "user")
                turns = [{"role": role, "content": text} for role, text in zip(roles, messages, strict=False)]
                tools = [{"type": "function", "function": TOOL}]
                chat = {"stream": True, "model": names[1], "messages": turns, "tools": tools, **more}
                async with session.post(f"{server.url}/v1/chat/completions", json=chat) as reply:
                    assert reply.content_type == "text/event-stream"
                    lines = [line.decode().strip() async for line in reply.content]
                assert lines[-2:] == ["data: [DONE]", ""]
                return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]

            chunks = await streamed("Which river flows through Prague?", stream_options={"include_usage": True})
            deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
            assert "".join(delta.get("content") or "" for delta in deltas) == ANSWER
            assert any(delta.get("reasoning_content") for delta in deltas)
            (cited,) = (each for delta in deltas for each in delta.get("annotations", ()))
            assert cited["url_citation"]["title"] == "Prague"
            assert not any("tool_calls" in delta for delta in deltas)
            assert chunks[-1]["usage"]["total_tokens"] > 0
            chunks = await streamed("Which river flows through Prague?", ANSWER, "and which through Vienna?")
            assert chunks[-1]["choices"][0]["finish_reason"] == "stop"

            title = {
                "model": "direct/m@docs",
                "messages": [{"role": "user", "content": TITLE}],
                "stream": False,
                "max_tokens": 1000,
            }
            async with session.post(f"{server.url}/v1/chat/completions", json=title) as reply:
                found = (await reply.json())["choices"][0]["message"]["content"]
            assert json.loads(found) == {"title": "Rivers of Prague"}

"""The calls that Open WebUI makes of a server, as its documentation and its requests describe them."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp

from tests.app.serving.served import ANSWER, Slow, served

TITLE = """### Task:
Generate a concise, 3-5 word title with an emoji summarizing the chat history.
### Output:
JSON format: { "title": "your concise title here" }
### Chat History:
<chat_history>
USER: Which river flows through Prague?
ASSISTANT: The Vltava.
</chat_history>"""


async def test_models_a_chat_and_a_title(tmp_path: Path) -> None:
    def said(messages, sampling):
        return '{ "title": "Rivers of Prague" }' if "### Task" in messages[-1].content else ANSWER

    model = Slow(said)
    with served(tmp_path, model) as server:
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer 0p3n-w3bu!"}) as session:
            async with session.get(f"{server.url}/v1/models") as reply:
                names = [each["id"] for each in (await reply.json())["data"]]
            assert names[1] == "rag/m@docs"

            chat = {
                "stream": True,
                "model": names[1],
                "messages": [
                    {"role": "system", "content": "User Context:\n\nAnswer kindly."},
                    {"role": "user", "content": "Which river flows through Prague?"},
                ],
                "stream_options": {"include_usage": True},
            }
            async with session.post(f"{server.url}/v1/chat/completions", json=chat) as reply:
                assert reply.content_type == "text/event-stream"
                lines = [line.decode().strip() async for line in reply.content]
            assert lines[-2:] == ["data: [DONE]", ""]
            chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
            text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
            assert text == ANSWER
            assert chunks[-1]["usage"]["total_tokens"] > 0
            assert not any("tool_calls" in chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"])

            title = {
                "model": "direct/m@docs",
                "messages": [{"role": "user", "content": TITLE}],
                "stream": False,
                "max_completion_tokens": 1000,
            }
            async with session.post(f"{server.url}/v1/chat/completions", json=title) as reply:
                found = (await reply.json())["choices"][0]["message"]["content"]
            assert json.loads(found) == {"title": "Rivers of Prague"}

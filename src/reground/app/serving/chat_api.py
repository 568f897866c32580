"""`POST /v1/chat/completions`: the reply whole, or as a stream in which the steps come as they happen."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from reground.app.serving.reports import chat_usage, content, report, was_cut
from reground.app.serving.requests import ChatRequest
from reground.app.serving.steps import words_of

if TYPE_CHECKING:
    from reground.app.result import Result
    from reground.app.serving.citing import Cited
    from reground.app.serving.work import Work


class ChatReply:
    """The reply to one request, in the form of Chat Completions."""

    done = "[DONE]"

    def __init__(self, request: ChatRequest, model: str) -> None:
        self._with_usage = bool(request.stream_options and request.stream_options.include_usage)
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}

    def whole(self, result: Result, reasoning: str) -> dict[str, Any]:
        """The reply of a request without `stream`."""
        said = content(result)
        message = {
            "role": "assistant",
            "content": said.text,
            "refusal": None,
            "annotations": _annotations(said),
            "reasoning_content": reasoning,
            "reasoning": reasoning,
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(result)}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": chat_usage(result),
            "reground": report(result),
        }

    async def stream(self, work: Work, heartbeat: float) -> AsyncIterator[dict[str, Any] | None]:
        """The chunks; None where there is no news. Raises what kept the method from an answer."""
        yield self._chunk({"role": "assistant", "content": ""})
        async for event in work.events(heartbeat):
            if event is None:
                yield None
            elif words := words_of(event):
                yield self._chunk({"reasoning_content": words, "reasoning": words})
        result = await work.result()
        said = content(result)
        yield self._chunk({"content": said.text})
        if said.annotations:
            yield self._chunk({"annotations": _annotations(said)})
        yield self._chunk({}, _reason(result)) | {"reground": report(result)}
        if self._with_usage:
            yield self._chunk({}) | {"choices": [], "usage": chat_usage(result)}

    def failed(self, error: dict[str, Any]) -> list[dict[str, Any]]:
        """What ends a stream in an error."""
        return [error]

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self._with_usage else {}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice], **usage}


def _annotations(said: Cited) -> list[dict[str, Any]]:
    return [{"type": "url_citation", "url_citation": each} for each in said.annotations]


def _reason(result: Result) -> str:
    return "length" if was_cut(result) else "stop"

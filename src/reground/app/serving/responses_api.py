"""`POST /v1/responses`, without a store: the reply whole, or as a stream of typed events."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from reground.app.serving.reports import content, report, responses_usage, was_cut
from reground.app.serving.requests import ResponsesRequest
from reground.app.serving.steps import words_of

if TYPE_CHECKING:
    from reground.app.result import Result
    from reground.app.serving.work import Work

Item = dict[str, Any]


class ResponsesReply:
    """The reply to one request, in the form of Responses: an item of reasoning, then one with the answer."""

    done = None

    def __init__(self, request: ResponsesRequest, model: str) -> None:
        token = secrets.token_hex(12)
        self._thinking, self._saying = f"rs_{token}", f"msg_{token}"
        self._number = -1
        self._head: Item = {
            "id": f"resp_{token}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "model": model,
            "output": [],
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "usage": None,
            "user": request.user,
        }

    def whole(self, result: Result, reasoning: str) -> Item:
        """The reply of a request without `stream`."""
        cut, said = was_cut(result), content(result)
        cited = [{"type": "url_citation", **each} for each in said.annotations]
        return {
            **self._head,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": [self._reasoning(reasoning), self._message(_part(said.text, cited))],
            "usage": responses_usage(result),
            "reground": report(result),
        }

    async def stream(self, work: Work, heartbeat: float) -> AsyncIterator[Item | None]:
        """The events; None where there is no news. Raises what kept the method from an answer."""
        yield self._event("response.created", response=self._head)
        yield self._event("response.in_progress", response=self._head)
        said: list[str] = []
        yield self._event("response.output_item.added", output_index=0, item=self._reasoning(None))
        place = {"item_id": self._thinking, "output_index": 0, "summary_index": 0}
        yield self._event("response.reasoning_summary_part.added", **place, part=_summary(""))
        async for event in work.events(heartbeat):
            if event is None:
                yield None
            elif words := words_of(event):
                said.append(words)
                yield self._event("response.reasoning_summary_text.delta", **place, delta=words)
        result = await work.result()
        reasoning = "".join(said)
        yield self._event("response.reasoning_summary_text.done", **place, text=reasoning)
        yield self._event("response.reasoning_summary_part.done", **place, part=_summary(reasoning))
        yield self._event("response.output_item.done", output_index=0, item=self._reasoning(reasoning))
        ended = self.whole(result, reasoning)
        for answering in self._answer(ended["output"][1]):
            yield answering
        yield self._event(f"response.{ended['status']}", response=ended)

    def _answer(self, message: Item) -> list[Item]:
        place = {"item_id": self._saying, "output_index": 1, "content_index": 0}
        whole = message["content"][0]
        added = (
            self._event("response.output_text.annotation.added", **place, annotation_index=number, annotation=each)
            for number, each in enumerate(whole["annotations"])
        )
        return [
            self._event("response.output_item.added", output_index=1, item=self._message(None)),
            self._event("response.content_part.added", **place, part=_part("", [])),
            self._event("response.output_text.delta", **place, delta=whole["text"], logprobs=[]),
            *added,
            self._event("response.output_text.done", **place, text=whole["text"], logprobs=[]),
            self._event("response.content_part.done", **place, part=whole),
            self._event("response.output_item.done", output_index=1, item=message),
        ]

    def failed(self, error: Item) -> list[Item]:
        """What ends a stream in an error."""
        said = error["error"]
        response = {**self._head, "status": "failed", "error": {"code": "server_error", "message": said["message"]}}
        return [
            self._event("error", code=said["code"], message=said["message"], param=said["param"]),
            self._event("response.failed", response=response),
        ]

    def _event(self, type: str, **more: Any) -> Item:
        self._number += 1
        return {"type": type, "sequence_number": self._number, **more}

    def _reasoning(self, text: str | None) -> Item:
        summary = [] if text is None else [_summary(text)]
        status = "in_progress" if text is None else "completed"
        return {"id": self._thinking, "type": "reasoning", "summary": summary, "status": status}

    def _message(self, part: Item | None) -> Item:
        content, status = ([], "in_progress") if part is None else ([part], "completed")
        return {"id": self._saying, "type": "message", "role": "assistant", "status": status, "content": content}


def _part(text: str, cited: list[Item]) -> Item:
    return {"type": "output_text", "text": text, "annotations": cited, "logprobs": []}


def _summary(text: str) -> Item:
    return {"type": "summary_text", "text": text}

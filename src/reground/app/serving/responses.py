"""Replies: their two forms (Chat Completions and Responses), their citations, and how ASGI sends them."""

from __future__ import annotations

import re
import secrets
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from pydantic_core import to_json

from reground.app.serving.engine import WITHIN, Work
from reground.app.serving.requests import ChatRequest, ResponsesRequest
from reground.core.citations import marker_runs
from reground.core.evidence import Passage
from reground.core.run import Event
from reground.core.trajectory import ChooseStep, ExecuteStep, GenerateStep, NoteStep, RetrieveStep, Step
from reground.text.sentences import sentences

if TYPE_CHECKING:
    from reground.app.result import Result
    from reground.core.answers import Citation


Item = dict[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HEARTBEAT = b": still working\n\n"
_TITLES = 5
"""Titles of passages that are named as reasoning."""


async def send_bytes(
    send: Send,
    body: bytes,
    *,
    status: int = 200,
    kind: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> None:
    """A whole response."""
    more = {"content-type": kind, "content-length": str(len(body)), **(headers or {})}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(more)})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, data: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
    """A whole response of JSON; what JSON has no word for, such as NaN, becomes null."""
    await send_bytes(send, to_json(data, inf_nan_mode="null"), status=status, headers=headers)


class EventStream:
    """A response of server-sent events, begun with its first."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def begin(self) -> None:
        """Send the headers; proxies are told to pass on every event at once."""
        headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-cache",
            "x-accel-buffering": "no",
        }
        await self._send({"type": "http.response.start", "status": 200, "headers": _encoded(headers)})

    async def event(self, data: dict[str, Any] | None) -> None:
        """One event, named by its type if it has one; None is a comment that keeps the connection awake."""
        if data is None:
            return await self._piece(HEARTBEAT)
        name = f"event: {data['type']}\n".encode() if isinstance(data.get("type"), str) else b""
        await self._piece(b"%sdata: %s\n\n" % (name, to_json(data, inf_nan_mode="null")))

    async def end(self, word: str | None) -> None:
        """The last word, if there is one, and the end of the response."""
        await self._piece(b"" if word is None else b"data: %s\n\n" % word.encode(), more=False)

    async def _piece(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]


def words_of(event: Event) -> str:
    """What a begin or an end tells, as a paragraph; empty where it tells nothing that a reader needs."""
    said = f"{event.name} ..." if event.type == "begin" else "" if event.step is None else _of(event.step)
    return f"{said}\n\n" if said else ""


def _of(step: Step) -> str:
    if isinstance(step, GenerateStep):
        return f"{step.name}: {step.replies[0].text.strip()}"
    if isinstance(step, RetrieveStep):
        return f"{step.name}: {step.query.strip()}\n{_titles(step.passages)}"
    if isinstance(step, ExecuteStep):
        return f"{step.name}: {step.execution.verdict}"
    if isinstance(step, ChooseStep) and step.chosen is not None:
        return f"{step.name}: {step.candidates[step.chosen].text.strip()}"
    if isinstance(step, NoteStep) and "why" in step.data:
        return f"{step.name}: {step.data['why']}"
    return ""


def _titles(passages: Sequence[Passage]) -> str:
    if not passages:
        return "nothing was found"
    titles = list(dict.fromkeys(passage.title or passage.id for passage in passages))
    more = f" and {len(titles) - _TITLES} more" if len(titles) > _TITLES else ""
    return f"found: {'; '.join(titles[:_TITLES])}{more}"


@dataclass(frozen=True)
class Cited:
    """An answer and its `url_citation` annotations: start_index and end_index in characters of the text, url, title."""

    text: str
    annotations: list[dict[str, Any]]


def cited(result: Result) -> Cited:
    """The answer with its markers numbered as its sources are: [2] is the second source that the annotations name.

    Clients that show a marker as a source count them so. A source that supports no claim is numbered behind the others.
    Where the sentences were checked, a sentence has the sources that support it; otherwise those whose markers it has.
    """
    known = {citation.marker: citation for citation in result.citations}
    runs = list(marker_runs(result.text, most=max(known, default=0)))
    claims = list(_claims(result, runs, known))
    named = [*(source for _, _, sources in claims for source in sources), *known.values()]
    places = list(dict.fromkeys(map(_address, named)))
    written = {marker: places.index(_address(source)) + 1 for marker, source in known.items()}
    changes = [(start, end, _rewritten(result.text[start:end], run, written)) for start, end, run in runs]
    # a place of the text moves by what the changes before it add or take away
    ends = [end for _, end, _ in changes]
    shifts = [0, *accumulate(len(new) - (end - start) for start, end, new in changes)]
    annotations = []
    for *span, sources in claims:
        start, end = (place + shifts[bisect_right(ends, place)] for place in span)
        claim = {"start_index": start, "end_index": end}
        titles = dict.fromkeys((_address(source), source.title) for source in sources)
        annotations += [{**claim, "url": url, "title": title or url} for url, title in titles]
    return Cited(_changed(result.text, changes), annotations)


_Runs = Sequence[tuple[int, int, list[int]]]
_Changes = Sequence[tuple[int, int, str]]


def _claims(result: Result, runs: _Runs, known: Mapping[int, Citation]) -> Iterator[tuple[int, int, list[Citation]]]:
    """The begin and the end of each sentence without the white space around it, and its sources."""
    checked = result.sentences if "".join(each.text for each in result.sentences) == result.text else ()
    texts = [each.text for each in checked] or sentences(result.text)
    begins = [begin for begin, _, _ in runs]
    at = 0
    for number, text in enumerate(texts):
        start, at = at, at + len(text)
        if checked:
            sources = list(checked[number].supports)
        else:
            within = runs[bisect_left(begins, start) : bisect_left(begins, at)]
            sources = [known[each] for _, _, run in within for each in run if each in known]
        lead = len(text) - len(text.lstrip())
        yield start + lead, start + max(lead, len(text.rstrip())), sources


def _rewritten(run: str, numbers: Sequence[int], written: Mapping[int, int]) -> str:
    """Markers with other numbers. Those of passages of one source become one."""
    changed = [written.get(number, number) for number in numbers]
    if len(set(changed)) < len(changed):
        return "".join(f"[{number}]" for number in dict.fromkeys(changed))
    new = iter(changed)
    return re.sub(r"\d+", lambda _: str(next(new)), run)


def _changed(text: str, changes: _Changes) -> str:
    parts, done = [], 0
    for start, end, new in changes:
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def _address(citation: Citation) -> str:
    """A page of the web, or a document's path within its corpus. No other scheme gets through."""
    address = citation.url or citation.passage_id
    try:
        if urlsplit(address).scheme in ("http", "https"):
            return address
    except ValueError:
        pass
    return quote(address, safe="/#")


def report(result: Result) -> dict[str, Any]:
    """The field `reground` of a reply.

    answered: whether the documents gave the answer; if not, ungrounded says why. faithfulness: the share of the
    claiming sentences that a passage supports. stopped: the limit of the budget that ended the work. run: the folder of
    the run under the server's home, for `reground show`.
    """
    usage = result.usage
    return {
        "answered": result.answered,
        "ungrounded": result.ungrounded,
        "faithfulness": result.faithfulness,
        "stopped": result.stopped,
        "calls": usage.calls,
        "usd": usage.usd,
        "seconds": round(result.seconds, 3),
        "question": result.trajectory.question,
        "run": _run(result),
    }


def _run(result: Result) -> str:
    folder = result.trajectory_path.parent
    # runs within a budget lie in a folder of that budget
    return f"{folder.parent.name}/{folder.name}" if folder.parent.name.startswith(WITHIN) else folder.name


def content(result: Result) -> Cited:
    """The answer, and behind it a line that says so where the documents do not give it.

    Most clients show the text alone, and a text that rests on nothing looks like any other.
    """
    said = cited(result)
    if result.ungrounded is None:
        return said
    return replace(said, text=f"{said.text}\n\n*Your documents do not say this: {result.ungrounded}.*")


def was_cut(result: Result) -> bool:
    """Whether a limit ended the answer before the method did."""
    return result.stopped is not None or result.trajectory.is_cut


def chat_usage(result: Result) -> dict[str, Any]:
    """The tokens of all calls of the method, as Chat Completions count them."""
    usage = result.usage
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


def responses_usage(result: Result) -> dict[str, Any]:
    """The tokens of all calls of the method, as Responses count them. Written tokens are not told apart."""
    usage = result.usage
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.tokens,
    }


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

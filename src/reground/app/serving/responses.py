"""Replies in their two forms, Chat Completions and Responses, with the citations of an answer."""

from __future__ import annotations

import re
import secrets
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic_core import to_json
from starlette.responses import Response

from reground.app.runs import WITHIN, Result
from reground.app.serving.requests import ChatRequest, ResponsesRequest
from reground.core.answers import Citation, Sentence
from reground.core.evidence import marker_runs, without_unknown
from reground.core.run import Event
from reground.support.verdicts import Verdict
from reground.text.sentences import sentences

Item = dict[str, Any]
Runs = Sequence[tuple[int, int, list[int]]]  # as `marker_runs` gives them
News = str | Event | Result | None
"""Of a question in work: steps in words, the answer as far as it is written, nothing for some seconds, the result."""


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response of JSON; what JSON has no word for, such as NaN, becomes null."""
    return Response(to_json(data, inf_nan_mode="null"), status, headers, "application/json")


def server_sent(data: Item | None) -> bytes:
    """A server-sent event, named by its type if it has one; None is a comment that keeps the connection awake."""
    if data is None:
        return b": still working\n\n"
    name = f"event: {data['type']}\n".encode() if "type" in data else b""
    return b"%sdata: %s\n\n" % (name, to_json(data, inf_nan_mode="null"))


@dataclass(frozen=True)
class Content:
    """An answer and its `url_citation` annotations: start_index and end_index in characters of the text, url, title.

    sentences: those of a checked answer, each with its `text`, `verdict`, `score` and `evidence`, as `POST /v1/check`
    gives them; the markers of quotes are numbered as those of the text.
    """

    text: str
    annotations: list[Item]
    sentences: list[Item]


def with_sources(result: Result, earlier: Sequence[str] = ()) -> Content:
    """The answer with its markers numbered as its sources are: [2] is the second source that the annotations name.

    Clients that show a marker as a source count them so. A source that supports no claim is numbered behind the others.
    Where the sentences were checked, a sentence has the sources that support it; otherwise those whose markers it has.
    earlier: addresses that have their numbers already, in order. One that supports no claim is named at its markers.
    """
    by_marker = {citation.marker: citation for citation in result.citations}
    runs = list(marker_runs(result.text, most=max(by_marker, default=0)))
    is_checked = "".join(each.text for each in result.sentences) == result.text
    parts = result.sentences if is_checked else list(_by_markers(result.text, runs, by_marker))
    supports = [_address(source) for each in parts for source in each.supports]
    addresses = list(dict.fromkeys([*earlier, *supports, *map(_address, by_marker.values())]))
    text, moved = _numbered(result.text, runs, by_marker, addresses)
    content, at = Content(text, [], []), 0
    bare = {marker for marker, source in by_marker.items() if _address(source) in {*earlier} - {*supports}}
    claims = [(start, end, [by_marker[each] for each in markers if each in bare]) for start, end, markers in runs]
    for each in parts:
        begin, at = at, at + len(each.text)
        words = len(each.text.strip())
        first = begin + (len(each.text) - len(each.text.lstrip()) if words else len(each.text))
        claims.append((first, first + words, [*each.supports]))
        if is_checked:
            quotes = ((quote, addresses.index(_address(quote)) + 1) for quote in each.supports)
            evidence = [quote.model_dump(mode="json") | {"marker": number} for quote, number in quotes]
            verdict = {"verdict": _VERDICTS[each.supported], "score": each.score, "evidence": evidence}
            content.sentences.append({"text": text[moved(begin) : moved(at)], **verdict})
    for start, end, sources in claims:
        place = {"start_index": moved(start), "end_index": moved(end)}
        titles = dict.fromkeys((_address(source), source.title) for source in sources)
        content.annotations.extend({**place, "url": url, "title": title or url} for url, title in titles)
    content.annotations.sort(key=lambda each: [*earlier, each["url"]].index(each["url"]))
    return content


def _numbered(
    text: str, runs: Runs, by_marker: Mapping[int, Citation], addresses: Sequence[str]
) -> tuple[str, Callable[[int], int]]:
    """The text with the places of its sources among the addresses as markers, and where a place in it is then."""
    numbers = {marker: addresses.index(_address(source)) + 1 for marker, source in by_marker.items()}
    parts, position = list[str](), 0
    ends, shifts = [], [0]  # a place moves by what the runs before it gain or lose
    for start, end, markers in runs:
        parts += text[position:start], _renumbered(text[start:end], markers, numbers)
        position = end
        ends.append(end)
        shifts.append(shifts[-1] + len(parts[-1]) - (end - start))
    return "".join([*parts, text[position:]]), lambda place: place + shifts[bisect_right(ends, place)]


_VERDICTS = {True: Verdict.SUPPORTED, False: Verdict.NOT_FOUND, None: Verdict.NO_CLAIM}


def _by_markers(text: str, runs: Runs, by_marker: Mapping[int, Citation]) -> Iterator[Sentence]:
    """The sentences of an answer that was not checked, with the sources whose markers they have."""
    begins = [begin for begin, _, _ in runs]
    at = 0
    for part in sentences(text):
        start, at = at, at + len(part)
        within = runs[bisect_left(begins, start) : bisect_left(begins, at)]
        sources = (by_marker[each] for _, _, run in within for each in run if each in by_marker)
        yield Sentence(text=part, supports=tuple(sources))


def _renumbered(run: str, markers: Sequence[int], numbers: Mapping[int, int]) -> str:
    """Markers with other numbers. Those of passages of one source become one."""
    changed = [numbers.get(marker, marker) for marker in markers]
    if len(set(changed)) < len(changed):
        return "".join(f"[{number}]" for number in dict.fromkeys(changed))
    new = iter(changed)
    return re.sub(r"\d+", lambda _: str(next(new)), run)


def _address(citation: Citation) -> str:
    """A page of the web, or a document's path within its corpus. No other scheme gets through."""
    address = citation.url or citation.passage_id
    try:
        if urlsplit(address).scheme in ("http", "https"):
            return address
    except ValueError:
        pass
    return quote(address, safe="/#")


_CHANGES = re.compile(r"(?:[\s(]{0,9}\[[\d\s,;&\[\]()and]{0,80}|<[^<>\s]{0,30}|[\s(]{1,9})\Z")
"""What may still become something else at the end of a text that is being written: markers, a tag, a space."""
_REPLACED = "\n\n---\n\n*This was changed after it was written. The answer is now:*\n\n"


class Output:
    """What a stream has sent of an answer while it was written. sources: the addresses that its numbers name."""

    text = ""
    sources: Sequence[str] = ()

    def more(self, event: Event) -> str:
        """What can be sent now, because nothing that follows will change it."""
        text, passages = event.text, event.sources or ()
        if text.count("`", text.rfind("\n") + 1) % 2:  # brackets are no markers in code
            text = text[: text.rfind("`")]
        while changes := _CHANGES.search(text, max(0, len(text) - 100)):
            text = text[: changes.start()]
        text = without_unknown(text, range(1, len(passages) + 1))[0].lstrip() if passages else text.lstrip()
        runs, most = list(marker_runs(text, most=len(passages))), len(passages)
        citations = {n: Citation.of(n, passages[n - 1], "") for _, _, run in runs for n in run if n <= most}
        self.sources = list(dict.fromkeys([*self.sources, *map(_address, citations.values())]))
        text, _ = _numbered(text, runs, citations, self.sources)
        if not any(map(str.isalnum, re.sub(r"\[[^]]{0,80}\]", "", text))) or not text.startswith(self.text):
            return ""
        self.text, before = text, self.text
        return text[len(before) :]

    def whole(self, result: Result) -> Content:
        """The answer behind what was sent of it, and a line that says so where the documents do not give it."""
        content = with_sources(result, self.sources)
        if result.json is not None:
            return replace(content, text=result.json, annotations=[])
        text, lead = content.text, len(content.text) - len(content.text.lstrip()) if self.text else 0
        if result.ungrounded is not None:
            text += f"\n\n*Your documents do not say this: {result.ungrounded}.*"
        head = "" if text.startswith(self.text, lead) else f"{self.text}{_REPLACED}"
        by, places = len(head) - lead, ("start_index", "end_index")
        moved = [each | {place: each[place] + by for place in places} for each in content.annotations]
        return replace(content, text=head + text[lead:], annotations=moved)


def _report(result: Result, content: Content) -> Item:
    """The field `reground` of a reply.

    answered: whether the documents gave the answer; if not, ungrounded says why. faithfulness: the share of the
    claiming sentences that a passage supports. sentences: as in `Content`. stopped: the limit of the budget that ended
    the work. run: the folder of the run under the server's home, for `reground show`.
    """
    folder = result.trajectory_path.parent
    within = f"{folder.parent.name}/" if folder.parent.name.startswith(WITHIN) else ""
    return {
        "answered": result.answered,
        "ungrounded": result.ungrounded,
        "faithfulness": result.faithfulness,
        "sentences": content.sentences,
        "stopped": result.stopped,
        "calls": result.usage.calls,
        "usd": result.usage.usd,
        "seconds": round(result.seconds, 3),
        "question": result.trajectory.question,
        "run": f"{within}{folder.name}",
    }


def _was_cut(result: Result) -> bool:
    """Whether a limit ended the answer before the method did."""
    return result.stopped is not None or result.trajectory.is_cut


class ChatReply:
    """The reply to one request, in the form of Chat Completions."""

    last = b"data: [DONE]\n\n"

    def __init__(self, request: ChatRequest, model: str) -> None:
        self._output = Output()
        self._with_usage = bool(request.stream_options and request.stream_options.include_usage)
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}

    def whole(self, result: Result, reasoning: str) -> Item:
        """The reply of a request without `stream`."""
        content = self._output.whole(result)
        message = {
            "role": "assistant",
            "content": content.text,
            "refusal": None,
            **self._annotations(content),
            **self._reasoning(reasoning),
        }
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason(result)}],
            "usage": self._usage(result),
            "reground": _report(result, content),
        }

    async def stream(self, progress: AsyncIterable[News]) -> AsyncIterator[Item | None]:
        """The chunks; None where there is no news. Raises what kept the method from an answer."""
        yield self._chunk({"role": "assistant", "content": ""})
        async for news in progress:
            if isinstance(news, Result):
                content = self._output.whole(news)
                yield self._chunk({"content": content.text[len(self._output.text) :]})
                if content.annotations:
                    yield self._chunk(self._annotations(content))
                yield self._chunk({}, self._reason(news)) | {"reground": _report(news, content)}
                if self._with_usage:
                    yield self._chunk({}) | {"choices": [], "usage": self._usage(news)}
            elif isinstance(news, Event):
                if piece := self._output.more(news):
                    yield self._chunk({"content": piece})
            elif news is None or not self._output.text:  # steps come before the answer
                yield news if news is None else self._chunk(self._reasoning(news))

    def failed(self, error: Item) -> list[Item]:
        """What ends a stream in an error."""
        return [error]

    def _chunk(self, delta: Item, reason: str | None = None) -> Item:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self._with_usage else {}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice], **usage}

    def _reasoning(self, text: str) -> Item:
        return {"reasoning_content": text, "reasoning": text}  # clients differ

    def _annotations(self, content: Content) -> Item:
        return {"annotations": [{"type": "url_citation", "url_citation": each} for each in content.annotations]}

    def _reason(self, result: Result) -> str:
        return "length" if _was_cut(result) else "stop"

    def _usage(self, result: Result) -> Item:
        """The tokens of all calls of the method."""
        usage = result.usage
        return {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "total_tokens": usage.tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        }


class ResponsesReply:
    """The reply to one request, in the form of Responses: an item of reasoning, then one with the answer."""

    last = b""

    def __init__(self, request: ResponsesRequest, model: str) -> None:
        self._token, self._number, self._output = secrets.token_hex(12), -1, Output()
        self._head: Item = {
            "id": f"resp_{self._token}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "model": model,
            "output": [],
            "parallel_tool_calls": False,
            "store": False,
            "text": {"format": {"type": "text"} if request.json_form is None else request.json_form.form},
            "tool_choice": "none",
            "tools": [],
            "truncation": "disabled",
            "user": request.user,
            **dict.fromkeys(("error", "incomplete_details", "previous_response_id", "temperature", "top_p", "usage")),
        }

    def whole(self, result: Result, reasoning: str) -> Item:
        """The reply of a request without `stream`."""
        content, usage = self._output.whole(result), result.usage
        more: Item = {"status": "completed"}
        if _was_cut(result):
            more = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        return {
            **self._head,
            **more,
            "output": [self._thought(reasoning), self._message(content)],
            "usage": {
                "input_tokens": usage.prompt,
                "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
                "output_tokens": usage.completion,
                "output_tokens_details": {"reasoning_tokens": 0},  # written tokens are not told apart
                "total_tokens": usage.tokens,
            },
            "reground": _report(result, content),
        }

    async def stream(self, progress: AsyncIterable[News]) -> AsyncIterator[Item | None]:
        """The events; None where there is no news. Raises what kept the method from an answer."""
        yield self._event("response.created", response=self._head)
        yield self._event("response.in_progress", response=self._head)
        thought = self._thought("")
        item = thought | {"status": "in_progress", "summary": []}
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._step("part.added", part=thought["summary"][0])
        reasoning = ""
        async for news in progress:
            if news is None:
                yield None
            elif not isinstance(news, str):
                for event in self._answer(news, reasoning):
                    yield event
            elif not self._output.text:  # steps come before the answer
                reasoning += news
                yield self._step("text.delta", delta=news)

    def _step(self, type: str, **more: Any) -> Item:
        place = {"item_id": f"rs_{self._token}", "output_index": 0, "summary_index": 0}
        return self._event(f"response.reasoning_summary_{type}", **place, **more)

    def _answer(self, news: Event | Result, reasoning: str) -> Iterator[Item]:
        """More of the answer, or the rest of it; before its begin the end of the steps."""
        before, response = self._output.text, self.whole(news, reasoning) if isinstance(news, Result) else None
        message = self._message(Content("", [], [])) if response is None else response["output"][1]
        place, (part,) = {"item_id": message["id"], "output_index": 1, "content_index": 0}, message["content"]
        piece = self._output.more(news) if isinstance(news, Event) else part["text"][len(before) :]
        if piece and not before:
            thought, item = self._thought(reasoning), message | {"status": "in_progress", "content": []}
            yield self._step("text.done", text=reasoning)
            yield self._step("part.done", part=thought["summary"][0])
            yield self._event("response.output_item.done", output_index=0, item=thought)
            yield self._event("response.output_item.added", output_index=1, item=item)
            yield self._event("response.content_part.added", **place, part=part | {"text": "", "annotations": []})
        if piece:
            yield self._event("response.output_text.delta", **place, delta=piece, logprobs=[])
        if response is None:
            return
        for number, each in enumerate(part["annotations"]):
            added = {"annotation_index": number, "annotation": each}
            yield self._event("response.output_text.annotation.added", **place, **added)
        yield self._event("response.output_text.done", **place, text=part["text"], logprobs=[])
        yield self._event("response.content_part.done", **place, part=part)
        yield self._event("response.output_item.done", output_index=1, item=message)
        yield self._event(f"response.{response['status']}", response=response)

    def _message(self, content: Content) -> Item:
        annotations = [{"type": "url_citation", **each} for each in content.annotations]
        part = {"type": "output_text", "text": content.text, "annotations": annotations, "logprobs": []}
        head = {"id": f"msg_{self._token}", "type": "message", "role": "assistant", "status": "completed"}
        return head | {"content": [part]}

    def failed(self, error: Item) -> list[Item]:
        """What ends a stream in an error."""
        why = error["error"]
        response = {**self._head, "status": "failed", "error": {"code": "server_error", "message": why["message"]}}
        return [
            self._event("error", code=why["code"], message=why["message"], param=why["param"]),
            self._event("response.failed", response=response),
        ]

    def _event(self, type: str, **more: Any) -> Item:
        self._number += 1
        return {"type": type, "sequence_number": self._number, **more}

    def _thought(self, text: str) -> Item:
        part = {"type": "summary_text", "text": text}
        return {"id": f"rs_{self._token}", "type": "reasoning", "summary": [part], "status": "completed"}

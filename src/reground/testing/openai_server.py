"""A server that speaks the OpenAI protocol, with given replies and faults on demand.

In a test:

    async with MockOpenAI(lambda body: "Answer: 42") as server:
        server.misbehave("429:1", "cut")              # the next two requests, in this order; then all is well
        model = OPENAI.create("mock", ModelOptions(base_url=server.url))
        ...
        assert server.completed["the question"] == 1  # whole replies, by the prompt's last message
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from email.utils import formatdate
from time import time
from typing import Any, Self

from aiohttp import web


class Loopback(ABC):
    """Listens on a free port of 127.0.0.1 within `async with`. port: 0 until then."""

    port = 0
    _runner: web.AppRunner | None = None

    @abstractmethod
    def application(self) -> web.Application:
        """What is served."""

    @property
    def origin(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> Self:
        """Listen; 0 takes a free port."""
        self._runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port, backlog=2048).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        """Stop listening and drop open requests."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.stop()


Script = Callable[[dict[str, Any]], str | Sequence[str]]
DIMENSIONS = 64
STALL_SECONDS = 3600.0


def echo(body: dict[str, Any]) -> str:
    """The default script: repeat the last message."""
    return str(body["messages"][-1]["content"])


@dataclass(eq=False)
class MockOpenAI(Loopback):
    """`/v1/chat/completions`, `/v1/embeddings` and `/v1/models` on a loopback port.

    script: the reply's text for a request body; a sequence gives one text a sample, repeated as needed.
    models: what is served; any other name is a 404. key: what the client must send, if anything.
    latency: seconds before a reply. max_samples: the most choices in one reply, whatever n asks for.
    refuses: parameters that are answered with 400 "unsupported".
    cached: how many of the prompt tokens usage reports as cached. with_usage: whether usage is reported at all.
    pages: JSON pages next to `/v1`, such as llama.cpp's `props` and vLLM's `version`; `asked` are those asked for, and
    `busy` are the seconds that the next of them take.

    Usage counts white-space separated words as tokens. `received` holds every request's body, `headers` the
    headers of the last one, `queries` each URL's query, `completed` the number of whole replies by the last message's
    text.
    """

    script: Script = echo
    _: KW_ONLY
    models: Sequence[str] = ("mock",)
    key: str | None = None
    latency: float = 0.0
    max_samples: int | None = None
    refuses: Sequence[str] = ()
    cached: int = 0
    with_usage: bool = True
    pages: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.asked: list[str] = []
        self.busy: list[float] = []
        self.received: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.queries: list[str] = []
        self.completed: Counter[str] = Counter()
        self.most_at_once = self._at_once = 0
        self._faults: deque[str] = deque()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"{self.origin}/v1"

    def misbehave(self, *faults: str) -> None:
        """Let the next chat requests fail, one fault each, in this order; see FAULTS for their names.

        "ok" lets a request pass; a part after a colon is the fault's argument, e.g. "429:2" for Retry-After: 2.
        """
        unknown = [fault for fault in faults if fault.split(":")[0] not in FAULTS and fault != "ok"]
        if unknown:
            raise ValueError(f"no such fault: {', '.join(unknown)}; there are ok, {', '.join(FAULTS)}")
        self._faults.extend(faults)

    def application(self) -> web.Application:
        """Chat, embeddings, the list of models, and other pages."""
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/embeddings", self._embeddings)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/{page}", self._page)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.received.append(body)
        self.headers = dict(request.headers)
        self.queries.append(request.query_string)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            fault, _, argument = (self._faults.popleft() if self._faults else "ok").partition(":")
            if fault != "ok":
                return await FAULTS[fault](request, argument)
            if (refusal := self._refusal(request, body)) is not None:
                return refusal
            self.completed[body["messages"][-1]["content"]] += 1
            return web.json_response(self.completion(body))
        finally:
            self._at_once -= 1

    def _refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            header = request.headers.get("Authorization", "nothing")
            return _error(401, f"Incorrect API key provided: {header}", code="invalid_api_key")
        if body["model"] not in self.models:
            return _error(404, f"The model `{body['model']}` does not exist", code="model_not_found")
        for name in self.refuses:
            if name in body:
                hint = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
                why = f"Unsupported parameter: '{name}' is not supported with this model.{hint}"
                return _error(400, why, code="unsupported_parameter", param=name)
        return None

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request."""
        script = self.script(body)
        texts = [script] if isinstance(script, str) else list(script)
        count = min(body.get("n", 1), self.max_samples or body.get("n", 1))
        samples = [texts[index % len(texts)] for index in range(count)]
        reply: dict[str, Any] = {
            "id": "chatcmpl-mock",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [_choice(index, text, body) for index, text in enumerate(samples)],
        }
        if self.with_usage:
            prompt = sum(len(message["content"].split()) for message in body["messages"])
            completion = sum(len(text.split()) for text in samples)
            reply["usage"] = {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
                "prompt_tokens_details": {"cached_tokens": min(self.cached, prompt)},
            }
        return reply

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        size = body.get("dimensions", DIMENSIONS)
        data = [{"object": "embedding", "index": i, "embedding": embed(text, size)} for i, text in enumerate(texts)]
        tokens = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})

    async def _page(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.busy:
            await asyncio.sleep(self.busy.pop(0))
        name = request.path.removeprefix("/")
        return web.json_response(self.pages[name]) if name in self.pages else _error(404, "File Not Found")

    async def _models(self, request: web.Request) -> web.Response:
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _error(401, "Incorrect API key provided", code="invalid_api_key")
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "mock"} for name in self.models]
        return web.json_response({"object": "list", "data": data})


def embed(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A unit vector of hashed words: the same for the same text everywhere, near for texts that share words."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
        vector[int.from_bytes(digest[:4], "little") % dimensions] += 1.0 if digest[4] & 1 else -1.0
    length = math.sqrt(sum(each * each for each in vector))
    return [each / length for each in vector] if length else [1.0, *vector[1:]]


def _choice(index: int, text: str, body: dict[str, Any]) -> dict[str, Any]:
    logprobs = None
    if body.get("logprobs"):
        tokens = re.findall(r"(?<!\s)\s*+\S++", text)
        scored = ({"token": token, "logprob": -0.1 * (len(token) % 10)} for token in tokens)
        logprobs = {"content": [{**each, "bytes": None, "top_logprobs": []} for each in scored]}
    message = {"role": "assistant", "content": text}
    return {"index": index, "message": message, "finish_reason": "stop", "logprobs": logprobs}


def _error(
    status: int, message: str, *, code: str | None = None, param: str | None = None, headers: Any = None
) -> web.Response:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
    return web.json_response(body, status=status, headers=headers)


Fault = Callable[[web.Request, str], Awaitable[web.StreamResponse]]
_HEAD = b'{"choices": [{"message": {"content": "'


def _answers(status: int, message: str, **more: str) -> Fault:
    """An error, with the argument as its message if there is one."""

    async def fail(_: web.Request, argument: str) -> web.StreamResponse:
        return _error(status, argument or message, **more)

    return fail


def _replies(**reply: Any) -> Fault:
    async def give(_: web.Request, __: str) -> web.StreamResponse:
        return web.Response(**reply)

    return give


async def _begin(request: web.Request, data: bytes, **headers: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", **headers})
    await response.prepare(request)
    await response.write(data)
    return response


async def _too_many(_: web.Request, argument: str) -> web.StreamResponse:
    wait = formatdate(time() + 1, usegmt=True) if argument == "date" else argument
    headers = {"Retry-After": wait} if wait else {}
    return _error(429, "Rate limit reached", code="rate_limit_exceeded", headers=headers)


async def _cut_off(request: web.Request, _: str) -> web.StreamResponse:
    response = await _begin(request, b'{"choices": [{"message": {"role": "assist', **{"Content-Length": "10000"})
    await _hang_up(request, "")
    return response


async def _hang_up(request: web.Request, _: str) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.close()
    return web.Response()


async def _stall(_: web.Request, argument: str) -> web.StreamResponse:
    await asyncio.sleep(float(argument) if argument else STALL_SECONDS)
    return _error(503, "the mock stalled")


async def _flood(request: web.Request, argument: str) -> web.StreamResponse:
    """A reply of this many MiB of one text, sent as long as the client takes it."""
    response = await _begin(request, _HEAD)
    for _ in range(int(argument)):
        await response.write(b"x" * (1 << 20))
    await response.write(b'"}}]}')
    return response


async def _bomb(_: web.Request, argument: str) -> web.StreamResponse:
    """The same, packed: a thousandth of its size on the way."""
    pack = zlib.compressobj(wbits=31)
    packed = pack.compress(_HEAD) + b"".join(pack.compress(b"x" * (1 << 20)) for _ in range(int(argument)))
    packed += pack.compress(b'"}}]}') + pack.flush()
    return web.Response(body=packed, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})


async def _halt(request: web.Request, argument: str) -> web.StreamResponse:
    """The first half of a reply, and then nothing."""
    response = await _begin(request, _HEAD)
    await asyncio.sleep(float(argument) if argument else STALL_SECONDS)
    return response


async def _malformed(_: web.Request, argument: str) -> web.StreamResponse:
    return web.Response(text=argument or '{"choices": [{"message": {"content": "half', content_type="application/json")


_TOO_LONG = (
    "This model's maximum context length is 4096 tokens. Please reduce the length of the messages or max_tokens."
)
FAULTS: dict[str, Fault] = {
    "429": _too_many,
    "quota": _answers(429, "You exceeded your current quota", code="insufficient_quota"),
    "cut": _cut_off,
    "hang-up": _hang_up,
    "stall": _stall,
    "flood": _flood,
    "bomb": _bomb,
    "halt": _halt,
    "malformed": _malformed,
    "context": _answers(400, _TOO_LONG, code="context_length_exceeded", param="messages"),
    "page": _replies(status=502, text="<html><h1>Bad gateway</h1></html>", content_type="text/html"),
    "redirect": _replies(status=308, headers={"Location": "http://127.0.0.1:9/v1/chat/completions"}),
    **{
        str(status): _answers(status, f"the mock was told to answer {status}")
        for status in (400, 401, 403, 404, 408, 409, 413, 422, 500, 503)
    },
}

"""The server: its paths, and its life from its socket to its end by SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router

from reground.app.serving.engine import UnknownName
from reground.app.serving.keys import Keys
from reground.app.serving.middleware import SEEN, Door
from reground.app.serving.requests import ChatRequest, ResponsesRequest, RetrieveRequest, description, parsed
from reground.app.serving.responses import ChatReply, ResponsesReply, send_bytes, send_json
from reground.app.serving.streaming import Questions, read_body, while_connected
from reground.app.serving.telemetry import Metrics
from reground.core.concurrency import gather
from reground.core.evidence import Passage
from reground.core.http import MIB, cannot_listen, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from reground.app.options import Serve
    from reground.app.serving.engine import Engine
    from reground.app.session import Offer


_Answer = Callable[["Scope", "Receive", "Send"], Awaitable[None]]
_CANCELLED_SECONDS = 0.5
"""How long cancelled requests may take to end."""
_SEARCHES = 32
"""Searches at once for `POST /retrieve`; others wait."""
_LONGEST = 20_000
"""Characters of a query that are searched for."""


class _At:
    """A path: what answers there, known by the path's pattern in the log and the figures."""

    def __init__(self, path: str, answer: _Answer) -> None:
        self._path, self._answer = path, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[SEEN].path = self._path
        await self._answer(scope, receive, send)


def _search(engine: Engine, most: int) -> _Answer:
    """`POST /retrieve`: the documents as a service, in the form that trainers of search agents ask for (Search-R1).

    Asked {"queries": [...], "topk": 3, "return_scores": true} it answers {"result": [[{"document": {"id", "contents",
    "title", "text", "url"}, "score"}, ...], ...]}, a list for each query in their order; without return_scores it gives
    the documents alone. `contents` is the title in quotation marks, a new line, and the text.
    """
    room = asyncio.Semaphore(_SEARCHES)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        asked = parsed(RetrieveRequest, await read_body(scope, receive, most))
        retriever = engine.corpus(asked.corpus)

        async def search(query: str) -> list[dict[str, Any]]:
            async with room:
                passages = await retriever.retrieve(query[:_LONGEST], k=asked.topk)
            return [_document(passage, scored=asked.return_scores) for passage in passages]

        async with while_connected(receive):
            result = await gather(*map(search, asked.queries))
        await send_json(send, {"result": result})

    return answer


def _document(passage: Passage, *, scored: bool) -> dict[str, Any]:
    document = {
        "id": passage.id,
        "contents": f'"{passage.title}"\n{passage.text}',
        "title": passage.title,
        "text": passage.text,
        "url": passage.url,
    }
    return {"document": document, "score": passage.score} if scored else document


def application(engine: Engine, order: Serve, keys: Keys | None = None, *, here: bool = True) -> ASGIApp:
    """The whole interface. here: whether the server is meant for this machine alone."""
    metrics, born = Metrics(engine), int(time.time())
    described = description(with_keys=keys is not None)

    def model(offer: Offer) -> dict[str, Any]:
        return {"id": offer.name, "object": "model", "created": born, "owned_by": "reground"}

    async def models(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, {"object": "list", "data": [model(offer) for offer in engine.offers.values()]})

    async def one_model(scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"]["name"]
        if name not in engine.offers:
            raise UnknownName(f"no model is called {name[:200]!r}")
        await send_json(send, model(engine.offers[name]))

    async def health(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, {"status": "ok", "working": engine.working, "waiting": engine.waiting})

    async def figures(scope: Scope, receive: Receive, send: Send) -> None:
        await send_bytes(send, metrics.text(), kind="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, described)

    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        raise HTTPException(404, "there is nothing at this path; see /openapi.json")

    chat = Questions(engine, metrics, order, ChatRequest, ChatReply)
    responses = Questions(engine, metrics, order, ResponsesRequest, ResponsesReply)
    paths: list[tuple[str, str, _Answer]] = [
        ("GET", "/v1/models", models),
        ("GET", "/v1/models/{name:path}", one_model),
        ("POST", "/v1/chat/completions", chat),
        ("POST", "/v1/responses", responses),
        ("POST", "/retrieve", _search(engine, order.max_body * MIB)),
        ("GET", "/healthz", health),
        ("GET", "/metrics", figures),
        ("GET", "/openapi.json", openapi),
    ]
    routes = [Route(path, _At(path, answer), methods=[method]) for method, path, answer in paths]
    origins = order.allow_origin or []
    router = Router(routes, redirect_slashes=False, default=nothing)
    host = "localhost" if here else order.host
    app: ASGIApp = Door(router, metrics, keys, host=host, origins=origins)
    if origins:
        app = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-request-id", "retry-after"],
        )
    return app


class _Server(uvicorn.Server):
    """uvicorn, which ends at once at Ctrl-C, and returns after SIGTERM so that models and documents are closed."""

    interrupted = False

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.should_exit = True
        if sig == signal.SIGINT:
            self.interrupted = self.force_exit = True
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for task in self.server_state.tasks:
            task.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=_CANCELLED_SECONDS)


async def serve(engine: Engine, order: Serve, keys: Keys | None, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it. on_ready: told the address. Raises KeyboardInterrupt after Ctrl-C.

    After SIGTERM no connection is accepted any more, and questions in work have `grace` seconds to their end.
    """
    app = application(engine, order, keys, here=is_loopback(order.host))
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        log_level="critical",
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=order.grace,  # type: ignore[arg-type]
    )
    listening = _socket(order)
    host, port = listening.getsockname()[:2]
    server = _Server(config)
    on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        await server.serve([listening])
    finally:
        listening.close()
    if server.interrupted:
        raise KeyboardInterrupt


def _socket(order: Serve) -> socket.socket:
    """The open socket. Raises ConfigurationError."""
    try:
        # without the port, of which it takes the last 16 bits alone
        found = socket.getaddrinfo(order.host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server((address[0], order.port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise cannot_listen(order.host, order.port, error) from None

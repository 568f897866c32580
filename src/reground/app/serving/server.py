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
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from reground.app.checking import checked
from reground.app.serving import connections
from reground.app.serving.engine import UnknownName
from reground.app.serving.errors import Refusal
from reground.app.serving.keys import Keys
from reground.app.serving.middleware import INFO, Door
from reground.app.serving.page import routes as page_routes
from reground.app.serving.requests import (
    ChatRequest,
    CheckRequest,
    ResponsesRequest,
    RetrieveRequest,
    description,
)
from reground.app.serving.responses import ChatReply, ResponsesReply, json_response
from reground.app.serving.streaming import Bodies, Questions, while_connected
from reground.app.serving.telemetry import Metrics
from reground.core.concurrency import gather
from reground.core.errors import ConfigurationError
from reground.core.http import MIB, is_loopback, listening
from reground.retrieval.filters import FilterError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from reground.app.options import Serve
    from reground.app.serving.engine import Engine


_CANCELLED_SECONDS = 0.5  # how long cancelled requests may take to end
_SEARCHES = 32  # searches at once for `POST /retrieve`; others wait
_CHECKS = 4  # answers that are checked at once; others wait
_LONGEST = 20_000  # characters of a query that are searched for
_FIELDS = {"id", "title", "text", "url"}  # fields of a passage


def application(engine: Engine, order: Serve, keys: Keys | None = None, *, here: bool = True) -> ASGIApp:
    """The whole interface. here: whether the server is meant for this machine alone."""
    metrics, born = Metrics(engine), int(time.time())
    listed = {name: {"id": name, "object": "model", "created": born, "owned_by": "reground"} for name in engine.offers}
    described, bodies = description(with_keys=keys is not None), Bodies(order.max_body * MIB)

    async def models(request: Request) -> Response:
        offers = engine.offers_to(request.scope[INFO].holder)
        return json_response({"object": "list", "data": [listed[name] for name in offers]})

    async def one_model(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in engine.offers_to(request.scope[INFO].holder):
            raise UnknownName(f"no model is called {name[:200]!r}")
        return json_response(listed[name])

    async def health(request: Request) -> Response:
        return json_response({"status": "ok", "working": engine.working, "waiting": engine.waiting})

    async def figures(request: Request) -> Response:
        return Response(metrics.text(request.scope[INFO].holder), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(request: Request) -> Response:
        return json_response(described)

    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        raise Refusal(404, "there is nothing at this path; see /openapi.json")

    of_chat, of_responses = (ChatRequest, ChatReply), (ResponsesRequest, ResponsesReply)
    origins = order.allow_origin or []
    routes = [
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", one_model),
        Route("/v1/chat/completions", Questions(engine, metrics, order, bodies, *of_chat), methods=["POST"]),
        Route("/v1/responses", Questions(engine, metrics, order, bodies, *of_responses), methods=["POST"]),
        Route("/v1/check", _check(engine, bodies), methods=["POST"]),
        Route("/retrieve", _search(engine, bodies), methods=["POST"]),
        *page_routes(engine, is_shared=keys is None and not here),
        Route("/healthz", health),
        Route("/metrics", figures),
        Route("/openapi.json", openapi),
    ]
    router = Router(routes, redirect_slashes=False, default=nothing)
    app: ASGIApp = Door(router, metrics, keys, host="localhost" if here else order.host, origins=origins)
    if origins:
        app = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-request-id", "retry-after"],
        )
    return app


def _search(engine: Engine, bodies: Bodies) -> Callable[[Request], Awaitable[Response]]:
    """`POST /retrieve`: the documents as a service, in the form that trainers of search agents ask for (Search-R1).

    Asked {"queries": [...], "topk": 3, "return_scores": true} it answers {"result": [[{"document": {"id", "contents",
    "title", "text", "url"}, "score"}, ...], ...]}, a list for each query in their order; without return_scores it gives
    the documents alone. `contents` is the title in quotation marks, a new line, and the text.
    """
    room = asyncio.Semaphore(_SEARCHES)

    async def answer(request: Request) -> Response:
        body = await bodies.read(RetrieveRequest, request)
        retriever = await engine.corpus(body.corpus, request.scope[INFO].holder, body.where)

        async def search(query: str) -> list[dict[str, Any]]:
            async with room:
                passages = await retriever.retrieve(query[:_LONGEST], k=body.topk)
            documents = [
                {"contents": f'"{passage.title}"\n{passage.text}', **passage.model_dump(include=_FIELDS)}
                for passage in passages
            ]
            if not body.return_scores:
                return documents
            scores = (passage.score for passage in passages)
            return [{"document": each, "score": score} for each, score in zip(documents, scores, strict=True)]

        async with while_connected(request.receive):
            return json_response({"result": await gather(*map(search, body.queries))})

    return answer


def _check(engine: Engine, bodies: Bodies) -> Callable[[Request], Awaitable[Response]]:
    """`POST /v1/check`: the sentences of an answer that anybody wrote, with their verdicts and the quotes for them."""
    room = asyncio.Semaphore(_CHECKS)

    async def answer(request: Request) -> Response:
        body = await bodies.read(CheckRequest, request)
        holder = request.scope[INFO].holder
        name = engine.offer(body.model, holder).corpus if body.model and not body.corpus else body.corpus
        corpus = engine.documents(name, holder)
        async with while_connected(request.receive), room:
            try:
                session, about = engine.session, body.question
                result = await checked(session, body.text, question=about, corpus=corpus, where=body.where, k=body.k)
            except ConfigurationError as error:
                param = "where" if isinstance(error, FilterError) else "text"
                raise Refusal(400, str(error), "invalid_value", param=param) from None
        fields = {key: value for key, value in result.to_dict().items() if key != "skipped"}
        return json_response({"object": "check", "corpus": corpus, **fields})

    return answer


class _Server(connections.Server):
    """uvicorn, which ends at once at Ctrl-C, and returns after SIGTERM so that models and documents are closed."""

    interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.should_exit = True
        if sig == signal.SIGINT:
            self.interrupted = self.force_exit = True
            for task in self.server_state.tasks:
                asyncio.get_running_loop().call_soon_threadsafe(task.cancel)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=_CANCELLED_SECONDS)


async def serve(engine: Engine, order: Serve, keys: Keys | None, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it. on_ready: told the address.

    After SIGTERM no connection is accepted any more, and questions in work have `grace` seconds to their end. Raises
    KeyboardInterrupt after Ctrl-C, and ConfigurationError where the address cannot be listened at.
    """
    config = uvicorn.Config(
        application(engine, order, keys, here=is_loopback(order.host)),
        access_log=False,
        log_config=None,
        log_level="critical",
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=order.grace,  # type: ignore[arg-type]
    )
    server = _Server(config)
    opened, address = listening(order.host, order.port)
    with opened:
        on_ready(address)
        await server.serve([opened])
    if server.interrupted:
        raise KeyboardInterrupt

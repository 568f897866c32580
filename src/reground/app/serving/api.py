"""The paths of the server."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router

from reground.app.serving.chat_api import ChatReply
from reground.app.serving.door import SEEN, Door
from reground.app.serving.engine import UnknownName
from reground.app.serving.metrics import Metrics
from reground.app.serving.openapi import description
from reground.app.serving.questions import Questions
from reground.app.serving.requests import ChatRequest, ResponsesRequest
from reground.app.serving.responses_api import ResponsesReply
from reground.app.serving.sending import send_bytes, send_json

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from reground.app.options_serving import Serve
    from reground.app.serving.engine import Engine
    from reground.app.serving.keys import Keys
    from reground.app.session import Offer


_Answer = Callable[["Scope", "Receive", "Send"], Awaitable[None]]


class _At:
    """A path: what answers there, known by the path's pattern in the log and the figures."""

    def __init__(self, path: str, answer: _Answer) -> None:
        self._path, self._answer = path, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[SEEN].path = self._path
        await self._answer(scope, receive, send)


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

"""`POST /retrieve`: a retriever as a service, in the form that trainers of search agents ask for (Search-R1).

Asked {"queries": [...], "topk": 3, "return_scores": true} it answers {"result": [[{"document": {"id", "contents",
"title", "text", "url"}, "score"}, ...], ...]}, a list for each query in their order; without return_scores it gives the
documents alone. `contents` is the title in quotation marks, a new line, and the text.

Programs may ask, web pages may not: a request must name this server as its host (DNS rebinding), and a browser's post
must not come from another site.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reground.core.errors import RegroundError
from reground.core.evidence import Passage, Retriever
from reground.core.http import MIB, is_own_post, names_this

MOST_QUERIES = 512
MOST_PASSAGES = 100
_LONGEST = 20_000
"""Characters of a query."""


class Order(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid")

    queries: list[str] = Field(max_length=MOST_QUERIES)
    topk: int = Field(default=3, ge=1, le=MOST_PASSAGES)
    return_scores: bool = False


def service(retriever: Retriever, *, concurrency: int = 32, host: str = "127.0.0.1") -> web.Application:
    """The service. concurrency: searches at once; others wait. host: the address that it listens at."""
    app = web.Application(client_max_size=4 * MIB, middlewares=[_guard(host)])
    room = asyncio.Semaphore(concurrency)

    async def search(query: str, k: int) -> list[Passage]:
        async with room:
            return list(await retriever.retrieve(query[:_LONGEST], k=k))

    async def retrieve(request: web.Request) -> web.Response:
        try:
            order = Order.model_validate_json(await request.read())
        except ValidationError as error:
            return _refused(400, "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3]))
        tasks = [asyncio.create_task(search(query, order.topk)) for query in order.queries]
        try:
            found = await asyncio.gather(*tasks)
        except RegroundError as error:
            return _refused(502, str(error))
        finally:
            for task in tasks:
                task.cancel()
        return web.json_response({"result": [[_shown(p, order.return_scores) for p in each] for each in found]})

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "retriever": retriever.name})

    app.router.add_post("/retrieve", retrieve)
    app.router.add_get("/healthz", health)
    return app


def _guard(host: str) -> Any:
    """Refuse what a web page of another site sends, under its own name or under one that was turned to this address."""

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not names_this(request.headers.get("Host", ""), host):
            return _refused(403, "this name is not the service's: ask it by its address, or name it with --host")
        if request.method == "POST" and not is_own_post(request.headers):
            return _refused(403, "pages of other sites may not ask")
        return await handler(request)

    return guard


def _refused(status: int, why: str) -> web.Response:
    return web.json_response({"error": why}, status=status)


def _shown(passage: Passage, scored: bool) -> dict[str, Any]:
    document = {
        "id": passage.id,
        "contents": f'"{passage.title}"\n{passage.text}',
        "title": passage.title,
        "text": passage.text,
        "url": passage.url,
    }
    return {"document": document, "score": passage.score} if scored else document

"""The viewer's server: the page, the list of questions and what is new in it, and one question at a time.

It gives what it shows to this machine's browser alone: it listens at loopback unless told otherwise, and refuses
requests whose Host is a name that it does not know, which is how a web page would read it (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from reground.core.errors import RegroundError
from reground.core.http import names_this
from reground.view.contents import Contents
from reground.view.page import POLICY, as_json, html, script, style

_HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def service(contents: Contents, *, host: str = "127.0.0.1") -> web.Application:
    """The server of what there is to see. host: the name under which it may be asked for, besides addresses."""

    @web.middleware
    async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
        if not names_this(request.headers.get("Host", ""), host):
            return web.json_response({"error": "this name is not the viewer's"}, status=403, headers=_HEADERS)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            response = web.json_response({"error": error.reason}, status=error.status)
        except RegroundError as error:
            response = web.json_response({"error": str(error)}, status=404)
        response.headers.update(_HEADERS)
        return response

    async def news(request: web.Request) -> web.Response:
        more = contents.read()
        told = contents.news(_number(request, "epoch"), _number(request, "since"))
        return _json(told | {"more": more})

    async def question(request: web.Request) -> web.Response:
        if _number(request, "epoch") != contents.epoch:
            raise web.HTTPConflict(reason="the file was replaced")
        return _json(contents.question(int(request.match_info["number"])))

    def text(content: Callable[[], str], kind: str) -> _Handler:
        async def send(request: web.Request) -> web.Response:
            return web.Response(text=content(), content_type=kind, charset="utf-8")

        return send

    app = web.Application(middlewares=[guarded])
    app.router.add_get("/", text(html, "text/html"))
    app.router.add_get("/page.css", text(style, "text/css"))
    app.router.add_get("/page.js", text(script, "text/javascript"))
    app.router.add_get("/news", news)
    app.router.add_get(r"/question/{number:\d{1,9}}", question)
    return app


def _number(request: web.Request, name: str) -> int:
    given = request.query.get(name, "0")
    if not (given.isascii() and given.isdecimal() and len(given) <= 18):
        raise web.HTTPBadRequest(reason=f"{name} must be a number")
    return int(given)


def _json(value: Any) -> web.Response:
    return web.Response(text=as_json(value), content_type="application/json", charset="utf-8")

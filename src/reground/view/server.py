"""The page: sent by a server together with what is new, or all in one file together with the questions.

The server gives what it shows to this machine's browser alone. It listens at loopback unless told otherwise, and
refuses requests whose Host is a name that it does not know, which is how a web page would read it (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from reground.core.errors import DataError, RegroundError
from reground.core.http import AT_ONCE, QUEUE, Connection, Places, names_this
from reground.core.language import storable_text
from reground.view.contents import Contents

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of a served page, which may load its own script, its own style, and data of the same server."""
_SHARED = ("keys.js", "list.js", "story.js", "steps.js", "page.js")
VIEWED = ("dom.js", "data.js", "runs.js", *_SHARED)
SERVED = ("dom.js", "served.js", "front.js", *_SHARED)
CHECKED = ("dom.js", "story.js", "checked.js")
"""The scripts of the pages of `view`, `serve` and `check`."""
_STYLE_TAG = '<link rel="stylesheet" href="page.css">'
_SCRIPT_TAG = '<script src="page.js" defer></script>'


@cache
def asset(name: str) -> str:
    """The text of a file of the pages."""
    return files("reground.view").joinpath("assets", name).read_text(encoding="utf-8")


def page(title: str) -> str:
    """The text of a page of this title; its script does the rest."""
    return asset("page.html").replace("{title}", title)


@cache
def script(names: Sequence[str]) -> str:
    """A page's script: its files behind each other, in a scope of their own."""
    parts = "\n".join(asset(name) for name in names)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def exported(contents: Contents) -> Iterator[bytes]:
    """The page as one file that holds every question and needs no server. Raises DataError.

    Questions are written one after the other, so that no more than one is in memory. One damaged line does not keep the
    others from being read.
    """
    while contents.read():
        pass

    def data() -> Iterator[bytes]:
        yield _data("news", contents.news())
        for number in range(len(contents)):
            try:
                story = contents.question(number)
            except DataError as error:
                story = {"error": str(error)}
            yield _data(f"question-{number}", story)

    return _file("reground view", script(VIEWED), data())


def checked(answers: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """Answers that were checked as a page in one file: of each a `title`, the `summary` and the `sentences`.

    A quote may have a `link`: where it opens.
    """
    return _file("reground check", script(CHECKED), [_data("answers", answers)])


def _file(title: str, script: str, data: Iterable[bytes]) -> Iterator[bytes]:
    style = asset("page.css")
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:"
    head, tail = page(title).split(_SCRIPT_TAG)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    before, behind = tail.split("</body>")
    yield f"{head.replace(_STYLE_TAG, f'{meta}<style>{style}</style>')}{before}".encode()
    yield from data
    yield f"<script>{script}</script>\n</body>{behind}".encode()


def as_json(value: Any) -> str:
    """JSON for a browser, which a file in UTF-8 can hold."""
    return storable_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(name: str, value: Any) -> bytes:
    """JSON within the page. Without the sign < nothing in it can end its element or begin another."""
    text = as_json(value).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>\n'.encode()


_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def service(contents: Contents, *, host: str = "127.0.0.1") -> web.Application:
    """The server of what there is to see. host: the name under which it may be asked for, besides addresses."""

    @web.middleware
    async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
        if isinstance(connection := request.protocol, _Bounded):
            connection.places.wait(connection, None)
        try:
            if not names_this(request.headers.get("Host", ""), host):
                raise web.HTTPForbidden(reason="this name is not the viewer's")
            response = await handler(request)
        except web.HTTPException as error:
            response = web.json_response({"error": error.reason}, status=error.status)
        except RegroundError as error:
            response = web.json_response({"error": str(error)}, status=404)
        response.headers.update(HEADERS)
        response.force_close()  # so that a connection waits for one head only
        return response

    async def news(request: web.Request) -> web.Response:
        more = contents.read()
        data = contents.news(_number(request, "epoch"), _number(request, "since"))
        return _text(as_json(data | {"more": more}), "application/json")

    async def question(request: web.Request) -> web.Response:
        if _number(request, "epoch") != contents.epoch:
            raise web.HTTPConflict(reason="the file was replaced")
        return _text(as_json(contents.question(int(request.match_info["number"]))), "application/json")

    app = web.Application(middlewares=[guarded])
    app.router.add_get("/", _fixed(page("reground view"), "text/html"))
    app.router.add_get("/page.css", _fixed(asset("page.css"), "text/css"))
    app.router.add_get("/page.js", _fixed(script(VIEWED), "text/javascript"))
    app.router.add_get("/news", news)
    app.router.add_get(r"/question/{number:\d{1,9}}", question)
    return app


class _Bounded(Connection, RequestHandler):
    def __init__(self, places: Places, manager: Any) -> None:
        super().__init__(manager, loop=asyncio.get_running_loop(), logger=places.log)
        self.places = places


async def bounded(runner: web.AppRunner, opened: socket.socket, places: Places | None = None) -> asyncio.Server:
    """Serve at a socket, so that connections which send no request, or read no reply, cannot keep others out."""
    make = partial(_Bounded, places or Places(), runner.server)
    server = await asyncio.get_running_loop().create_server(make, sock=opened, backlog=AT_ONCE)
    opened.listen(QUEUE)  # asyncio accepts as many in one go as the queue has had places until now
    return server


def _fixed(text: str, kind: str) -> _Handler:
    async def send(request: web.Request) -> web.Response:
        return _text(text, kind)

    return send


def _number(request: web.Request, name: str) -> int:
    value = request.query.get(name, "0")
    if not (value.isascii() and value.isdecimal() and len(value) <= 18):
        raise web.HTTPBadRequest(reason=f"{name} must be a number")
    return int(value)


def _text(text: str, kind: str) -> web.Response:
    return web.Response(text=text, content_type=kind, charset="utf-8")

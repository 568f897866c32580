"""The arena's server: one page for people, and the few requests that it makes.

It has no accounts: a judge is a name. Where it listens to more than this machine, whoever reaches it can read the
answers and vote. Other sites cannot: a request must name this server as its host, and a browser's post must come from
this server's own page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Annotated, Any

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from reground.arena.booth import Booth, Said, Stale
from reground.arena.votes import judge_name
from reground.core.errors import StorageError
from reground.core.http import is_own_post, names_this

_LARGEST = 16 * 1024
"""Bytes of a request's body."""
_PAGE = {
    "/": ("index.html", "text/html"),
    "/arena.css": ("arena.css", "text/css"),
    "/arena.js": ("arena.js", "text/javascript"),
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "reground",
}


def _named(given: str) -> str:
    name = judge_name(given)
    if not name:
        raise ValueError("a judge needs a name")
    return name


class Entering(BaseModel):
    """Who judges."""

    model_config = ConfigDict(extra="forbid")
    judge: Annotated[str, Field(max_length=400), AfterValidator(_named)]


class Leaving(Entering):
    """round: the round that is over."""

    round: int = Field(ge=1, le=1_000_000)


class Skipping(Leaving):
    """pair: what is skipped."""

    pair: str = Field(max_length=64)


class Voting(Skipping):
    """verdict: what the judge says of the pair."""

    verdict: Said


def application(booth: Booth, *, host: str = "127.0.0.1") -> web.Application:
    """The page and its requests. host: the address that the server listens at."""
    app = web.Application(client_max_size=_LARGEST, middlewares=[_guard(host)])
    for path, (name, kind) in _PAGE.items():
        app.router.add_get(path, _file(name, kind))
    app.router.add_post("/next", _answering(Entering, lambda said: booth.show(said.judge)))
    app.router.add_post("/vote", _answering(Voting, lambda s: booth.vote(s.judge, s.pair, s.round, s.verdict)))
    app.router.add_post("/skip", _answering(Skipping, lambda said: booth.skip(said.judge, said.pair, said.round)))
    app.router.add_post("/round", _answering(Leaving, lambda said: booth.new_round(said.judge, said.round)))
    return app


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _file(name: str, kind: str) -> Handler:
    body = (files("reground.arena") / "page" / name).read_bytes()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return answer


def _answering(kind: type[Any], answer: Callable[[Any], dict[str, Any]]) -> Handler:
    """A request of this kind, answered with JSON. What is wrong with it is said without repeating it."""

    async def handle(request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return _refused(415, "send JSON")
        try:
            said = kind.model_validate_json(await request.read())
        except ValidationError as error:
            return _refused(400, "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3]))
        try:
            return web.json_response(answer(said))
        except Stale:
            return _refused(409, "this pair is no longer open")
        except StorageError as error:
            return _refused(503, str(error))

    return handle


def _refused(status: int, why: str) -> web.Response:
    return web.json_response({"error": why}, status=status)


def _guard(host: str) -> Any:
    """Refuse other hosts' names (DNS rebinding) and other sites' posts, and put the headers on every reply."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if not names_this(request.headers.get("Host", ""), host):
                response: web.StreamResponse = _refused(421, "this is not the address of the arena")
            elif request.method == "POST" and not is_own_post(request.headers):
                response = _refused(403, "only the arena's own page may post here")
            else:
                response = await handler(request)
        except web.HTTPException as error:
            response = _refused(error.status, error.reason)
        response.headers.update(_HEADERS)
        return response

    return guard

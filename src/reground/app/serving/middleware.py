"""What every request passes: who may ask, from where, and how a request ends, whatever happens inside."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Collection, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.routing import Route

from reground.app.serving.errors import OF_THE_CLIENT, Disconnect, Refusal, refusal_of
from reground.app.serving.keys import ANYONE, Holder, Keys
from reground.app.serving.responses import json_response
from reground.core.http import names_this, redacted

if TYPE_CHECKING:
    from starlette.routing import Router
    from starlette.types import Receive, Scope, Send

    from reground.app.serving.telemetry import Metrics


log = logging.getLogger("reground.serve")
"""A line for each request: its number, method, path, model, status and seconds; never its text."""

INFO = "reground.seen"  # the key in a request's scope under which `RequestInfo` lies
_OPEN = frozenset(("/healthz", "/openapi.json", "/", "/page.js", "/page.css"))
_WRONG_HOST = "without keys this server is asked by its address, or by a name in its allow_origin, such as http://NAME"
_WRONG_ORIGIN = "pages of this origin may not ask; the server's allow_origin lets them"
_TWO_LENGTHS = "a request has a Content-Length or a Transfer-Encoding, not both"
_CLOSED = 499  # the status in the log of a request whose client went away, as other servers write it


@dataclass
class RequestInfo:
    """What is known of a request for the log and the figures.

    number: names the request to its client. holder: of the key. model: the offer's name. status: what was sent.
    """

    number: str
    holder: Holder = ANYONE
    model: str = ""
    status: int = 0

    def refusal(self, error: Exception) -> Refusal:
        """What the client is told of an error. The log gets why, without anything that may be a key."""
        if not isinstance(error, OF_THE_CLIENT):
            log.error("%s %s: %s", self.number, type(error).__name__, redacted(str(error), None))
        return refusal_of(error)


class Door:
    """Lets requests in and turns every failure into an error of OpenAI's form.

    keys: who may ask; None lets everyone. host: the address that the server listens at. Without keys the Host header
    must name it: a page of the web whose name was turned to this address would send its own. origins: the web pages
    that may ask, and so the further names of the server.
    """

    def __init__(
        self, router: Router, metrics: Metrics, keys: Keys | None, *, host: str, origins: Collection[str] = ()
    ) -> None:
        self._router, self._metrics, self._keys = router, metrics, keys
        self._host, self._origins = host, frozenset(origins)
        self._paths: dict[object, str] = {each.endpoint: each.path for each in router.routes if isinstance(each, Route)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        info, began = RequestInfo(secrets.token_hex(8)), time.monotonic()
        scope[INFO], scope["app"] = info, self

        async def noting(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                info.status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", info.number.encode())]
            await send(message)

        try:
            info.holder = self._check(scope["path"], Headers(scope=scope))
            await self._router(scope, receive, noting)
        except Disconnect:
            info.status = _CLOSED
        except Exception as error:
            refusal = info.refusal(error)
            if not info.status:
                await json_response(refusal.body, refusal.status, refusal.headers)(scope, receive, noting)
        finally:
            path, seconds = self._paths.get(scope.get("endpoint"), "other"), time.monotonic() - began
            self._metrics.answered(path, info.model, info.status, seconds)
            line = (info.number, scope["method"], path, info.model or "-", info.status, seconds)
            log.info("%s %s %s %s %d %.2fs", *line)

    def _check(self, path: str, headers: Headers) -> Holder:
        """The holder of the request's key. Raises Refusal."""
        if "content-length" in headers and "transfer-encoding" in headers:  # RFC 9112, section 6.1: a proxy may differ
            raise Refusal(400, _TWO_LENGTHS, "two_lengths", headers={"Connection": "close"})
        host, origin = headers.get("host", ""), headers.get("origin")
        if "*" not in self._origins:
            is_own = names_this(host, self._host) or host in {each.partition("://")[2] for each in self._origins}
            if self._keys is None and not is_own:
                raise Refusal(403, _WRONG_HOST, "wrong_host")
            if origin is not None and origin not in self._origins and origin.partition("://")[2] != host:
                raise Refusal(403, _WRONG_ORIGIN, "wrong_origin")
        if path in _OPEN or self._keys is None:
            return ANYONE
        kind, _, key = headers.get("authorization", "").partition(" ")
        holder = self._keys.holder(key.strip()) if kind.lower() == "bearer" else None
        if holder is None:
            why = "a wrong key was given" if key else "a key is needed: Authorization: Bearer KEY"
            raise Refusal(401, why, "invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
        return holder

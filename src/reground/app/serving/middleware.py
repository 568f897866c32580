"""What every request passes: who may ask, from where, and how a request ends, whatever happens inside."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from reground.app.serving.engine import Busy, UnknownName
from reground.app.serving.errors import Gone, Refusal, refusal_of
from reground.app.serving.responses import send_json
from reground.core.errors import BudgetExceeded
from reground.core.http import names_this, redacted

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from reground.app.serving.keys import Keys
    from reground.app.serving.telemetry import Metrics


log = logging.getLogger("reground.serve")
"""A line for each request: its number, method, path, model, status and seconds; never its text."""

SEEN = "reground.seen"
"""The key in a request's scope under which `Seen` lies."""
_OPEN = frozenset(("/healthz", "/openapi.json"))
_WRONG_HOST = "without keys this server is asked by its address, or by a name in its allow_origin, such as http://NAME"
_GONE = 499
"""The status in the log of a request whose client went away, as other servers write it."""


@dataclass
class Seen:
    """What is known of a request for the log and the figures.

    model: the offer's name. path: that of the route. status: what was sent. number: names the request to its client.
    """

    model: str = ""
    path: str = "other"
    status: int = 0
    number: str = ""


def note_failure(seen: Seen, error: Exception) -> None:
    """Write why a request failed to the log, without anything that may be a key."""
    if not isinstance(error, Refusal | Busy | UnknownName | BudgetExceeded):
        log.error("%s %s: %s", seen.number, type(error).__name__, redacted(str(error), None))


class Door:
    """Lets requests in and turns every failure into an error of OpenAI's form.

    keys: who may ask; None lets everyone. host: the address that the server listens at. Without keys the Host header
    must name it: a page of the web whose name was turned to this address would send its own. origins: the web pages
    that may ask, and so the further names of the server.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, keys: Keys | None, *, host: str, origins: Collection[str] = ()
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._keys = keys
        self._host = host
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        seen, began = Seen(number=secrets.token_hex(8)), time.monotonic()
        scope[SEEN], scope["app"] = seen, self

        async def noting(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", seen.number.encode())]
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, noting)
        except Gone:
            seen.status = _GONE
        except HTTPException as error:
            await self._refuse(Refusal(error.status_code, error.detail.lower(), headers=error.headers), seen, noting)
        except Exception as error:
            note_failure(seen, error)
            await self._refuse(refusal_of(error), seen, noting)
        finally:
            seconds = time.monotonic() - began
            self._metrics.answered(seen.path, seen.model, seen.status, seconds)
            said = (seen.number, scope["method"], seen.path, seen.model or "-", seen.status, seconds)
            log.info("%s %s %s %s %d %.2fs", *said)

    async def _refuse(self, refusal: Refusal, seen: Seen, send: Send) -> None:
        if not seen.status:
            await send_json(send, refusal.body, status=refusal.status, headers=refusal.headers)

    def _check(self, scope: Scope) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self._check_host(headers)
        if scope["path"] in _OPEN or self._keys is None:
            return
        kind, _, key = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or self._keys.name_of(key.strip()) is None:
            why = "a wrong key was given" if key else "a key is needed: Authorization: Bearer KEY"
            raise Refusal(401, why, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})

    def _check_host(self, headers: Mapping[str, str]) -> None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if "*" in self._origins:
            return
        named = names_this(host, self._host) or host in {each.partition("://")[2] for each in self._origins}
        if self._keys is None and not named:
            raise Refusal(403, _WRONG_HOST, code="wrong_host")
        if origin is None or origin in self._origins or origin.partition("://")[2] == host:
            return
        raise Refusal(403, "pages of this origin may not ask; the server's allow_origin lets them", code="wrong_origin")

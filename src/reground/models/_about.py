"""What a server tells about itself on pages next to `/v1`: its control tokens, and how it takes a grammar."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import aiohttp
from yarl import URL

from reground.core.http import BadBody, read_json
from reground.models._control_tokens import ENDPOINTS, control_tokens, is_own, places
from reground.models._grammars import PAGES, RESPONSE_FORMAT

T = TypeVar("T")

PAGE_SECONDS, PAGE_TRIES = 4.0, 6
"""How long a page is waited for, and how often: a busy server answers late."""


class Asked(Generic[T]):
    """An answer that is requested once for all concurrent calls. None is no answer yet: the next call asks again."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, T | None]], *, known: T | None = None) -> None:
        self._ask = ask
        self._answer = known
        self._asking: asyncio.Task[T | None] | None = None

    async def get(self) -> T | None:
        """The answer."""
        if self._answer is None:
            if self._asking is None or self._asking.get_loop() is not asyncio.get_running_loop():
                self._asking = asyncio.create_task(self._ask())
            self._answer = await asyncio.shield(self._asking)
            self._asking = None if self._answer is None else self._asking
        return self._answer


class About:
    """What one server tells. Only a server of the user's own is asked.

    get: requests a page and gives status, headers and body. It raises BadBody and aiohttp's errors.
    """

    def __init__(self, base: URL, get: Callable[[URL], Awaitable[tuple[int, Any, bytes]]]) -> None:
        own = is_own(base)
        self._base = base
        self._get = get
        self._late = 0
        self.control_tokens: Asked[tuple[str, ...]] = Asked(self._control_tokens, known=None if own else ())
        self.grammar: Asked[str] = Asked(self._parameter, known=None if own else RESPONSE_FORMAT)

    async def _control_tokens(self) -> tuple[str, ...] | None:
        page = await self._first_page(ENDPOINTS)
        if page is None:
            return None
        with suppress(RecursionError):
            return control_tokens(page[1])
        return ()

    async def _parameter(self) -> str | None:
        page = await self._first_page(PAGES)
        return None if page is None else PAGES.get(page[0], RESPONSE_FORMAT)

    async def _first_page(self, names: Iterable[str]) -> tuple[str, Any] | None:
        """The name and content of the first of these pages that the server has, ("", None) if it has none of them.

        None if the server cannot be reached, still starts, or is too busy to tell.
        """
        for name, place in zip(names, places(self._base, names), strict=True):
            try:
                status, _, body = await self._get(place)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                return None
            except TimeoutError:
                self._late += 1
                if self._late < PAGE_TRIES:
                    return None
                continue
            except (BadBody, aiohttp.ClientError, OSError):
                continue
            if status == 503:
                return None
            if status == 200:
                with suppress(ValueError, RecursionError):
                    return name, await asyncio.to_thread(read_json, body)
        return "", None

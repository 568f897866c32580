"""What a server tells about itself on pages next to `/v1`: its control tokens, and how it takes a grammar."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

import aiohttp
from yarl import URL

from reground.core.http import BadBody, read_json
from reground.models._openai_protocol import PAGES, RESPONSE_FORMAT

ENDPOINTS = ("props", "tokenizer_info")
"""Endpoints next to `/v1`; the first that answers is used. vLLM has its own only if enabled."""

T = TypeVar("T")

PAGE_SECONDS, PAGE_TRIES = 4.0, 6
"""How long a page is waited for, and how often: a busy server answers late."""


class SharedAnswer(Generic[T]):
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


class ServerInfo:
    """What one server tells. Only a server of the user's own is asked.

    get: requests a page and gives status, headers and body. It raises BadBody and aiohttp's errors.
    """

    def __init__(self, base: URL, get: Callable[[URL], Awaitable[tuple[int, Any, bytes]]]) -> None:
        own = is_private(base)
        self._base = base
        self._get = get
        self._late = 0
        self.control_tokens: SharedAnswer[tuple[str, ...]] = SharedAnswer(
            self._control_tokens, known=None if own else ()
        )
        self.grammar: SharedAnswer[str] = SharedAnswer(self._parameter, known=None if own else RESPONSE_FORMAT)

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


_SHAPE = re.compile(r"<<?/?[^\s<>{}'\"%]{1,60}>>?|\[/?[A-Z_]{2,40}\]|\[\|[^\s|\[\]]{1,40}\|\]")
_OURS = re.compile(r"</?passage>")
_MARKS = frozenset("<>[]|｜")
_MOST_TOKENS, _MOST_LETTERS = 2000, 100


def is_private(url: URL) -> bool:
    """Whether the user runs the server: it is not encrypted, or in a private network. Other servers are not asked."""
    host = url.host or ""
    try:
        return url.scheme == "http" or ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan"))


def places(base: URL, names: Iterable[str] = ENDPOINTS) -> list[URL]:
    """The endpoints' addresses, next to the protocol's `/v1`, not below it."""
    root = base.path.rstrip("/").removesuffix("/v1")
    return [base.with_path(f"{root}/{name}").with_query(base.query) for name in names]


def control_tokens(page: Any) -> tuple[str, ...]:
    """The control tokens in a server's reply: the named ones, and text in its chat template that looks like one."""
    if not isinstance(page, dict):
        return ()
    tokens = {token for token in _named(page) if _MARKS & set(token) and 1 < len(token) <= _MOST_LETTERS}
    return tuple(sorted(token for token in tokens if not _OURS.fullmatch(token))[:_MOST_TOKENS])


def _named(page: dict[str, Any]) -> Iterator[str]:
    for name, value in page.items():
        if name.endswith("_token") or name in ("media_marker", "additional_special_tokens", "added_tokens_decoder"):
            yield from _texts(value)
        elif name.startswith("chat_template"):
            for template in _texts(value):
                yield from _SHAPE.findall(template)


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value: itself, those of a list, and those under `content` or `template` in a mapping."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for key in ("content", "template"):
            if isinstance(value.get(key), str):
                yield value[key]
        for each in value.values():
            if isinstance(each, dict):
                yield from _texts(each)

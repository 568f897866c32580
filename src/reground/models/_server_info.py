"""What a server tells about itself on pages next to `/v1`: its control tokens, and how it takes a grammar."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from reground.core.http import BadBody, read_json

PAGE_SECONDS, PAGE_TRIES = 4.0, 6
"""How long a page is waited for, and how often: a busy server answers late."""


@dataclass(frozen=True)
class Facts:
    """What is known of a server. grammar: how it takes one (`_openai_protocol.grammar_parameter`)."""

    control_tokens: tuple[str, ...] = ()
    grammar: str = "response_format"


class _NotYet(Exception):
    """The server cannot be reached, still starts, or is too busy to tell."""


class ServerInfo:
    """What one server tells, asked for once. Only a server of the user's own is asked.

    get: requests a page and gives status, headers and body. It raises BadBody and aiohttp's errors.
    """

    def __init__(self, base: URL, get: Callable[[URL], Awaitable[tuple[int, Any, bytes]]]) -> None:
        self._base = base
        self._get = get
        self._late = 0
        self._facts = None if is_private(base) else Facts()
        self._asking: asyncio.Task[Facts | None] | None = None

    async def facts(self) -> Facts:
        """What is known now. Concurrent calls share the requests; where it could not tell the next call asks again."""
        if self._facts is None:
            if self._asking is None or self._asking.get_loop() is not asyncio.get_running_loop():
                self._asking = asyncio.create_task(self._ask())
            self._facts = await asyncio.shield(self._asking)
            self._asking = None if self._facts is None else self._asking
        return self._facts or Facts()

    async def _ask(self) -> Facts | None:
        try:
            if (properties := await self._page("props")) is not None:
                return Facts(control_tokens(properties), "grammar")  # llama.cpp
            tokenizer = await self._page("tokenizer_info")  # vLLM has it only if enabled
            version = await self._page("version")
        except _NotYet:
            return None
        except RecursionError:  # of a page that is nested too deep
            return Facts()
        return Facts(control_tokens(tokenizer), "response_format" if version is None else "structured_outputs")

    async def _page(self, name: str) -> Any:
        """The content of a page; None if the server has none. Raises _NotYet."""
        try:
            root = self._base.path.rstrip("/").removesuffix("/v1")  # the pages are next to the protocol's, not below
            status, _, body = await self._get(self._base.with_path(f"{root}/{name}").with_query(self._base.query))
            if status == 503:
                raise _NotYet
            return await asyncio.to_thread(read_json, body) if status == 200 else None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise _NotYet from None
        except TimeoutError:
            self._late += 1
            if self._late < PAGE_TRIES:
                raise _NotYet from None
            return None
        except (BadBody, aiohttp.ClientError, OSError, ValueError):
            return None


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


def control_tokens(page: Any) -> tuple[str, ...]:
    """The control tokens in a server's reply: the named ones, and text in its chat template that looks like one."""
    if not isinstance(page, dict):
        return ()
    texts: list[str] = []
    for name, value in page.items():
        if name.endswith("_token") or name in ("media_marker", "additional_special_tokens", "added_tokens_decoder"):
            texts += _texts(value)
        elif name.startswith("chat_template"):
            texts += [shape for template in _texts(value) for shape in _SHAPE.findall(template)]
    tokens = {text for text in texts if _MARKS & set(text) and 1 < len(text) <= _MOST_LETTERS}
    return tuple(sorted(token for token in tokens if not _OURS.fullmatch(token))[:_MOST_TOKENS])


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value: itself, those of a list, and those under `content` or `template` in mappings of it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, dict) or name in ("content", "template"):
                yield from _texts(each)

"""Reads a server's own control tokens from llama.cpp's `/props` or vLLM's `/tokenizer_info`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Any

from yarl import URL

ENDPOINTS = ("props", "tokenizer_info")
"""Endpoints next to `/v1`; the first that answers is used. vLLM has its own only if enabled."""

_SHAPE = re.compile(r"<<?/?[^\s<>{}'\"%]{1,60}>>?|\[/?[A-Z_]{2,40}\]|\[\|[^\s|\[\]]{1,40}\|\]")
_OURS = re.compile(r"</?passage>")
_MARKS = frozenset("<>[]|｜")
_MOST_TOKENS, _MOST_LETTERS = 2000, 100


def is_own(url: URL) -> bool:
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


def control_tokens(told: Any) -> tuple[str, ...]:
    """The control tokens in a server's reply: the named ones, and text in its chat template that looks like one."""
    if not isinstance(told, dict):
        return ()
    found = {token for token in _named(told) if _MARKS & set(token) and 1 < len(token) <= _MOST_LETTERS}
    return tuple(sorted(token for token in found if not _OURS.fullmatch(token))[:_MOST_TOKENS])


def _named(told: dict[str, Any]) -> Iterator[str]:
    for name, value in told.items():
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

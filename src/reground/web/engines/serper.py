"""`serper`: Google's results through serper.dev; its key is in SERPER_API_KEY."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from reground.web.engines._client import HttpEngine, Provider, hosted
from reground.web.engines._reading import found
from reground.web.results import WebResult


def ask(query: str, k: int) -> Mapping[str, Any]:
    """The first page of results."""
    return {"q": query, "num": k}


def read(data: dict[str, Any]) -> Sequence[WebResult]:
    """The results, without boxes and questions that people also ask."""
    return found(data.get("organic"), url="link", date="date")


PROVIDER = Provider(
    name="serper",
    url="https://google.serper.dev",
    path="/search",
    ask=ask,
    read=read,
    key_env="SERPER_API_KEY",
    key_header=("X-API-KEY", "{}"),
    per_minute=300,
    no_quota=re.compile(r"^400 .{0,80}credits", re.IGNORECASE),
)


def create(argument: str) -> HttpEngine:
    """The engine."""
    return hosted(PROVIDER, argument)

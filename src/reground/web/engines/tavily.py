"""`tavily`: Tavily's search for language models, which sends the pages' texts along; its key is in TAVILY_API_KEY."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from reground.web.engines._client import HttpEngine, Provider, hosted
from reground.web.engines._reading import found
from reground.web.results import WebResult


def ask(query: str, k: int) -> Mapping[str, Any]:
    """A basic search, which costs one credit."""
    return {"query": query, "max_results": k, "search_depth": "basic", "include_raw_content": "text"}


def read(data: dict[str, Any]) -> Sequence[WebResult]:
    """The results; `published_date` comes with news only."""
    return found(data.get("results"), snippet="content", content="raw_content", score="score", date="published_date")


PROVIDER = Provider(
    name="tavily",
    url="https://api.tavily.com",
    path="/search",
    ask=ask,
    read=read,
    key_env="TAVILY_API_KEY",
    letters=400,
    per_minute=100,
    no_quota=re.compile(r"^43[23]\b"),
)


def create(argument: str) -> HttpEngine:
    """The engine."""
    return hosted(PROVIDER, argument)

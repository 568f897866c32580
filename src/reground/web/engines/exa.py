"""`exa`: Exa's search by meaning, which sends the pages' texts along; its key is in EXA_API_KEY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reground.web.engines._client import HttpEngine, Provider, hosted
from reground.web.engines._reading import found, plain
from reground.web.results import WebResult

MOST_TEXT = 20_000
_SNIPPET = 500


def ask(query: str, k: int) -> Mapping[str, Any]:
    """Exa sends no snippets, so the texts are asked for."""
    return {"query": query, "numResults": k, "contents": {"text": {"maxCharacters": MOST_TEXT}}}


def read(data: dict[str, Any]) -> Sequence[WebResult]:
    """The results; a page's beginning is its snippet."""
    results = found(data.get("results"), content="text", score="score", date="publishedDate")
    return [each.model_copy(update={"snippet": plain(each.content, _SNIPPET)}) for each in results]


PROVIDER = Provider(
    name="exa",
    url="https://api.exa.ai",
    path="/search",
    ask=ask,
    read=read,
    key_env="EXA_API_KEY",
    key_header=("x-api-key", "{}"),
    most=100,
    per_minute=600,
)


def create(argument: str) -> HttpEngine:
    """The engine."""
    return hosted(PROVIDER, argument)

"""`searxng:URL`: a SearXNG server, which asks many engines at once; no key.

A server answers programs only if its settings.yml allows JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reground.web.engines._client import HttpEngine, Provider, served
from reground.web.engines._reading import MOST_RESULTS, found, plain
from reground.web.results import EngineBusy, WebResult


def ask(query: str, k: int) -> Mapping[str, Any]:
    """SearXNG sends a page of results, whatever their number."""
    return {"q": query, "format": "json"}


def read(data: dict[str, Any]) -> Sequence[WebResult]:
    """The results. Raises EngineBusy if there are none because the engines behind the server failed."""
    results = found(data.get("results"), snippet="content", score="score", date="publishedDate")
    failed = data.get("unresponsive_engines")
    if not results and isinstance(failed, list) and failed:
        why = "; ".join(plain(": ".join(map(str, each)), 80) for each in failed[:5] if isinstance(each, list))
        raise EngineBusy(f"none of the engines behind SearXNG answered ({why})")
    return results


PROVIDER = Provider(
    name="searxng",
    url="http://localhost:8080",
    path="/search",
    ask=ask,
    read=read,
    posts=False,
    most=MOST_RESULTS,
    hints={
        403: "it does not allow JSON: add json to search.formats in its settings.yml and start it again",
        429: "its limiter refuses programs: on a server of your own, set server.limiter to false in its settings.yml",
    },
)


def create(argument: str) -> HttpEngine:
    """The engine of the server at this address."""
    return HttpEngine(served(PROVIDER, argument))

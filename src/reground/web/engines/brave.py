"""`brave`: the Brave Search API, with an index of its own; its key is in BRAVE_API_KEY."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from reground.core.http import retry_after
from reground.web.engines._client import HttpEngine, Provider, hosted
from reground.web.engines._reading import found, part
from reground.web.results import WebResult

_SHORT_WINDOW = 60.0


def ask(query: str, k: int) -> Mapping[str, Any]:
    """Web results alone, without marks around the words that match."""
    return {"q": query, "count": k, "result_filter": "web", "text_decorations": "false"}


def read(data: dict[str, Any]) -> Sequence[WebResult]:
    """The results; a query without any has no `web`."""
    return found(part(data, "web", "results"), snippet="description", date="page_age")


def rate(headers: Mapping[str, str]) -> float | None:
    """Requests a minute by the plan, from a policy such as `1;w=1, 15000;w=2592000`: 1 a second, 15,000 a month."""
    rates = []
    for policy in headers.get("X-RateLimit-Policy", "").split(","):
        limit, _, window = policy.partition(";w=")
        with suppress(ValueError):
            if 0 < float(window) <= _SHORT_WINDOW and float(limit) > 0:
                rates.append(60.0 * float(limit) / float(window))
    return min(rates, default=None)


def wait(headers: Mapping[str, str]) -> float | None:
    """Seconds until every window has requests left."""
    left, resets = (headers.get(f"X-RateLimit-{name}", "").split(",") for name in ("Remaining", "Reset"))
    try:
        return max(float(reset) for some, reset in zip(left, resets, strict=True) if float(some) < 1)
    except ValueError:
        return retry_after(headers)


PROVIDER = Provider(
    name="brave",
    url="https://api.search.brave.com",
    path="/res/v1/web/search",
    ask=ask,
    read=read,
    posts=False,
    key_env="BRAVE_API_KEY",
    key_header=("X-Subscription-Token", "{}"),
    letters=400,
    words=50,
    per_minute=60,
    rate=rate,
    wait=wait,
    bad_key=re.compile(r"SUBSCRIPTION_(?:TOKEN_INVALID|NOT_FOUND)"),
    no_quota=re.compile(r"QUOTA_LIMITED"),
)


def create(argument: str) -> HttpEngine:
    """The engine."""
    return hosted(PROVIDER, argument)

"""Search engines with a JSON interface: what each is sent, what is read of its reply, and how often it may be asked.

Those with a key have one address; SearXNG and Search-R1 are servers of the user's own, named `searxng:URL`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from reground.core.http import retry_after
from reground.web.engines._client import Provider
from reground.web.results import (
    MOST_RESULTS,
    MOST_SNIPPET,
    MOST_TITLE,
    EngineBusy,
    WebResult,
    as_list,
    number,
    page_text,
    page_url,
    parse_results,
    plain,
)

_SHORT_WINDOW = 60.0
_MOST_TEXT = 20_000
_LONGEST_ID = 200


def brave_rate(headers: Mapping[str, str]) -> float | None:
    """Requests a minute by the plan, from a policy such as `1;w=1, 15000;w=2592000`: 1 a second, 15,000 a month."""
    rates = []
    for policy in headers.get("X-RateLimit-Policy", "").split(","):
        limit, _, window = policy.partition(";w=")
        with suppress(ValueError):
            if 0 < float(window) <= _SHORT_WINDOW and float(limit) > 0:
                rates.append(60.0 * float(limit) / float(window))
    return min(rates, default=None)


def _brave_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds until every window has requests left."""
    remaining, resets = (headers.get(f"X-RateLimit-{name}", "").split(",") for name in ("Remaining", "Reset"))
    try:
        return max(float(reset) for left, reset in zip(remaining, resets, strict=True) if float(left) < 1)
    except ValueError:
        return retry_after(headers)


def _read_brave(data: dict[str, Any], base: str) -> Sequence[WebResult]:
    web = data.get("web")
    return parse_results(web.get("results") if isinstance(web, dict) else None, snippet="description", date="page_age")


BRAVE = Provider(
    name="brave",
    summary="`brave`: the Brave Search API, with an index of its own; its key is in BRAVE_API_KEY.",
    url="https://api.search.brave.com",
    path="/res/v1/web/search",
    # web results alone, without marks around the words that match
    ask=lambda query, k: {"q": query, "count": k, "result_filter": "web", "text_decorations": "false"},
    read=_read_brave,
    posts=False,
    key_env="BRAVE_API_KEY",
    key_header=("X-Subscription-Token", "{}"),
    letters=400,
    words=50,
    per_minute=60,
    rate=brave_rate,
    wait=_brave_wait,
    bad_key=re.compile(r"SUBSCRIPTION_(?:TOKEN_INVALID|NOT_FOUND)"),
    no_quota=re.compile(r"QUOTA_LIMITED"),
)


def _read_exa(data: dict[str, Any], base: str) -> Sequence[WebResult]:
    """Exa sends no snippets, so a page's beginning is its snippet."""
    results = parse_results(data.get("results"), content="text", score="score", date="publishedDate")
    return [each.model_copy(update={"snippet": plain(each.content, 500)}) for each in results]


EXA = Provider(
    name="exa",
    summary="`exa`: Exa's search by meaning, which sends the pages' texts along; its key is in EXA_API_KEY.",
    url="https://api.exa.ai",
    path="/search",
    ask=lambda query, k: {"query": query, "numResults": k, "contents": {"text": {"maxCharacters": _MOST_TEXT}}},
    read=_read_exa,
    key_env="EXA_API_KEY",
    key_header=("x-api-key", "{}"),
    most=100,
    per_minute=600,
)
SERPER = Provider(
    name="serper",
    summary="`serper`: Google's results through serper.dev; its key is in SERPER_API_KEY.",
    url="https://google.serper.dev",
    path="/search",
    ask=lambda query, k: {"q": query, "num": k},
    # without boxes and questions that people also ask
    read=lambda data, base: parse_results(data.get("organic"), url="link", date="date"),
    key_env="SERPER_API_KEY",
    key_header=("X-API-KEY", "{}"),
    per_minute=300,
    no_quota=re.compile(r"^400 .{0,80}credits", re.IGNORECASE),
)
_TAVILY = {"search_depth": "basic", "include_raw_content": "text"}  # a basic search costs one credit
TAVILY = Provider(
    name="tavily",
    summary="`tavily`: Tavily's search for language models, which sends the pages' texts along; its key is in "
    "TAVILY_API_KEY.",
    url="https://api.tavily.com",
    path="/search",
    ask=lambda query, k: {"query": query, "max_results": k, **_TAVILY},
    # `published_date` comes with news only
    read=lambda data, base: parse_results(
        data.get("results"), snippet="content", content="raw_content", score="score", date="published_date"
    ),
    key_env="TAVILY_API_KEY",
    letters=400,
    per_minute=100,
    no_quota=re.compile(r"^43[23]\b"),
)


def _read_searxng(data: dict[str, Any], base: str) -> Sequence[WebResult]:
    """The results. Raises EngineBusy if there are none because the engines behind the server failed."""
    results = parse_results(data.get("results"), snippet="content", score="score", date="publishedDate")
    failed = data.get("unresponsive_engines")
    if not results and isinstance(failed, list) and failed:
        why = "; ".join(plain(": ".join(map(str, each)), 80) for each in failed[:5] if isinstance(each, list))
        raise EngineBusy(f"none of the engines behind SearXNG answered ({why})")
    return results


SEARXNG = Provider(
    name="searxng",
    summary="`searxng:URL`: a SearXNG server, which asks many engines at once; no key.",
    path="/search",
    ask=lambda query, k: {"q": query, "format": "json"},  # it sends a page of results, whatever their number
    read=_read_searxng,
    posts=False,
    most=MOST_RESULTS,
    hints={
        403: "it does not allow JSON: add json to search.formats in its settings.yml and start it again",
        429: "its limiter refuses programs: on a server of your own, set server.limiter to false in its settings.yml",
    },
)


def read_searchr1(data: dict[str, Any], base: str) -> Sequence[WebResult]:
    """The documents, each with an address below the service's, for most have none. Raises ValueError."""
    lists = as_list(data.get("result"))
    documents = as_list(lists[0]) if lists else []
    return [result for each in documents if (result := _document(each, base)) is not None]


def _document(entry: Any, base: str) -> WebResult | None:
    """A document, which comes alone or with its score, as an object or as its text."""
    scored = isinstance(entry, dict) and "document" in entry
    document = entry["document"] if scored else entry
    if isinstance(document, str):
        document = {"contents": document}
    if not isinstance(document, dict):
        return None
    title, text = document.get("title"), page_text(document.get("text"))
    if text is None and (text := page_text(document.get("contents"))) is not None:
        # in `contents`, the first line is the title in quotation marks
        first, line, rest = text.partition("\n")
        if line and rest.strip():
            title, text = title or first.strip().strip('"'), rest.strip()
    if text is None:
        return None
    id_ = document.get("id")
    if isinstance(id_, str | int) and not isinstance(id_, bool) and 0 < len(str(id_)) <= _LONGEST_ID:
        id_ = quote(str(id_), safe="", errors="replace")
    else:
        id_ = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
    return WebResult(
        title=plain(title, MOST_TITLE),
        url=page_url(document.get("url")) or f"{base}/retrieve/{id_}",
        snippet=plain(text, MOST_SNIPPET),
        content=text,
        score=number(entry.get("score")) if scored else None,
    )


SEARCHR1 = Provider(
    name="searchr1",
    summary="`searchr1:URL`: a retrieval service of Search-R1 (POST /retrieve) over a corpus of its own; no key.",
    path="/retrieve",
    ask=lambda query, k: {"queries": [query], "topk": k, "return_scores": True},
    read=read_searchr1,
    most=MOST_RESULTS,
    may_store=True,
)

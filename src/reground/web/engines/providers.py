"""Search engines with a JSON interface: one HTTP client, and what each provider is sent, what is read of its reply, and
how often it may be asked.

Those with a key have one address; SearXNG and Search-R1 are servers of the user's own, named `searxng:URL`.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp

from reground import __version__
from reground.core import http
from reground.core.concurrency import PerLoop
from reground.core.errors import ConfigurationError
from reground.web.results import (
    MOST_RESULTS,
    MOST_SNIPPET,
    MOST_TITLE,
    EngineBusy,
    EngineError,
    WebResult,
    as_list,
    complaint,
    number,
    page_text,
    page_url,
    parse_results,
    plain,
    shorten,
)

MOST_BYTES = 16 * http.MIB
CONNECT_SECONDS = 10.0
_ATTEMPTS = 4  # requests for one search
_LONGEST_WAIT = 10.0  # the most seconds that a provider may ask to wait; for a longer wait the search fails at once
_PASSING = frozenset({408, 425, 429})


@dataclass(frozen=True, kw_only=True)
class Provider:
    """What differs from one provider to the next.

    summary: its line in a list. url: its server; "" for a server of the user's own. path: the page that searches. ask:
    the parameters for a query and a number of results. read: the results in its JSON, given its address; raises
    ValueError or an EngineError. posts: whether the parameters are sent as JSON. key_env: the variable of the key, and
    key_header how it is sent. most: the most results. letters, words: the longest query. per_minute: requests, in the
    smallest plan. rate: the requests a minute that a reply's headers tell. wait: the seconds that they ask to wait.
    bad_key, no_quota: what a complaint about either looks like, after its status. hints: what to do about a status.
    may_store: as in `Engine`.
    """

    name: str
    summary: str
    url: str = ""
    path: str
    ask: Callable[[str, int], Mapping[str, Any]]
    read: Callable[[Any, str], Sequence[WebResult]]
    posts: bool = True
    key_env: str | None = None
    key_header: tuple[str, str] = ("Authorization", "Bearer {}")
    most: int = 20
    letters: int = 2_000
    words: int = 400
    per_minute: float | None = None
    rate: Callable[[Mapping[str, str]], float | None] = lambda headers: None
    wait: Callable[[Mapping[str, str]], float | None] = http.retry_after
    bad_key: re.Pattern[str] | None = None
    no_quota: re.Pattern[str] | None = None
    hints: Mapping[int, str] = field(default_factory=dict)
    may_store: bool = False

    def create(self, argument: str) -> HttpEngine:
        """The engine. argument: the address of the user's own server.

        Raises ConfigurationError for a missing key or a wrong address, or for any address where none is needed.
        """
        if argument and self.url:
            raise ConfigurationError(f"{self.name} takes no address: write {self.name}, not {self.name}:...")
        return HttpEngine(self, base=None if self.url else argument.rstrip("/").removesuffix(self.path))


class _Passing(EngineBusy):
    """The same request may succeed if it is sent again."""


@dataclass(repr=False)
class HttpEngine:
    """A provider as an engine.

    base: another address of its server. timeout: seconds of one request. Raises ConfigurationError for a missing key or
    a wrong address.
    """

    provider: Provider
    base: str | None = None
    timeout: float = 20.0
    clock: http.Clock = time.monotonic
    sleep: http.Sleep = asyncio.sleep
    uniform: Callable[[float, float], float] = random.uniform

    def __post_init__(self) -> None:
        provider = self.provider
        self._base = (provider.url if self.base is None else self.base).rstrip("/")
        http.check_address(self._base, f"the address of {provider.name}", instead="engines at an address take none")
        if not http.is_http(self._base) or urlsplit(self._base).query or urlsplit(self._base).fragment:
            example = f"{provider.name}:http://localhost:8080"
            raise ConfigurationError(f"{provider.name} needs the address of its server, such as {example}")
        self.name = provider.name if self._base == provider.url else f"{provider.name}:{self._base}"
        self.may_store = provider.may_store
        self._url = self._base + provider.path
        self._key = None if provider.key_env is None else http.key_in(provider.key_env)
        if provider.key_env is not None and self._key is None:
            raise ConfigurationError(f"{provider.key_env} is not set: set it to your key for {provider.name}")
        self._pace = http.Bucket(provider.per_minute, burst_seconds=1.0, clock=self.clock, sleep=self.sleep)
        self._proxy = http.proxy_for(self._url)
        self._sessions = PerLoop(self._session)

    async def aclose(self) -> None:
        """Close the connections; the engine can still be used and opens new ones."""
        await self._sessions.aclose()

    async def search(self, query: str, /, *, k: int) -> Sequence[WebResult]:
        """At most `k` results, best first; a query that is too long for the provider is cut."""
        provider = self.provider
        text = shorten(query, provider.letters, provider.words)
        if not text:
            raise EngineError(f"{self.name} was asked for nothing")
        parameters = provider.ask(text, max(1, min(k, provider.most)))
        for failures in count(1):
            await self._pace.take(1)
            try:
                return (await self._once(parameters))[: max(0, k)]
            except _Passing as error:
                wait = error.retry_after
                if failures >= _ATTEMPTS or (wait or 0.0) > _LONGEST_WAIT:
                    raise EngineBusy(http.gave_up(error, failures, "", wait), retry_after=wait) from None
                await self.sleep(http.backoff(failures, wait, base=0.5, cap=8.0, uniform=self.uniform))
        raise AssertionError

    async def _once(self, parameters: Mapping[str, Any]) -> Sequence[WebResult]:
        status, headers, body = await self._send(parameters)
        self._pace.per_minute = self.provider.rate(headers) or self._pace.per_minute
        try:
            data = await asyncio.to_thread(http.read_json, body) if len(body) > http.LARGE else http.read_json(body)
        except ValueError:
            data = None
        if status != 200:
            raise self._refusal(status, headers, complaint(data))
        if not isinstance(data, dict):
            raise _Passing(f"{self.name} gave a malformed reply")
        if message := complaint({"error": data.get("error")}):
            raise _Passing(f"{self.name} failed: {http.redacted(message, self._key)}")
        try:
            return self.provider.read(data, self._base)
        except ValueError as error:
            raise _Passing(f"{self.name} gave a malformed reply: {error}") from None

    async def _send(self, parameters: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        session = await self._sessions.get()
        method, keyword = ("POST", "json") if self.provider.posts else ("GET", "params")
        settings: dict[str, Any] = {keyword: parameters, "proxy": self._proxy, "allow_redirects": False}
        try:
            async with session.request(method, self._url, **settings) as response:
                return response.status, response.headers, await http.read_body(response, MOST_BYTES)
        except http.BadBody as error:
            raise (_Passing if error.passing else EngineError)(f"{self.name} {error}") from None
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError):
            raise EngineError(f"{self.name} offers no trusted TLS") from None
        except aiohttp.ClientConnectorError as error:
            why = (error.strerror or "no connection").lower()
            raise EngineBusy(f"cannot connect to {self.name}: {why}") from None
        except TimeoutError:
            raise EngineBusy(f"{self.name} did not answer within {self.timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:  # only a connection that was open is tried again
            raise _Passing(f"the connection to {self.name} was lost ({type(error).__name__})") from None

    def _session(self) -> aiohttp.ClientSession:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": http.ENCODING,
            "User-Agent": f"reground/{__version__}",
        }
        name, form = self.provider.key_header
        headers |= {} if self._key is None else {name: form.format(self._key)}
        return aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            auto_decompress=False,  # `read_body` unpacks, within limits
            timeout=aiohttp.ClientTimeout(total=self.timeout, sock_connect=CONNECT_SECONDS),
        )

    def _refusal(self, status: int, headers: Mapping[str, str], message: str) -> EngineError:
        """The error that a status means."""
        provider = self.provider
        text = f"{status} {http.redacted(message, self._key)}".strip()
        wait = provider.wait(headers)
        if (hint := provider.hints.get(status)) is not None:
            hint = f"{self.name} answered {status}: {hint}"
            return EngineBusy(hint, retry_after=wait) if status in _PASSING else EngineError(hint)
        if status == 402 or (provider.no_quota is not None and provider.no_quota.search(text)):
            return EngineBusy(f"the account behind {provider.key_env} has no quota left: {text}", retry_after=wait)
        if status in (401, 403) or (provider.bad_key is not None and provider.bad_key.search(text)):
            key = "and wants a key" if provider.key_env is None else f"and refused the key in {provider.key_env}"
            return EngineError(f"{self.name} answered {text} {key}")
        if status in _PASSING or status >= 500:
            return _Passing(f"{self.name} answered {text}", retry_after=wait)
        if 300 <= status < 400:
            return EngineError(f"{self.name} redirects elsewhere ({status}); give the final address")
        return EngineError(f"{self.name} refused the request: {text}")


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
        return max(float(reset) for count, reset in zip(remaining, resets, strict=True) if float(count) < 1)
    except ValueError:
        return http.retry_after(headers)


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

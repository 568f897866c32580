"""A server that speaks the JSON of every search provider over a few pages, with quotas and faults on demand.

In a test:

    async with MockEngines([Page("Bridge", "https://example.org/bridge", "It was built in 1874.")]) as server:
        server.misbehave("429:2", "cut")  # the next two searches, in this order; then all is well
        engine = HttpEngine(providers.BRAVE, base=server.url("brave"))
        ...
        assert server.asked[-1].wanted["q"] == "bridge"
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from reground.testing.openai_server import FAULTS, Loopback

KEY = "test-key-0123456789"


@dataclass(frozen=True)
class Page:
    """A page of the mock's web."""

    title: str
    url: str
    text: str
    date: str = "2024-05-01T12:00:00"


@dataclass(frozen=True)
class Search:
    """A search that was asked for: whose protocol, the query parameters or the body, and the headers."""

    provider: str
    wanted: Mapping[str, Any]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Protocol:
    """How one provider is asked and answers.

    query, count: the names of its parameters. key: the header of the key. fields: of a result, each with what of the
    page it holds. wrap: the JSON around the results. refused, limited, spent: status and body for a wrong key, the body
    for too many requests, and status and body without quota.
    """

    path: str
    query: str
    count: str | None
    key: str | None
    fields: Mapping[str, Any]
    wrap: Callable[[list[dict[str, Any]]], Any]
    refused: tuple[int, Any] = (401, {})
    limited: Any = ""
    spent: tuple[int, Any] = (402, {})

    def reply(self, pages: Sequence[Page]) -> Any:
        """Its JSON for these pages."""
        return self.wrap(
            [
                {name: what.format(page=page) if isinstance(what, str) else what for name, what in self.fields.items()}
                for page in pages
            ]
        )


def _brave_error(status: int, code: str, detail: str) -> Any:
    error = {"id": "0", "status": status, "code": code, "detail": detail, "meta": {"component": "authentication"}}
    return {"type": "ErrorResponse", "error": error, "time": 0}


def _brave(results: list[dict[str, Any]]) -> Any:
    return {"type": "search", "query": {}, **({"web": {"type": "search", "results": results}} if results else {})}


_FIELDS = {"title": "{page.title}", "url": "{page.url}"}
PROTOCOLS = {
    "brave": Protocol(
        *("/res/v1/web/search", "q", "count", "X-Subscription-Token"),
        {**_FIELDS, "type": "search_result", "description": "<strong>{page.text}</strong>", "page_age": "{page.date}"},
        _brave,
        refused=(422, _brave_error(422, "SUBSCRIPTION_TOKEN_INVALID", "The provided subscription token is invalid.")),
        limited=_brave_error(429, "RATE_LIMITED", "Request rate limit exceeded for plan."),
        spent=(429, _brave_error(429, "QUOTA_LIMITED", "Request quota limit exceeded for plan.")),
    ),
    "serper": Protocol(
        *("/search", "q", "num", "X-API-KEY"),
        {"title": "{page.title}", "link": "{page.url}", "snippet": "{page.text}", "date": "{page.date}"},
        lambda results: {"searchParameters": {"type": "search"}, "organic": results, "credits": 1},
        refused=(403, {"message": "Unauthorized.", "statusCode": 403}),
        limited={"message": "Too many requests.", "statusCode": 429},
        spent=(400, {"message": "Not enough credits", "statusCode": 400}),
    ),
    "tavily": Protocol(
        *("/search", "query", "max_results", "Authorization"),
        {**_FIELDS, "content": "{page.text}", "raw_content": "{page.text}\nMore.", "score": 0.9},
        lambda results: {"query": "", "answer": None, "images": [], "results": results, "response_time": 0.1},
        refused=(401, {"detail": {"error": "Unauthorized: missing or invalid API key."}}),
        limited={"detail": {"error": "Your request has been blocked due to excessive requests."}},
        spent=(432, {"detail": {"error": "This request exceeds your plan's set usage limit."}}),
    ),
    "exa": Protocol(
        *("/search", "query", "numResults", "x-api-key"),
        {**_FIELDS, "id": "{page.url}", "publishedDate": "{page.date}", "text": "{page.text}"},
        lambda results: {"requestId": "0", "resolvedSearchType": "neural", "results": results},
        refused=(401, {"requestId": "0", "error": "Invalid API key", "tag": "INVALID_API_KEY"}),
        limited={"error": "rate limit exceeded"},
        spent=(402, {"requestId": "0", "error": "You have exceeded your credits limit.", "tag": "NO_MORE_CREDITS"}),
    ),
    "searxng": Protocol(
        *("/search", "q", None, None),
        {**_FIELDS, "content": "{page.text}", "score": 1.5, "publishedDate": "{page.date}", "engines": ["mock"]},
        lambda results: {"query": "", "results": results, "suggestions": [], "unresponsive_engines": []},
        limited="Too Many Requests",
    ),
    "searchr1": Protocol(
        *("/retrieve", "queries", "topk", None),
        {"contents": '"{page.title}"\n{page.text}'},
        lambda results: {
            "result": [
                [{"document": {"id": str(at), **each}, "score": 1.0 / at} for at, each in enumerate(results, start=1)]
            ]
        },
    ),
}


class MockEngines(Loopback):
    """All providers on one loopback port, each below a path of its own name.

    A search finds the pages that hold a word of the query. headers: sent with every reply.
    """

    def __init__(self, pages: Sequence[Page], *, headers: Mapping[str, str] | None = None) -> None:
        self.pages, self.headers = tuple(pages), dict(headers or {})
        self.asked: list[Search] = []
        self._faults: deque[str] = deque()

    def url(self, provider: str) -> str:
        """The address to give to a provider's engine."""
        return f"{self.origin}/{provider}"

    def misbehave(self, *faults: str) -> None:
        """Let the next searches fail, one fault each, in this order.

        "429" or "429:SECONDS", "quota", "status:CODE", "json:BODY", and the faults of `reground.testing.openai_server`
        that are no errors of OpenAI's own, such as "cut", "hang-up", "stall", "halt", "flood:MIB" and "bomb:MIB".
        """
        self._faults.extend(faults)

    def application(self) -> web.Application:
        """Each provider's path."""
        app = web.Application(client_max_size=1024**2)
        for name, protocol in PROTOCOLS.items():
            app.router.add_route("*", f"/{name}{protocol.path}", self._reply)
        return app

    async def _reply(self, request: web.Request) -> web.StreamResponse:
        name = request.path.split("/")[1]
        protocol = PROTOCOLS[name]
        parameters = dict(request.query) if request.method == "GET" else await request.json()
        self.asked.append(Search(name, parameters, dict(request.headers)))
        if self._faults:
            return await self._fail(request, protocol, *self._faults.popleft().split(":", 1))
        if protocol.key is not None and not request.headers.get(protocol.key, "").endswith(KEY):
            return self._json(*protocol.refused)
        query = parameters[protocol.query]
        words = set((query if isinstance(query, str) else query[0]).lower().split())
        pages = [each for each in self.pages if words & set(f"{each.title} {each.text}".lower().split())]
        most = None if protocol.count is None else int(parameters[protocol.count])
        return self._json(200, protocol.reply(pages[:most]))

    async def _fail(
        self, request: web.Request, protocol: Protocol, fault: str, argument: str = ""
    ) -> web.StreamResponse:
        if fault == "429":
            return self._json(429, protocol.limited, {"Retry-After": argument} if argument else {})
        if fault == "quota":
            return self._json(*protocol.spent)
        if fault == "status":
            return self._json(int(argument), {"error": f"the mock was told to answer {argument}"})
        if fault == "json":
            return web.Response(text=argument, content_type="application/json")
        return await FAULTS[fault](request, argument)

    def _json(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> web.Response:
        return web.json_response(body, status=status, headers={**self.headers, **(headers or {})})

"""What the page at / asks for: its own files, the questions of who looks at it, and the documents, to be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reground.app.serving.errors import Refusal
from reground.app.serving.middleware import INFO
from reground.app.serving.responses import json_response
from reground.core.concurrency import in_daemon
from reground.retrieval.documents import Scan
from reground.retrieval.quotes import Places, places
from reground.view.contents import TRACES, Trace
from reground.view.server import HEADERS, SERVED, asset, page, script

if TYPE_CHECKING:
    from reground.app.serving.engine import Engine
    from reground.app.serving.keys import Holder

_QUESTIONS = 100  # earlier questions in the list
_LISTED = 1000  # files in a list
_AROUND = 100_000  # characters before a passage, and behind it, that are shown
_READING = 4  # documents and questions that are read at once; others wait


def routes(engine: Engine, *, is_shared: bool) -> list[Route]:
    """The paths of the page, and of what it shows. is_shared: whether others ask too, and nobody has a key."""
    room = asyncio.Semaphore(_READING)

    async def questions(request: Request) -> Response:
        async with room:
            rows = [] if is_shared else await in_daemon(partial(_rows, engine, _holder(request)), name="runs")
        return json_response({"object": "list", "data": rows})

    async def question(request: Request) -> Response:
        run, holder = request.path_params["run"], _holder(request)
        async with room:
            return json_response(await in_daemon(partial(_question, engine, holder, run), name="runs"))

    async def documents(request: Request) -> Response:
        listed = []
        for name in filter(_holder(request).may_ask, engine.corpora):
            scan, reports = await engine.session.follow(name), engine.session.reports.get(name, ())
            files = [file.name for file in scan.files] if isinstance(scan, Scan) else []
            unread = [each.model_dump() for report in reports for each in (*report.skipped, *report.partly)]
            lists = {"files": files[:_LISTED], "unread": unread[:_LISTED]}
            counts = {"documents": sum(each.documents for each in reports), "file": len(files), "unread": len(unread)}
            listed.append({"corpus": name, "counts": counts, **lists})
        return json_response({"object": "list", "data": listed})

    async def text(request: Request) -> Response:
        query = request.query_params
        corpus, name = engine.documents(query.get("corpus") or None, _holder(request)), query.get("file", "")
        scan = await engine.session.follow(corpus)
        file = next((file for file in scan.files if file.name == name), None) if isinstance(scan, Scan) else None
        async with room:
            read = Places() if file is None else await in_daemon(partial(places, file.path), name="places")
        if not read.text:
            raise Refusal(404, f"{name[:200]!r} cannot be shown", "no_document", param="file")
        match = await in_daemon(partial(read.find, query.get("quote", "")), name="places")
        start, end = match.span() if match else (0, 0)
        parts = read.text[max(0, start - _AROUND) : start], read.text[start:end], read.text[end : end + _AROUND]
        return json_response({"file": name, "parts": parts, "characters": len(read.text)})

    paths = {"/v1/questions": questions, "/v1/questions/{run}": question}
    paths |= {"/v1/documents": documents, "/v1/documents/text": text}
    fixed = [
        _fixed("/", "text/html", page("reground")),
        _fixed("/page.js", "text/javascript", script(SERVED)),
        _fixed("/page.css", "text/css", asset("page.css")),
    ]
    return [*fixed, *(Route(path, endpoint) for path, endpoint in paths.items())]


def _fixed(path: str, kind: str, content: str) -> Route:
    async def send(request: Request) -> Response:
        return Response(content, media_type=kind, headers=HEADERS)

    return Route(path, send)


def _holder(request: Request) -> Holder:
    holder: Holder = request.scope[INFO].holder
    return holder


def _runs(engine: Engine, holder: Holder) -> Iterator[tuple[dict[str, Any], Trace]]:
    """The runs of a client, the last first: what a list says of each, and its file."""
    offers = engine.offers_to(holder)
    for run, folder, name in () if engine.keeping is None else engine.keeping.questions_of(holder.name):
        if name in offers:
            about = {"n": run.replace("/", "~"), "source": 0, "model": name, "corpus": offers[name].corpus}
            yield about, Trace(folder / TRACES[1], run)


def _rows(engine: Engine, holder: Holder) -> list[dict[str, Any]]:
    rows = []
    for about, trace in islice(_runs(engine, holder), _QUESTIONS):
        with suppress(OSError):  # a question in work has no trajectory yet
            rows += [about | row for row in _read(trace.path, trace.path.stat().st_mtime_ns)]
    return rows


@lru_cache(1000)
def _read(path: Path, changed: int) -> list[dict[str, Any]]:
    return [entry.row for entry in Trace(path, "").news()]


def _question(engine: Engine, holder: Holder, run: str) -> dict[str, Any]:
    """A question of a client, as the page shows it. Raises Refusal where there is none of this name."""
    traces = (trace for about, trace in _runs(engine, holder) if about["n"] == run)
    for data in (trace.open(entry) for trace in traces for entry in trace.news()):
        return data
    raise Refusal(404, "there is no such question", "no_question", param="run")

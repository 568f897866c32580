"""What the page at / asks for: its own files, the questions of who looks at it, and the documents, to be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reground.app.serving.errors import Refusal
from reground.app.serving.middleware import SEEN
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
_FILES = 1000  # names of files in a list
_AROUND = 100_000  # characters before a passage, and behind it, that are shown
_READING = 4  # documents that are read at once; others wait


def routes(engine: Engine) -> list[Route]:
    """The paths of the page, and of what it shows."""
    room = asyncio.Semaphore(_READING)

    async def questions(request: Request) -> Response:
        rows = await in_daemon(partial(_rows, engine, _holder(request)), name="runs")
        return json_response({"object": "list", "data": rows})

    async def question(request: Request) -> Response:
        run, holder = request.path_params["run"], _holder(request)
        return json_response(await in_daemon(partial(_told, engine, holder, run), name="runs"))

    async def documents(request: Request) -> Response:
        corpora = [name for name in engine.corpora if _holder(request).may_ask(name)]
        return json_response({"object": "list", "data": [await _listed(engine, name) for name in corpora]})

    async def text(request: Request) -> Response:
        asked = request.query_params
        corpus, name = engine.documents(asked.get("corpus") or None, _holder(request)), asked.get("file", "")
        held = await engine.session.follow(corpus)
        file = next((file for file in held.files if file.name == name), None) if isinstance(held, Scan) else None
        async with room:
            read = Places() if file is None else await in_daemon(partial(places, file.path), name="places")
        if not read.text:
            raise Refusal(404, f"{name[:200]!r} cannot be shown", "no_document", param="file")
        match = await in_daemon(partial(read.find, asked.get("quote", "")), name="places")
        start, end = match.span() if match else (0, 0)
        around = {"before": read.text[max(0, start - _AROUND) : start], "after": read.text[end : end + _AROUND]}
        found = {"quote": read.text[start:end], "place": read.of(asked.get("quote", ""))}
        return json_response({"corpus": corpus, "file": name, "characters": len(read.text), **around, **found})

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
    holder: Holder = request.scope[SEEN].holder
    return holder


def _runs(engine: Engine, holder: Holder) -> Iterator[tuple[dict[str, Any], Trace]]:
    """The runs of who asks, the last first: what a list says of each, and its file."""
    offers = engine.offers_to(holder)
    for run, folder, name in () if engine.keeping is None else engine.keeping.asked_by(holder.name):
        if name in offers:
            about = {"n": run.replace("/", "~"), "source": 0, "model": name, "corpus": offers[name].corpus}
            yield about, Trace(folder / TRACES[1], run)


def _rows(engine: Engine, holder: Holder) -> list[dict[str, Any]]:
    runs = islice(_runs(engine, holder), _QUESTIONS)
    return [about | entry.row for about, trace in runs for entry in trace.news()]


def _told(engine: Engine, holder: Holder, run: str) -> dict[str, Any]:
    """A question of who asks, as the page tells it. Raises Refusal where there is none of this name."""
    traces = (trace for about, trace in _runs(engine, holder) if about["n"] == run)
    for told in (trace.open(entry) for trace in traces for entry in trace.news()):
        return told
    raise Refusal(404, "there is no such question", "no_question", param="run")


async def _listed(engine: Engine, name: str) -> dict[str, Any]:
    """Documents, their files and what of them was not read."""
    held, reports = await engine.session.follow(name), engine.session.reports.get(name, ())
    files = held.files if isinstance(held, Scan) else []
    unread = [each.model_dump() for report in reports for each in (*report.skipped, *report.partly)]
    return {
        "corpus": name,
        "documents": sum(report.documents for report in reports) if reports else None,
        "files": [file.name for file in files[:_FILES]],
        "file_count": len(files),
        "unread": unread[:_FILES],
        "unread_count": len(unread),
        "notes": [note for report in reports for note in report.notes],
    }

"""What lies at the edges of a server and of an index: slow clients, messages that are none, and files to choke on."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence

import uvicorn
from mcp_types import JSONRPCError
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from reground.app.serving.connections import Server
from reground.app.serving.mcp import _message
from reground.core.http import Places, listening
from reground.retrieval.encodings import Unreadable
from tests.campaign.runner import Part, Trial
from tests.retrieval import files

ANSWERED_SECONDS = 10.0
"""In which a new client is answered on a busy machine."""
_HEAD = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n"
SLOW = (
    *(b"", b"G", _HEAD % b"", _HEAD % b"" + b"X-A: ", _HEAD % b"large" + b"\r\n", _HEAD % b"" + b"\r\nGET"),
    *(b"\0" * 1000, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na"),
)
"""What clients send before they fall silent; the fifth never reads its reply."""
PIECES = (
    *('{"jsonrpc": "2.0"', ', "id": 7', ', "method": "tools/call"', ', "params": {}', "}", ', "params": []', "[", "]"),
    *('"\\ud83d"', '"\\u0000"', "null", "NaN", "9" * 400, "{" * 50, "[" * 5000, "\xff", ", ", '"id": null', "1e999"),
)
WORD, OPEN, SHEET, PAGE = (
    "w:p w:r w:t w:rPr w:pPr w:tbl w:tr w:tc w:tcPr w:hyperlink w:fldChar w:instrText w:sdt w:numPr w:sym w:gridSpan",
    "text:p text:span text:a text:list text:list-item text:h text:note table:table table:table-row table:table-cell",
    "row c v is r rPr t f rPh mergeCell mergeCells sheetData",
    "p div span a table tr td ul ol li h1 pre code sup sub math mfrac button select option main nav header aside img",
)
ATTRIBUTES = (
    *("", ' w:val="1"', ' w:fldCharType="begin"', ' w:fldCharType="end"', ' r="1"', ' t="inlineStr"', ' id="x"'),
    *(' ref="A1:C9"', ' href="http://a.example/b"', ' style="left:-999px"', ' text:level="99999999"'),
)


async def _slow(chance: random.Random) -> Trial:
    """Whether a new client is answered beside three times as many silent ones as there are places."""
    sizes = {"/": 1, "/large": 16 << 20}
    app = Starlette(routes=[Route(path, PlainTextResponse("x" * size)) for path, size in sizes.items()])
    server = Server(uvicorn.Config(app, log_config=None, log_level="critical", lifespan="off"), Places(most=8))
    sent, opened = chance.choices(SLOW, k=24), []
    listener, address = listening("127.0.0.1", 0)
    with listener:
        task, port = asyncio.create_task(server.serve([listener])), int(address.rpartition(":")[2])
        for said in [*sent, _HEAD % b"" + b"\r\n"]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.append(writer)
            with contextlib.suppress(ConnectionError):
                writer.write(said)
                await writer.drain()
        answer = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            answer = await asyncio.wait_for(reader.readline(), ANSWERED_SECONDS)
        for writer in opened:
            writer.close()
        server.should_exit = server.force_exit = True
        await task
    return Trial("Slow clients of a server", b"200" in answer, f"{answer!r} beside {sent!r}")


def _mcp(chance: random.Random) -> Trial:
    line = "".join(chance.choices(PIECES, k=chance.randint(1, 9)))
    try:
        held = isinstance(_message(line.encode("latin-1")), str | JSONRPCError)
    except Exception:
        held = False
    return Trial("Line of an MCP client", held, repr(line[:300]))


def _file(chance: random.Random) -> Trial:
    """Whether the time for a file grows with its size, when parts of it come again and again."""
    kind = chance.choice((WORD, OPEN, SHEET, PAGE))
    around, *parts = ([chance.choice(kind.split()) for _ in range(chance.randint(1, 4))] for _ in range(3))
    given = [chance.choice(ATTRIBUTES) for _ in range(8)]
    pieces = [_nested(names, given, "x") for names in parts]

    def seconds(count: int) -> float:
        body = _nested(around, given[4:], "".join(piece * count for piece in pieces))
        made = {
            WORD: ("a.docx", files.docx(body)),
            OPEN: ("a.odt", files.open_document(f"<office:text>{body}</office:text>")),
            SHEET: ("a.xlsx", files.xlsx({"S": body})),
            PAGE: ("a.html", body),
        }
        began = time.thread_time()
        with contextlib.suppress(Unreadable):
            files.read(*made[kind])
        return time.thread_time() - began

    long, short = seconds(12_000), seconds(3_000)
    return Trial("File of equal parts", long < max(2.0, 8 * short), f"{short:.1f} s, {long:.1f} s: {around} {pieces}")


def _nested(names: Sequence[str], given: Sequence[str], inner: str) -> str:
    for name, attribute in zip(names, given, strict=False):
        inner = f"<{name}{attribute}>{inner}</{name}>"
    return inner


async def attempt(number: int) -> list[Trial]:
    """Slow clients, a line and a file."""
    chance = random.Random(f"edges {number}")
    return [await _slow(chance), _mcp(chance), _file(chance)]


PART = Part(
    name="edges",
    promise="No slow client keeps others out, every line is answered, and no file takes the square of its size",
    short=9,
    long=300,
    attempt=attempt,
)

"""The texts of fetched pages, and what is left at work when one is given up."""

import asyncio
import os
import sys
import threading

import pytest

from reground.retrieval.reading.web import parsed, without_hidden
from reground.web.fetching import Fetched, read_page
from tests.retrieval.programs import is_alive, long_pdf, programs_of, wait_for

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def fetched(content: bytes, kind: str = "text/html", charset: str = "") -> Fetched:
    return Fetched("https://example.org/", content, kind, charset, "2026-01-01")


WIDE = b"<article><table><tr>" + b"<td>x" * 45_000
"""What looks for the article takes the square of the cells: many seconds."""


@linux
@pytest.mark.parametrize(
    ("content", "kind"), [(long_pdf(), "application/pdf"), (WIDE, "text/html")], ids=["pdf", "html"]
)
async def test_a_page_that_is_given_up_leaves_nothing_at_work(content: bytes, kind: str) -> None:
    reading = asyncio.create_task(read_page(fetched(content, kind)))
    (program,) = await asyncio.to_thread(wait_for, lambda: programs_of(os.getpid()))
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.to_thread(wait_for, lambda: not is_alive(program))
    await asyncio.to_thread(wait_for, lambda: all(each.name != "reground-page" for each in threading.enumerate()))


@pytest.mark.parametrize(
    ("content", "charset", "text"),
    [
        ("Ünï".encode("latin-1"), "iso-8859-1", "Ünï"),
        ("“Ünï”".encode("cp1252"), "ISO-8859-1", "“Ünï”"),
        ("Ünï".encode("utf-16"), "utf-16", "Ünï"),
        ("川".encode("cp932"), "shift_jis", "川"),
        ("Ünï".encode(), "utf-8", "Ünï"),
        ("Ünï".encode(), "nonsense", "Ünï"),
        ("Ünï".encode(), "utf-7", "Ünï"),
    ],
)
async def test_the_encoding_that_a_server_names(content: bytes, charset: str, text: str) -> None:
    assert (await read_page(fetched(content, "text/plain", charset))).text == text


async def test_a_large_page_reads_as_a_small_one() -> None:
    small = f"<html><head><title>Bridges</title></head><body><nav>Menu</nav><main><p>{'The bridge is old. ' * 50}</p>"
    large = small.replace("</p>", "</p>" + "<!-- nothing -->" * 10_000)
    assert await read_page(fetched(large.encode())) == await read_page(fetched(small.encode()))


def test_what_is_hidden_goes_and_the_text_behind_it_stays() -> None:
    page = "<html><body>a<p hidden>x</p>b<p hidden>y<i hidden>z</i></p>c<b>d</b>e<p hidden>w</p>f</body></html>"
    assert "<body>abc<b>d</b>ef</body>" in without_hidden(parsed(page))


SHOWN = "min-width:0", "min-height: 0; flex: 1", "border-width:0", "line-height:0", "margin-top:-120px", "opacity:0.5"
HIDDEN = "color:red;display: none", "MAX-HEIGHT:0", "width:0px", "top:-999px", "/* a */ opacity:0", "text-indent:-999px"


@pytest.mark.parametrize(("style", "seen"), [*((each, True) for each in SHOWN), *((each, False) for each in HIDDEN)])
def test_a_style_hides_by_its_whole_name(style: str, seen: bool) -> None:
    page = without_hidden(parsed(f'<html><body><div style="{style}">a text</div>behind</body></html>'))
    assert ("a text" in page, "behind" in page) == (seen, True)

"""The text of a fetched page: its article without what a browser would not show, or the text of a PDF."""

from __future__ import annotations

import asyncio
import codecs
import threading

from reground.core.concurrency import in_daemon
from reground.retrieval.encodings import decode, text_encoding
from reground.retrieval.reading.result import Circumstances, Read
from reground.web.fetching import Fetched, NotFetched

_SECONDS = 20.0
_LARGE = 64 << 10
"""Bytes of HTML from which on it is read in a process of its own, whose start takes a fifth of a second: what looks for
articles takes the square of some pages, and hears no tick meanwhile."""


async def read_page(page: Fetched) -> Read:
    """The title and the text of a page. Raises NotFetched where it has none, or takes too long.

    What still reads it then, or after a cancellation, ends at its next tick, and the program that reads a PDF or a
    large page with it.
    """
    given_up = threading.Event()

    def tick(share: float = 0.0, /) -> None:
        if given_up.is_set():
            raise TimeoutError

    try:
        async with asyncio.timeout(_SECONDS):
            read = await in_daemon(lambda: _read(page, Circumstances(tick)), name="reground-page")
    except TimeoutError:
        raise NotFetched(f"its text was not found within {_SECONDS:g} s") from None
    except Exception as error:  # a broken page can make a parser fail in any way
        raise NotFetched(f"it cannot be read ({type(error).__name__})") from None
    finally:
        given_up.set()
    if not read.text.strip():
        raise NotFetched("it holds no text")
    return read


def _read(page: Fetched, around: Circumstances) -> Read:
    start = page.content[:1024].lstrip().lower()
    kind = page.kind or ("application/pdf" if start.startswith(b"%pdf-") else "text/html" if start[:1] == b"<" else "")
    if kind == "application/pdf":
        from reground.retrieval.reading.pdf import read_pdf

        return read_pdf(page.content, around)
    content = _in_utf8(page)
    if "html" in kind:
        from reground.retrieval.reading.web import article_apart, read_article

        return (article_apart if len(content) > _LARGE else read_article)(content, around)
    return Read("", *decode(content, markup="xml" in kind))


def _in_utf8(page: Fetched) -> bytes:
    """The content, in UTF-8 with its mark where the server named another encoding that the bytes have."""
    codec = text_encoding(page.charset)
    try:
        return codecs.BOM_UTF8 + page.content.decode(codec).encode() if codec not in ("", "utf-8") else page.content
    except ValueError:  # a server that is wrong about its page
        return page.content

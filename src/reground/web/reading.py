"""The text of a fetched page: its article without what a browser would not show, or the text of a PDF."""

from __future__ import annotations

import asyncio
import codecs
import re
from typing import Any

from reground.core.daemons import in_daemon
from reground.retrieval.encodings import decode
from reground.retrieval.reading.result import PLAIN, Read
from reground.web.fetching import Fetched, NotFetched

_SECONDS = 20.0
_HIDDEN_STYLE = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|font-size:0(?![.\d])|opacity:0(?![.\d])|(?:max-)?(?:height|width):0(?![.\d])"
    r"|text-indent:-\d{3}|(?:left|top):-\d{3}"
)


_UNSHOWN = frozenset(("script", "style", "template", "noscript"))


async def read_page(page: Fetched) -> Read:
    """The title and the text of a page. Raises NotFetched where it has none, or takes too long."""
    try:
        async with asyncio.timeout(_SECONDS):
            read = await in_daemon(lambda: _read(page), name="reground-page")
    except TimeoutError:
        raise NotFetched(f"its text was not found within {_SECONDS:g} s") from None
    except Exception as error:  # a broken page can make a parser fail in any way
        raise NotFetched(f"it cannot be read ({type(error).__name__})") from None
    if not read.text.strip():
        raise NotFetched("it holds no text")
    return read


def _read(page: Fetched) -> Read:
    kind = page.kind or _sniffed(page.content)
    if kind == "application/pdf":
        from reground.retrieval.reading.pdf import read_pdf

        return read_pdf(page.content, PLAIN)
    content = _in_utf8(page)
    if "html" in kind:
        from reground.retrieval.reading.html import read_html

        return read_html(shown(content), PLAIN)
    return Read("", *decode(content, markup="xml" in kind))


def _sniffed(content: bytes) -> str:
    """The kind of a page whose server does not say it."""
    start = content[:1024].lstrip().lower()
    if start.startswith(b"%pdf-"):
        return "application/pdf"
    return "text/html" if start.startswith(b"<") else "text/plain"


def _in_utf8(page: Fetched) -> bytes:
    """The content, in UTF-8 with its mark where the server named another encoding that the bytes have."""
    try:
        codec = codecs.lookup(page.charset).name
        return page.content if codec == "utf-8" else codecs.BOM_UTF8 + page.content.decode(codec).encode()
    except (LookupError, UnicodeError, ValueError):  # a server that is wrong about its page
        return page.content


def shown(content: bytes) -> bytes:
    """A page without the elements that its own markup hides from a reader, in UTF-8.

    Text that nobody sees is where instructions to a model are put. Style sheets are not looked at.
    """
    from lxml import etree

    from reground.retrieval.reading.html import parsed

    root = parsed(decode(content, markup=True).text)
    if root is None:
        return b""
    for element in [each for each in root.iter() if _is_hidden(each)]:
        _drop(element)
    page: bytes = codecs.BOM_UTF8 + etree.tostring(root, method="html", encoding="utf-8")
    return page


def _is_hidden(element: Any) -> bool:
    style = "".join((element.get("style") or "").lower().split())
    return element.tag in _UNSHOWN or element.get("hidden") is not None or bool(_HIDDEN_STYLE.search(style))


def _drop(element: Any) -> None:
    """Take an element out; the text behind it stays."""
    parent, before = element.getparent(), element.getprevious()
    if parent is None:
        return
    if element.tail and before is not None:
        before.tail = (before.tail or "") + element.tail
    elif element.tail:
        parent.text = (parent.text or "") + element.tail
    parent.remove(element)

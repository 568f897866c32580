"""Where a citation opens: a file of the corpus or a page of the web, as a terminal's hyperlink (OSC 8).

Titles, addresses and ids come from documents. An address is written in ASCII with everything else percent-encoded, so
that none can end the link or begin another one, and it leads to a file inside the corpus or to http(s), nowhere else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from reground.core.answers import Citation

_LONGEST = 2000
"""Characters of an address; terminals refuse longer ones."""
_NO_LINKS = frozenset(("dumb", "unknown", "linux"))
"""Terminals (TERM) that know no links and may print them."""


def has_links(console: Console) -> bool:
    """Whether a console may be sent links: a terminal with styles, which was not asked for plain text."""
    plain = console.no_color or os.environ.get("TERM", "").lower() in _NO_LINKS
    return console.is_terminal and console.color_system is not None and not plain


def address(citation: Citation, corpus: Path | None) -> str | None:
    """Where a citation opens; None where there is nothing to open or it must not be opened."""
    if citation.url is None:
        return None
    found = _web(citation.url) if "://" in citation.url else _file(citation, corpus)
    return found if found is not None and len(found) <= _LONGEST else None


def _web(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return quote(url, safe="%/:?#[]@!$&'()*+,=~-._")


def _file(citation: Citation, corpus: Path | None) -> str | None:
    from reground.retrieval.quotes import file_of, is_html, is_pdf

    file = None if corpus is None else file_of(citation.url or "", corpus)
    if file is None:
        return None
    fragment = ""
    if is_pdf(file.name) and citation.page:
        fragment = f"#page={citation.page}"
    elif is_html(file.name) and citation.fragment:
        fragment = f"#{quote(citation.fragment, safe='')}"
    return file.as_uri() + fragment

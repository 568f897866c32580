"""`searchr1:URL`: a retrieval service of Search-R1 (POST /retrieve) over a corpus of its own; no key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from reground.web.engines._client import HttpEngine, Provider, served
from reground.web.engines._reading import (
    MOST_RESULTS,
    MOST_SNIPPET,
    MOST_TITLE,
    listed,
    number,
    page_url,
    plain,
    whole,
)
from reground.web.results import WebResult

_PATH = "/retrieve"
_LONGEST_ID = 200


def ask(query: str, k: int) -> Mapping[str, Any]:
    """One query; the service takes several."""
    return {"queries": [query], "topk": k, "return_scores": True}


def read(data: dict[str, Any], *, base: str) -> Sequence[WebResult]:
    """The documents, each with an address below the service's, for most have none. Raises ValueError."""
    lists = listed(data.get("result"))
    documents = listed(lists[0]) if lists else []
    return [result for each in documents if (result := _result(each, base)) is not None]


def _result(entry: Any, base: str) -> WebResult | None:
    """A document, which comes alone or with its score, as an object or as its text."""
    scored = isinstance(entry, dict) and "document" in entry
    document = entry["document"] if scored else entry
    if isinstance(document, str):
        document = {"contents": document}
    if not isinstance(document, dict):
        return None
    title, text = _parts(document)
    if text is None:
        return None
    return WebResult(
        title=title,
        url=page_url(document.get("url")) or f"{base}{_PATH}/{_id(document, text)}",
        snippet=plain(text, MOST_SNIPPET),
        content=text,
        score=number(entry.get("score")) if scored else None,
    )


def _parts(document: dict[str, Any]) -> tuple[str, str | None]:
    """Title and text; in `contents`, the first line is the title in quotation marks."""
    title, text = document.get("title"), whole(document.get("text"))
    if text is None and (text := whole(document.get("contents"))) is not None:
        first, line, rest = text.partition("\n")
        if line and rest.strip():
            title, text = title or first.strip().strip('"'), rest.strip()
    return plain(title, MOST_TITLE), text


def _id(document: dict[str, Any], text: str) -> str:
    given = document.get("id")
    if isinstance(given, str | int) and not isinstance(given, bool) and 0 < len(str(given)) <= _LONGEST_ID:
        return quote(str(given), safe="", errors="replace")
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


PROVIDER = Provider(
    name="searchr1",
    url="http://localhost:8000",
    path=_PATH,
    ask=ask,
    read=partial(read, base="http://localhost:8000"),
    most=MOST_RESULTS,
    may_store=True,
)


def create(argument: str) -> HttpEngine:
    """The engine of the service at this address."""
    provider = served(PROVIDER, argument.rstrip("/").removesuffix(_PATH))
    return HttpEngine(replace(provider, read=partial(read, base=provider.url)))

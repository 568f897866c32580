"""The options of searching the open web."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from reground.app.options_documents import Documents

_WEB = {"panel": "Web"}


@dataclass(frozen=True, kw_only=True)
class Web:
    """What is searched instead of documents: the web, or a retriever of one's own; and what of pages is read."""

    retriever: str | None = field(default=None, metadata=_WEB)
    """Search with a retriever of your own: FILE.py:NAME, where NAME is a retriever or a function or class that makes
    one, or the name of a plug-in, NAME or NAME:ARGUMENT."""

    web: str | None = field(default=None, metadata=_WEB)
    """Search the web instead of documents: an engine (searxng:URL, brave, serper, tavily, exa, ddgs, searchr1:URL), a
    plug-in, several with commas between them, of which the first that answers is taken, or frozen:FILE, a snapshot."""

    web_read: Literal["snippets", "pages", "first"] = field(default="pages", metadata=_WEB)
    """What of the results is read: snippets, as the engine shows them; pages, of each the part that is closest to the
    query; or the first page that can be read, in pieces of 1,500 tokens, as in RAT."""

    web_words: int = field(default=200, metadata={"file": True, "min": 1, **_WEB})
    """The most words that are read of a page."""

    web_network: list[str] | None = field(default=None, metadata={"metavar": "NETWORK", **_WEB})
    """A network of your own, such as 10.1.0.0/16, whose pages may be fetched; else only public addresses are. May be
    repeated."""


@dataclass(frozen=True, kw_only=True)
class Searched(Documents, Web):
    """What is searched: documents or the web."""

    corpus: Path | None = field(default=None, metadata={"short": "-c"})
    """A folder of documents, a JSONL file, or an index."""


@dataclass(frozen=True, kw_only=True)
class Retrieve(Searched):
    """The options of `retrieve`."""

    query: str | None = field(default=None, metadata={"argument": True})
    """The query; or --queries."""

    queries: Path | None = None
    """A file of queries, one a line: an id, a tab and the query; or JSONL with id and query."""

    k: int = field(default=10, metadata={"short": "-k", "min": 1})
    """The most passages of a query."""

    concurrency: int = field(default=8, metadata={"short": "-j", "min": 1})
    """Queries in work at once."""

    out: Path | None = field(default=None, metadata={"short": "-o"})
    """Write a TREC run to this file. With --queries and without it, the run is printed."""

"""What a search engine finds, the port of search engines, and how the results in their replies are read.

Of what engines send, texts without markup, addresses of pages and numbers are read; what has a wrong type is left out.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from reground.core.errors import RetrievalError
from reground.core.http import is_http
from reground.core.language import Number, Text, Value


class WebResult(Value):
    """A page that an engine found.

    snippet: what the engine shows of it. content: the page's text, from engines that send it along. score: the engine's
    own, higher is better. date: when the page was published, in the engine's words.
    """

    title: Text
    url: Text
    snippet: Text = ""
    content: Text | None = None
    score: Number | None = None
    date: Text | None = None


class EngineError(RetrievalError):
    """A search engine gave no results. The message names the engine, never a key."""


class EngineBusy(EngineError):
    """The same search may succeed later or elsewhere: a quota, a fault of the server, a lost connection.

    retry_after: the seconds to wait, if the engine named them.
    """

    def __init__(self, why: str, *, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


@runtime_checkable
class Engine(Protocol):
    """Anything that searches the web."""

    @property
    def name(self) -> str:
        """Names the engine, and the server where that can be chosen; part of a run's identity."""

    @property
    def may_store(self) -> bool:
        """Whether its terms allow to pass its results on, as in a snapshot for others."""

    async def search(self, query: str, /, *, k: int) -> Sequence[WebResult]:
        """At most `k` results, best first. Raises EngineBusy for passing faults, else EngineError."""


MOST_RESULTS = 100
MOST_TITLE, MOST_SNIPPET, MOST_CONTENT = 300, 2_000, 200_000
"""The most characters that are kept of each."""
_MOST_URL, _MOST_DATE = 2_000, 60

# Only HTML's own elements: a snippet about code may hold Vec<String>.
_BREAK = re.compile(r"</?(?:br|p|div|li|ul|ol|h[1-6]|tr|td|th|table|hr|blockquote|pre)\b[^<>]*+>", re.IGNORECASE)
_INLINE = re.compile(
    r"</?(?:a|abbr|b|bdi|cite|code|del|em|font|i|iframe|img|ins|kbd|mark|object|q|s|script|small|span|strike|strong|style"
    r"|sub|sup|svg|time|tt|u|var|wbr)\b[^<>]*+>",
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(value: Any, most: int) -> str:
    """A text in one line, without HTML's tags and entities, of at most this many characters; "" for what is no text."""
    if not isinstance(value, str):
        return ""
    text = _INLINE.sub("", _BREAK.sub(" ", value[: 4 * most]))
    return " ".join(_CONTROL.sub(" ", html.unescape(text)).split())[:most]


def page_text(value: Any) -> str | None:
    """A page's text with its lines, without control characters; None if there is none."""
    return _CONTROL.sub(" ", value[:MOST_CONTENT]).strip() or None if isinstance(value, str) else None


def page_url(value: Any) -> str | None:
    """The address of a page; None for anything that cannot be opened as one."""
    if not isinstance(value, str) or not 0 < len(value) <= _MOST_URL or not is_http(value):
        return None
    return value if value.isprintable() and " " not in value and "@" not in urlsplit(value).netloc else None


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def as_list(items: Any) -> list[Any]:
    """The first items of a list; none for a missing one. Raises ValueError for anything else."""
    if items is None:
        return []
    if not isinstance(items, list):
        raise ValueError("its results are no list")
    return items[:MOST_RESULTS]


def parse_results(
    items: Any, *, url: str = "url", snippet: str = "snippet", content: str = "", score: str = "", date: str = ""
) -> list[WebResult]:
    """The results in a provider's list; each argument names the field that holds it, "" where none does. All have the
    title in the same one.

    Pages without an address are left out. Raises ValueError if it is no list.
    """
    results = []
    for item in as_list(items):
        if isinstance(item, dict) and (address := page_url(item.get(url))) is not None:
            result = WebResult(
                title=plain(item.get("title"), MOST_TITLE),
                url=address,
                snippet=plain(item.get(snippet), MOST_SNIPPET),
                content=page_text(item.get(content)),
                score=number(item.get(score)),
                date=plain(item.get(date), _MOST_DATE) or None,
            )
            results.append(result)
    return results


def shorten(query: str, letters: int, words: int) -> str:
    """The beginning of a query, in one line, of at most this many characters and words."""
    text = " ".join(query.split()[:words])
    if len(text) <= letters:
        return text
    end = text.rfind(" ", 0, letters + 1)
    return text[: end if end > 0 else letters]


def one_line(text: str) -> str:
    """A server's message on one line, without control characters, which would act on a terminal."""
    return " ".join(_CONTROL.sub(" ", text).split())


def complaint(data: Any) -> str:
    """The message in the JSON of a provider's error, in any of the usual forms; "" if there is none."""
    if isinstance(data, str):
        return one_line(data)
    if isinstance(data, list):
        return complaint(data[0]) if data else ""
    if not isinstance(data, dict):
        return ""
    code = one_line(next((data[name] for name in ("code", "tag") if isinstance(data.get(name), str)), ""))
    for name in ("error", "errors", "message", "detail"):
        if text := complaint(data.get(name)):
            return f"{code}: {text}" if code and code not in text else text
    return code

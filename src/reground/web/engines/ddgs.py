"""`ddgs`: public search engines through the package ddgs, without a key; `ddgs:BACKEND` asks one of them alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from reground.core.concurrency import in_daemon
from reground.core.errors import ConfigurationError, MissingExtra, did_you_mean
from reground.core.http import Bucket, Clock, Sleep, redacted
from reground.web.engines import FunctionEngine
from reground.web.results import EngineBusy, EngineError, one_line, shorten

THREAD = "ddgs"
"""A process that is interrupted ends without waiting for a thread of this name (`app.cli.main`)."""
_PER_MINUTE = 20.0
_TIMEOUT = 10
_NOTHING = "No results found"


def ddgs_engine(
    searcher: Callable[[], Any], backend: str = "auto", *, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep
) -> FunctionEngine:
    """The package as an engine. Its engines block, so a search runs in a thread of its own.

    searcher: makes an object such as `ddgs.DDGS`, whose state must not be shared between threads.
    """
    from ddgs.exceptions import DDGSException

    name = "ddgs" if backend == "auto" else f"ddgs:{backend}"
    pace = Bucket(_PER_MINUTE, burst_seconds=1.0, clock=clock, sleep=sleep)

    async def search(query: str, k: int) -> list[dict[str, Any]]:
        text = shorten(query, 500, 60)
        if not text:
            raise EngineError(f"{name} was asked for nothing")
        await pace.take(1)
        try:
            items = await in_daemon(lambda: searcher().text(text, max_results=max(1, k), backend=backend), name=THREAD)
        except DDGSException as error:
            why = redacted(one_line(str(error)), None)
            if why.startswith(_NOTHING):  # it says the same of an engine that refused to answer
                why = "nothing was found, or the engines that it asks refuse this address for a while"
            raise EngineBusy(f"{name}: {why}") from None
        return [{**each, "url": each.get("href"), "snippet": each.get("body")} for each in items]

    return FunctionEngine(search, name)


def create(argument: str) -> FunctionEngine:
    """The engine. Raises ConfigurationError for an unknown backend, or without the package."""
    try:
        from ddgs import DDGS
        from ddgs.engines import ENGINES
    except ImportError:
        raise MissingExtra("the engine ddgs", "web") from None
    backends = ENGINES["text"]
    if argument and argument not in backends:
        raise ConfigurationError(f"ddgs has no backend {argument!r}; {did_you_mean(argument, backends)}")
    return ddgs_engine(partial(DDGS, timeout=_TIMEOUT), argument or "auto")

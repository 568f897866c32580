"""`ddgs`: public search engines through the package ddgs, without a key; `ddgs:BACKEND` asks one of them alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from reground.core.concurrency import in_daemon
from reground.core.errors import ConfigurationError, MissingExtra, did_you_mean
from reground.core.http import Clock, Sleep, redacted
from reground.web.engines.providers import Pace
from reground.web.results import EngineBusy, EngineError, WebResult, one_line, parse_results, shorten

THREAD = "ddgs"
"""A process that is interrupted ends without waiting for a thread of this name (`app.cli.main`)."""
PER_MINUTE = 20.0
_TIMEOUT = 10
_NOTHING = "No results found"


class DdgsEngine:
    """The package as an engine. Its engines block, so a search runs in a thread of its own.

    searcher: makes an object such as `ddgs.DDGS`, whose state must not be shared between threads.
    """

    may_store = False

    def __init__(
        self,
        searcher: Callable[[], Any],
        backend: str = "auto",
        *,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.name = "ddgs" if backend == "auto" else f"ddgs:{backend}"
        self._searcher = searcher
        self._backend = backend
        self._pace = Pace(PER_MINUTE, clock, sleep)

    async def search(self, query: str, /, *, k: int) -> Sequence[WebResult]:
        """At most `k` results, best first."""
        text = shorten(query, 500, 60)
        if not text:
            raise EngineError(f"{self.name} was asked for nothing")
        await self._pace.turn()
        return await in_daemon(partial(self._search, text, max(1, k)), name=THREAD)

    def _search(self, query: str, k: int) -> Sequence[WebResult]:
        from ddgs.exceptions import DDGSException

        try:
            items = self._searcher().text(query, max_results=k, backend=self._backend)
            return parse_results(items, url="href", snippet="body")[:k]
        except DDGSException as error:
            why = redacted(one_line(str(error)), None)
            if why.startswith(_NOTHING):  # it says the same of an engine that refused to answer
                why = "nothing was found, or the engines that it asks refuse this address for a while"
            raise EngineBusy(f"{self.name}: {why}") from None
        except Exception as error:  # the package reads pages that change without notice
            why = redacted(one_line(f"{type(error).__name__}: {error}"), None)
            raise EngineError(f"{self.name} failed: {why}") from None


def create(argument: str) -> DdgsEngine:
    """The engine. Raises ConfigurationError for an unknown backend, or without the package."""
    try:
        from ddgs import DDGS
        from ddgs.engines import ENGINES
    except ImportError:
        raise MissingExtra("the engine ddgs", "web") from None
    known = ENGINES["text"]
    if argument and argument not in known:
        raise ConfigurationError(f"ddgs has no backend {argument!r}; {did_you_mean(argument, known)}")
    return DdgsEngine(partial(DDGS, timeout=_TIMEOUT), argument or "auto")

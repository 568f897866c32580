"""Several engines as one: the first that answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from reground.core.http import Clock
from reground.web.results import Engine, EngineBusy, EngineError, WebResult

_log = logging.getLogger(__name__)


class Fallback:
    """Asks the engines in their order until one answers.

    An engine that says how long it is busy is left out for that long. An empty list is an answer. If all fail, the
    error says why each did; it is an EngineBusy if one of them was.
    """

    def __init__(self, engines: Sequence[Engine], *, clock: Clock = time.monotonic) -> None:
        self.name = ",".join(each.name for each in engines)
        self.may_store = all(each.may_store for each in engines)
        self._engines = tuple(engines)
        self._clock = clock
        self._busy_until = [float("-inf")] * len(engines)

    def __repr__(self) -> str:
        return f"Fallback({self.name!r})"

    async def aclose(self) -> None:
        """Close the connections of all engines."""
        for each in self._engines:
            close = getattr(each, "aclose", None)
            if close is not None:
                await close()

    async def search(self, query: str, /, *, k: int) -> Sequence[WebResult]:
        """At most `k` results of the first engine that answers."""
        failures: list[EngineError] = []
        for at, each in enumerate(self._engines):
            left = self._busy_until[at] - self._clock()
            if left > 0:
                failures.append(EngineBusy(f"{each.name} asked to wait {left:.0f} s more", retry_after=left))
                continue
            try:
                return await each.search(query, k=k)
            except EngineError as error:
                failures.append(error)
                if isinstance(error, EngineBusy) and error.retry_after is not None:
                    self._busy_until[at] = self._clock() + error.retry_after
                _log.warning("search engine %s gave no results: %s", each.name, error)
        raise _together(failures)


def _together(failures: Sequence[EngineError]) -> EngineError:
    why = "no search engine answered: " + "; ".join(map(str, failures))
    busy = [error for error in failures if isinstance(error, EngineBusy)]
    if not busy:
        return EngineError(why)
    # One without a wait may answer at once.
    waits = [error.retry_after for error in busy if error.retry_after is not None]
    return EngineBusy(why, retry_after=min(waits) if len(waits) == len(busy) else None)

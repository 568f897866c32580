"""Search engines by name: NAME or NAME:ARGUMENT, a function of one's own FILE.py:FUNCTION, or several by commas.

The table and entry points say which exist. A plug-in is a module that has `create(argument)` and an entry point of the
group `reground.engines`.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reground.core.concurrency import close, in_daemon
from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.files import files_fingerprint
from reground.core.http import Clock
from reground.core.user_code import Entry, called, check_parts, entries, load_file, place_of
from reground.web.results import Engine, EngineBusy, EngineError, WebResult, one_line, parse_results

ENGINES = {
    "brave": "reground.web.engines.providers:BRAVE",
    "ddgs": "reground.web.engines.ddgs",
    "exa": "reground.web.engines.providers:EXA",
    "searchr1": "reground.web.engines.providers:SEARCHR1",
    "searxng": "reground.web.engines.providers:SEARXNG",
    "serper": "reground.web.engines.providers:SERPER",
    "tavily": "reground.web.engines.providers:TAVILY",
}
"""Where each engine is: a module, or `module:object`, that has `create(argument)`."""
RETIRED = {
    "bing": "Microsoft retired the Bing Search APIs in August 2025: take brave, or searxng:URL with Bing behind it",
    "google": "Google closed its Custom Search JSON API to new customers and ends it on 1 January 2027: take serper, "
    "which sells Google's results, or searxng:URL",
}
"""Engines that are gone but still asked for, and the reason."""
_log = logging.getLogger(__name__)


def engines() -> dict[str, Entry]:
    """Every engine by name; the summary of each says what it needs."""
    return entries(ENGINES, "reground.engines")


def engine(spec: str) -> Engine:
    """The engine that a text names; of several, separated by commas, each is asked when those before it fail.

    Raises ConfigurationError for an unknown name, a wrong address or a missing key, before anything is spent.
    """
    chain = [_one(each.strip()) for each in spec.split(",")]
    return chain[0] if len(chain) == 1 else Fallback(chain)


def _one(spec: str) -> Engine:
    name, _, argument = spec.partition(":")
    if name.endswith(".py"):
        return FunctionEngine.of(Path(name), argument or "search")
    if name.lower() in RETIRED:
        raise ConfigurationError(f"{name}: {RETIRED[name.lower()]}")
    table = engines()
    if name not in table:
        raise ConfigurationError(f"no search engine is called {name!r}; {did_you_mean(name, table)}")
    module = table[name].load()
    check_parts(module, "search engine", "create")
    built: Engine = called(module.create, argument.strip())
    check_parts(built, f"search engine, as {table[name].module} is to create", "name", "may_store", "search")
    return built


class FunctionEngine:
    """Calls the user's own `function(query, k)`, in a thread if it is not async.

    It returns WebResults, or mappings with their fields. Results may be stored if the function has a true attribute
    `may_store`. An exception in it becomes an EngineError that names its line.
    """

    def __init__(self, function: Callable[[str, int], Any], name: str) -> None:
        self.name = name
        self.may_store = getattr(function, "may_store", False) is True
        self._function = function

    @classmethod
    def of(cls, path: Path, name: str) -> FunctionEngine:
        """The engine of a function in a file; its name holds a fingerprint, so that a changed file is another engine.

        Raises ConfigurationError if the file cannot be loaded or has no such function.
        """
        module = load_file(path, "search engine")
        function = getattr(module, name, None)
        if not callable(function):
            names = [each for each, of in vars(module).items() if inspect.isfunction(of) and not each.startswith("_")]
            hint = did_you_mean(name, names) if names else "it has no function"
            raise ConfigurationError(f"{path} has no function {name}; {hint}")
        return cls(function, f"{path.name}:{name}-{(files_fingerprint(path) or '')[:8]}")

    async def search(self, query: str, /, *, k: int) -> Sequence[WebResult]:
        """At most `k` results, as the function orders them."""
        try:
            if inspect.iscoroutinefunction(self._function):
                items = await self._function(query, k)
            else:
                items = await in_daemon(partial(self._function, query, k), name="reground-engine")
            fields = [each.model_dump() if isinstance(each, WebResult) else each for each in items]
            return parse_results(fields, content="content", score="score", date="date")[:k]
        except EngineError:
            raise
        except Exception as error:
            place = place_of(error)
            at = "" if place is None else f" at {place}"
            raise EngineError(f"{self.name} failed{at}: {type(error).__name__}: {one_line(str(error))}") from error


class Fallback:
    """Several engines as one: they are asked in their order until one answers.

    An engine that says how long it is busy is left out for that long. An empty list is an answer. If all fail, the
    error says why each did; it is an EngineBusy if one of them was.
    """

    def __init__(self, engines: Sequence[Engine], *, clock: Clock = time.monotonic) -> None:
        self.name = ",".join(each.name for each in engines)
        self.may_store = all(each.may_store for each in engines)
        self._engines = tuple(engines)
        self._clock = clock
        self._busy_until = [float("-inf")] * len(engines)

    async def aclose(self) -> None:
        """Close the connections of all engines."""
        for each in self._engines:
            await close(each)

    async def search(self, query: str, /, *, k: int) -> Sequence[WebResult]:
        """At most `k` results of the first engine that answers."""
        failures: list[EngineError] = []
        for index, each in enumerate(self._engines):
            seconds = self._busy_until[index] - self._clock()
            if seconds > 0:
                failures.append(EngineBusy(f"{each.name} asked to wait {seconds:.0f} s more", retry_after=seconds))
                continue
            try:
                return await each.search(query, k=k)
            except EngineError as error:
                failures.append(error)
                self._busy_until[index] = self._clock() + (getattr(error, "retry_after", None) or 0.0)
                _log.warning("search engine %s gave no results: %s", each.name, error)
        why = "no search engine answered: " + "; ".join(map(str, failures))
        waits = [error.retry_after for error in failures if isinstance(error, EngineBusy)]
        if not waits:
            raise EngineError(why)
        # One without a wait may answer at once.
        times = [wait for wait in waits if wait is not None]
        raise EngineBusy(why, retry_after=min(times) if len(times) == len(waits) else None)

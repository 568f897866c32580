"""The user's own function as a search engine: a query and a number of results in, pages out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reground.core.concurrency import in_daemon
from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.files import files_fingerprint
from reground.core.user_code import load_file, place_of
from reground.web.engines._reading import found, words
from reground.web.results import EngineError, WebResult

DEFAULT = "search"


class FunctionEngine:
    """Calls `function(query, k)`, in a thread if it is not async.

    It returns WebResults, or mappings with their fields. Results may be stored if the function has a true attribute
    `may_store`. An exception in it becomes an EngineError that names its line.
    """

    def __init__(self, function: Callable[[str, int], Any], name: str) -> None:
        self.name = name
        self.may_store = getattr(function, "may_store", False) is True
        self._function = function

    async def search(self, query: str, /, *, k: int) -> Sequence[WebResult]:
        """At most `k` results, as the function orders them."""
        try:
            if inspect.iscoroutinefunction(self._function):
                items = await self._function(query, k)
            else:
                items = await in_daemon(partial(self._function, query, k), name="reground-engine")
            given = [each.model_dump() if isinstance(each, WebResult) else each for each in items]
            return found(given, content="content", score="score", date="date")[:k]
        except EngineError:
            raise
        except Exception as error:
            place = place_of(error)
            where = "" if place is None else f" at {place}"
            raise EngineError(f"{self.name} failed{where}: {type(error).__name__}: {words(str(error))}") from error


def from_file(path: Path, function: str) -> FunctionEngine:
    """The engine of a function in a file; its name holds a fingerprint, so that a changed file is another engine.

    Raises ConfigurationError if the file cannot be loaded or has no such function.
    """
    module = load_file(path, "search engine")
    found_there = getattr(module, function, None)
    if not callable(found_there):
        known = [name for name, each in vars(module).items() if inspect.isfunction(each) and not name.startswith("_")]
        hint = did_you_mean(function, known) if known else "it has no function"
        raise ConfigurationError(f"{path} has no function {function}; {hint}")
    return FunctionEngine(found_there, f"{path.name}:{function}-{(files_fingerprint(path) or '')[:8]}")

"""Search engines: one file a provider. The table and entry points say which exist.

An engine is named NAME or NAME:ARGUMENT, a function of one's own FILE.py:FUNCTION. A plug-in is a module that has
`create(argument)` and an entry point of the group `reground.engines`.
"""

from __future__ import annotations

from pathlib import Path

from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.user_code import Entry, entries
from reground.web.results import Engine

ENGINES = {
    "brave": "reground.web.engines.brave",
    "ddgs": "reground.web.engines.ddgs",
    "exa": "reground.web.engines.exa",
    "searchr1": "reground.web.engines.searchr1",
    "searxng": "reground.web.engines.searxng",
    "serper": "reground.web.engines.serper",
    "tavily": "reground.web.engines.tavily",
}
"""Where each engine is: a module with `create(argument)`."""
RETIRED = {
    "bing": "Microsoft retired the Bing Search APIs in August 2025: take brave, or searxng:URL with Bing behind it",
    "google": "Google closed its Custom Search JSON API to new customers and ends it on 1 January 2027: take serper, "
    "which sells Google's results, or searxng:URL",
}
"""What happened to engines that people ask for."""


def engines() -> dict[str, Entry]:
    """Every engine by name; the summary of each says what it needs."""
    return entries(ENGINES, "reground.engines")


def engine(spec: str) -> Engine:
    """The engine that a text names; of several, separated by commas, each is asked when those before it fail.

    Raises ConfigurationError for an unknown name, a wrong address or a missing key, before anything is spent.
    """
    named = [_one(each.strip()) for each in spec.split(",")]
    if len(named) == 1:
        return named[0]
    from reground.web.engines._fallback import Fallback

    return Fallback(named)


def _one(spec: str) -> Engine:
    name, _, argument = spec.partition(":")
    if name.endswith(".py"):
        from reground.web.engines._own import DEFAULT, from_file

        return from_file(Path(name), argument or DEFAULT)
    if name.lower() in RETIRED:
        raise ConfigurationError(f"{name}: {RETIRED[name.lower()]}")
    known = engines()
    if name not in known:
        raise ConfigurationError(f"no search engine is called {name!r}; {did_you_mean(name, known)}")
    built: object = known[name].load().create(argument.strip())
    if not isinstance(built, Engine):
        raise ConfigurationError(f"the search engine {name} ({known[name].module}) has no name, may_store and search")
    return built

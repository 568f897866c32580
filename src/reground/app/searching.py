"""Opens what is searched in place of documents: the web, its snapshot, or a retriever of one's own."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.core.errors import ConfigurationError, did_you_mean
from reground.core.evidence import Retriever
from reground.core.paths import expanded
from reground.core.user_code import load_file, plugged

if TYPE_CHECKING:
    from reground.app.options_web import Web

FROZEN = "frozen:"
GROUP = "reground.retrievers"
"""The entry points of retrievers: modules with `create(argument)`."""


def other_retriever(order: Web, *, questions: Iterable[str] = ()) -> Retriever | None:
    """The retriever of the options; None where they name none, so that documents are searched.

    questions: those of a measurement; pages that hold one of them, and hosts where benchmarks lie, are never given.
    Raises ConfigurationError for an unknown name, a missing key, or where two things are to be searched.
    """
    named = [name for name in ("corpus", "web", "retriever") if getattr(order, name, None) is not None]
    if len(named) > 1:
        raise ConfigurationError(f"{' and '.join(f'--{name}' for name in named)}: give one of them")
    if order.retriever is not None:
        return own_retriever(order.retriever)
    return None if order.web is None else _web(order.web, order, list(questions))


def own_retriever(spec: str) -> Retriever:
    """A retriever from a .py file or of a plug-in. Raises ConfigurationError."""
    name, _, argument = spec.partition(":")
    if name.endswith(".py"):
        made: Any = getattr(load_file(expanded(Path(name)), "retriever"), argument or "RETRIEVER", None)
        made = made() if inspect.isclass(made) or inspect.isroutine(made) else made
    else:
        known = plugged(GROUP)
        if name not in known:
            hint = did_you_mean(name, known) if known else "no plug-in brings one; give FILE.py:NAME"
            raise ConfigurationError(f"no retriever is called {name!r}; {hint}")
        made = known[name].load().create(argument)
    if not isinstance(made, Retriever):
        raise ConfigurationError(f"{spec} is no retriever: it needs a name, and retrieve(query, k=...)")
    return made


def _web(spec: str, order: Web, measured: list[str]) -> Retriever:
    if spec.startswith(FROZEN):
        from reground.web.frozen import FrozenRetriever

        return FrozenRetriever(expanded(spec.removeprefix(FROZEN)))
    from reground.web.engines import engine
    from reground.web.fetching import Fetcher, Politeness
    from reground.web.retriever import Blocklist, WebRetriever

    if FROZEN in spec:
        raise ConfigurationError("a snapshot is searched alone: --web frozen:FILE")
    return WebRetriever(
        engine=engine(spec),
        fetcher=Fetcher(Politeness(networks=tuple(order.web_network or ()))),
        mode=order.web_read,
        words=order.web_words,
        blocked=Blocklist.of(measured) if measured else Blocklist(),
    )

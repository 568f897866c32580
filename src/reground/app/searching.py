"""Opens the web for a command: the engine, how its pages are read, and what a measurement must not find."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from reground.core.errors import ConfigurationError
from reground.core.places import expanded

if TYPE_CHECKING:
    from reground.app.options_web import Web
    from reground.core.evidence import Retriever

FROZEN = "frozen:"


def web_retriever(order: Web, *, questions: Iterable[str] = ()) -> Retriever | None:
    """The retriever of the options; None where they name no engine.

    questions: those of a measurement; pages that hold one of them, and hosts where benchmarks lie, are never given.
    Raises ConfigurationError for an unknown engine, a missing key, or where documents are to be searched as well.
    """
    if order.web is None:
        return None
    if getattr(order, "corpus", None) is not None:
        raise ConfigurationError("--web searches the web and --corpus documents: give one of them")
    if order.web.startswith(FROZEN):
        from reground.web.frozen import FrozenRetriever

        return FrozenRetriever(expanded(order.web.removeprefix(FROZEN)))
    from reground.web.blocking import Blocklist
    from reground.web.engines import engine
    from reground.web.fetching import Fetcher, Politeness
    from reground.web.retriever import WebRetriever

    if "," in order.web and FROZEN in order.web:
        raise ConfigurationError("a snapshot is searched alone: --web frozen:FILE")
    measured = list(questions)
    return WebRetriever(
        engine=engine(order.web),
        fetcher=Fetcher(Politeness(networks=tuple(order.web_network or ()))),
        mode=order.web_read,
        words=order.web_words,
        blocked=Blocklist.of(measured) if measured else Blocklist(),
    )

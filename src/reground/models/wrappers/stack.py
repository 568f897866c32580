"""The wrappers in their order: cache ▸ retry ▸ limit ▸ adapter.

A cache hit costs nothing, so the cache comes first. Every attempt of a call is a separate request to the provider, so
the limits are inside the retries: an attempt takes a slot and counts against the rates, and a call that waits for its
next attempt holds no slot.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from reground.core.language import LanguageModel
from reground.models.options import ModelOptions
from reground.models.wrappers.cache import Cache
from reground.models.wrappers.limit import Limit
from reground.models.wrappers.retry import Retry


@runtime_checkable
class ClosableModel(LanguageModel, Protocol):
    """A language model that is closed after use."""

    async def aclose(self) -> None:
        """Free connections and memory."""
        ...


def wrap(model: LanguageModel, options: ModelOptions) -> ClosableModel:
    """Wrap a model in limits, retries and, if a file is given, the shared cache."""
    limited = Limit(
        model,
        connections=options.connections,
        requests_per_minute=options.requests_per_minute,
        tokens_per_minute=options.tokens_per_minute,
    )
    retried = Retry(limited, attempts=options.attempts)
    if options.cache is None:
        return retried
    return Cache(retried, options.cache, identity=str(getattr(model, "identity", model.name)))

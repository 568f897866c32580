"""Which models can be used here: those of every provider, and those of servers that answer on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reground.app import catalogue
from reground.core.errors import RegroundError

if TYPE_CHECKING:
    from reground.models.options import Listing, ModelOptions

LOCAL_SERVERS = ("ollama", "lmstudio", "llamacpp", "vllm")
"""The providers that are servers on this machine."""


async def model_listings(options: ModelOptions, only: Sequence[str] | None = None) -> dict[str, list[Listing]]:
    """The models of every provider: which ones can be used here, and why the others cannot. All are asked at once.

    only: the providers' names, to ask no others.
    """
    names = [name for name in catalogue.providers() if only is None or name in only]
    found = await asyncio.gather(*(_listings(name, options) for name in names))
    return dict(zip(names, found, strict=True))


async def _listings(name: str, options: ModelOptions) -> list[Listing]:
    from reground.models.options import Listing

    try:
        module, _ = catalogue.provider_module(f"{name}/<model>")
        available = getattr(module, "available", None)
        return await available(options) if available is not None else []
    except RegroundError as error:  # one provider's wrong setting says nothing about the others
        return [Listing(f"{name}/<model>", False, str(error))]


async def found_servers() -> list[Listing]:
    """The models of servers that answer on this machine's usual ports, or where OLLAMA_HOST says. Takes under a second.

    Nothing else is asked, and no key is sent to a server whose address the user did not give.
    """
    from reground.models.options import ModelOptions

    found = await model_listings(ModelOptions(), only=LOCAL_SERVERS)
    return [each for listings in found.values() for each in listings if each.usable]

"""Asks a server which models it has, within limits on time and size, and writes the lines of `reground models`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Protocol

from pydantic_core import from_json

from reground.core.errors import AuthenticationError, ModelError
from reground.models._openai_protocol import Server
from reground.models.options import Listing

PROBE_SECONDS = 0.9
"""How long a server on this machine or in its network may take to list its models, connecting included."""
PROBE_CONNECT_SECONDS = 0.4
"""How long it may take to connect. A port where nobody listens refuses at once; one behind a firewall says nothing."""
LISTING_SECONDS = 2.0
"""The same for a provider on the internet."""
MOST_MODELS, _LONGEST_NAME = 1000, 200


class Lister(Protocol):
    """An adapter that can say what its server offers."""

    name: str
    server: Server

    async def listed(self, seconds: float) -> list[str] | None:
        """The names of the models; None if what answers lists none. Raises ModelError."""
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...


def model_names(body: bytes, prefix: str = "") -> list[str] | None:
    """The names in a reply to `GET /v1/models`, sorted; None if it is no such list.

    prefix: what the server puts before each name. At most a thousand names, none with control characters.
    """
    try:
        told = from_json(body)
    except ValueError:
        return None
    found = told.get("data") if isinstance(told, dict) else None
    if found is None and isinstance(told, dict) and told.get("object") == "list":
        return []  # Ollama without models
    if not isinstance(found, list):
        return None
    names = {each["id"] for each in found if isinstance(each, dict) and isinstance(each.get("id"), str)}
    fit = (name.removeprefix(prefix) for name in names if name.isprintable() and len(name) <= _LONGEST_NAME)
    return sorted(name for name in fit if name.strip())[:MOST_MODELS]


def words(model: str, base_url: str | None = None) -> str:
    """What to type for this model."""
    return shlex.join(["--model", model, *(("--base-url", base_url) if base_url else ())])


def some(models: Sequence[str], most: int = 8) -> str:
    """The first models, and how many more there are."""
    more = f" and {len(models) - most} more" if len(models) > most else ""
    return ", ".join(models[:most]) + more


async def each_model(
    adapter: Lister,
    *,
    empty: str = "has no model yet",
    note: str = "",
    base_url: str | None = None,
    has_key: bool = False,
) -> list[Listing]:
    """One line a model of a server of one's own, or one line that says why there is none. Closes the adapter.

    empty: what to say of a server without models. note: what to say after the address. base_url: the option that is
    needed to reach it. has_key: whether a key is known that this request does not send.
    """
    unnamed, url = adapter.name, adapter.server.url
    try:
        models = await adapter.listed(PROBE_SECONDS)
    except AuthenticationError as error:
        why = f"{url} wants a key, and {adapter.server.key_env} is set" if has_key else str(error)
        return [Listing(unnamed, has_key, why, words(unnamed, base_url) if has_key else None, url)]
    except ModelError as error:
        return [Listing(unnamed, False, str(error))]
    finally:
        await adapter.aclose()
    if models is None:
        return [Listing(unnamed, False, f"what answers at {url} lists no models, so it may be another kind of server")]
    if not models:
        return [Listing(unnamed, False, f"{url} {empty}", None, url)]
    return [_line(unnamed.partition("/")[0], model, url, note, base_url) for model in models]


def _line(provider: str, model: str, url: str, note: str, base_url: str | None) -> Listing:
    name = f"{provider}/{model}"
    if "embed" in model.lower():
        return Listing(name, False, f"{url}{note}; by its name it makes embeddings", None, url)
    return Listing(name, True, url + note, words(name, base_url), url)


async def one_line(adapter: Lister, *, base_url: str | None = None) -> list[Listing]:
    """The server of a provider on the internet in one line. Closes the adapter."""
    url, server = adapter.server.url, adapter.server
    try:
        models = await adapter.listed(LISTING_SECONDS)
    except ModelError as error:
        return [Listing(adapter.name, False, str(error))]
    finally:
        await adapter.aclose()
    key = f"key from {server.key_env}" if server.key else "no key"
    why = f"{url}, {key}; serves {some(models or []) or 'models it does not list'}"
    return [Listing(adapter.name, True, why, words(adapter.name, base_url), url)]

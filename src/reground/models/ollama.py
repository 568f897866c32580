"""`ollama/<model>`: a model that Ollama serves on this machine or at OLLAMA_HOST, without key and price.

It uses Ollama's OpenAI-compatible interface. The option `base_url` overrides OLLAMA_HOST.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from reground.core.errors import ConfigurationError
from reground.core.http import check_address
from reground.models._local import Local, create_local, local_models
from reground.models.openai import OpenAIModel, Provider
from reground.models.options import Listing, ModelOptions

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 11434


def create(model: str, options: ModelOptions) -> OpenAIModel:
    """The adapter for `ollama/<model>`, without wrappers.

    The key comes from OLLAMA_API_KEY or from the variable that the options name; another provider's key is never sent.
    Raises ConfigurationError for an OLLAMA_HOST that is not an address.
    """
    return create_local(OLLAMA, model, options)


async def available(options: ModelOptions) -> list[Listing]:
    """The models that Ollama serves, one line each, or one line that says why it does not answer within a second."""
    return await local_models(OLLAMA, options)


def base_url() -> str:
    """Ollama's address from OLLAMA_HOST, which may be a host, host:port, :port or a URL, as for Ollama itself."""
    given = os.environ.get("OLLAMA_HOST", "").strip().strip("'\"")
    check_address(given if "://" in given else f"http://{given}", "OLLAMA_HOST")
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        host, port = parts.hostname or DEFAULT_HOST, parts.port
    except ValueError:
        raise ConfigurationError(f"OLLAMA_HOST must look like 127.0.0.1:11434, not {given!r}") from None
    if parts.scheme not in ("http", "https"):
        raise ConfigurationError(f"OLLAMA_HOST must look like 127.0.0.1:11434, not {given!r}")
    if host in ("0.0.0.0", "::"):  # noqa: S104 - where a server listens on every address, a client asks this machine
        host = DEFAULT_HOST
    if port is None:
        port = DEFAULT_PORT if "://" not in given else 443 if parts.scheme == "https" else 80
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/').removesuffix('/v1')}/v1"


OLLAMA = Local(
    Provider(
        name="ollama",
        start="start Ollama there (ollama serve), or set OLLAMA_HOST to where it is",
        bring="; ollama pull {model} brings another",
        patient=False,
    ),
    where=base_url,
    key_env="OLLAMA_API_KEY",
    empty="has no model yet: ollama pull llama3.2",
    told=lambda: bool(os.environ.get("OLLAMA_HOST", "").strip()),
)

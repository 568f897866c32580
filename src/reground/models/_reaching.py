"""Where a server is and how it is reached: its base URL, the number of connections, and faults of a proxy."""

from __future__ import annotations

import os

import aiohttp
from yarl import URL

from reground.core.errors import ConfigurationError, ModelError, TransientModelError
from reground.core.http import check_address
from reground.core.http import proxy_name as called
from reground.models.options import ModelOptions

DEFAULT_BASE_URL = "https://api.openai.com/v1"


def base_url_of(options: ModelOptions) -> URL:
    """The address of the options, else of OPENAI_BASE_URL, else OpenAI's. Raises ConfigurationError."""
    text = options.base_url or os.environ.get("OPENAI_BASE_URL", "").strip() or DEFAULT_BASE_URL
    if options.base_url is None:
        check_address(text, "the base URL in OPENAI_BASE_URL")
    try:
        url = URL(text)
        host = url.host
    except ValueError:
        host = None
    if host is None or url.scheme not in ("http", "https"):
        raise ConfigurationError("the base URL (--base-url or OPENAI_BASE_URL) must look like http://localhost:8000/v1")
    return url


def beneath(base: URL, path: str) -> URL:
    """A path below the base URL, with the base URL's query."""
    return base.with_path(f"{base.path.rstrip('/')}/{path}").with_query(base.query)


def most_connections(wanted: int) -> int:
    """The number of connections, limited by the process's open files, so that calls wait instead of failing."""
    try:
        import resource
    except ImportError:  # not on Windows
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft < 0 else max(8, min(wanted, soft - 64))


def lost_at_proxy(error: Exception, url: URL) -> ModelError | None:
    """The error for a connection to this server that failed at the environment's proxy; None if it failed elsewhere."""
    name = called(url.scheme)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        if error.status == 407:
            return ModelError(f"{name} wants a user and a password (407): http://USER:PASSWORD@HOST:PORT")
        kind = TransientModelError if error.status >= 500 else ModelError
        return kind(f"{name} gives no way to {url.host} ({error.status})")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return TransientModelError(f"cannot find the host of {name}")
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        why = (os.strerror(error.errno) if error.errno else error.strerror or "no connection").lower()
        return TransientModelError(f"cannot reach {name} ({why}); name {url.host} in NO_PROXY if it needs none")
    return None

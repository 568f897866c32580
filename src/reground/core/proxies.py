"""The proxy that the environment names for a server."""

from __future__ import annotations

import urllib.request
from urllib.parse import urlsplit

from reground.core.hosts import is_loopback


def proxy_for(url: str) -> str | None:
    """The environment's proxy for a URL; None for this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)

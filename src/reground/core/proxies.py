"""The proxy that the environment names for a server."""

from __future__ import annotations

import ipaddress
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit


def proxy_for(url: str) -> str | None:
    """The environment's proxy for a URL; None for this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return None
    if host == "localhost" or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)

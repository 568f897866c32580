"""The proxy that the environment names for a server."""

from __future__ import annotations

import urllib.request
from urllib.parse import urlsplit

from reground.core.errors import ConfigurationError
from reground.core.hosts import is_loopback


def proxy_for(url: str) -> str | None:
    """The environment's proxy for a URL; None for this machine.

    One without a scheme is an HTTP proxy, as for curl. Raises ConfigurationError for a SOCKS proxy and for what is no
    address, without repeating it: it may hold a password.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxy = urllib.request.getproxies().get(parts.scheme)
    return None if proxy is None else _checked(proxy, called(parts.scheme))


def called(scheme: str) -> str:
    """What messages call the proxy for URLs of this scheme."""
    return f"the proxy in {scheme.upper()}_PROXY"


def _checked(proxy: str, name: str) -> str:
    proxy = proxy.strip()
    full = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(full)
        reachable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        reachable = False
    if not reachable:
        raise ConfigurationError(f"{name} must look like http://proxy.example:3128")
    if parts.scheme not in ("http", "https"):
        raise ConfigurationError(
            f"{name} is a {parts.scheme} proxy, and only HTTP proxies can be used: name one, or name the server in "
            "NO_PROXY if it can be reached without"
        )
    return full

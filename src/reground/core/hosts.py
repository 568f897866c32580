"""Which hosts are this machine, whether a request's Host header names the server it reached, and failed listening."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from reground.core.errors import ConfigurationError


def cannot_listen(host: str, port: int, error: OSError | OverflowError) -> ConfigurationError:
    """The error for a server that gets no socket; OverflowError is what a port that cannot be gives."""
    why = str(getattr(error, "strerror", None) or error).lower()
    return ConfigurationError(f"cannot listen at {host}:{port}: {why}")


def is_loopback(host: str) -> bool:
    """Whether an address or a name is of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def names_this(asked: str, listening: str) -> bool:
    """Whether a Host header names the server that listens at this host.

    A name that a foreign site owns can be made to lead here (DNS rebinding), an address cannot. So only addresses,
    localhost and the machine's own name are taken, and where the server listens to this machine alone, only loopback
    addresses.
    """
    try:
        name = (urlsplit(f"//{asked}").hostname or "").lower()
    except ValueError:
        return False
    if name in ("localhost", listening.lower()):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return not is_loopback(listening) and name in {socket.gethostname().lower(), socket.getfqdn().lower()}
    return address.is_loopback or not is_loopback(listening)


def is_own_post(headers: Mapping[str, str]) -> bool:
    """Whether a post comes from this server's page, or from a program: every browser names the origin of a post."""
    site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
    if site not in (None, "same-origin"):
        return False
    return origin is None or origin == f"http://{headers.get('Host', '')}"

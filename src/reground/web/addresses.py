"""Which addresses may be connected to: public ones. The check is on the address of the connection itself.

A check of the name alone can be led astray: by a name that resolves to a private address, by one that resolves to
another address the second time (DNS rebinding), and by a redirect. The socket of every connection is made here, when
its address is known and nothing has been sent.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver

from reground.core.errors import ConfigurationError

Network = IPv4Network | IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")
_METADATA = {ip_address("168.63.129.16")}
"""Services of cloud providers on addresses that are public by their number."""
_SPECIAL = (
    "192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "3fff::/20", "5f00::/16", "fec0::/10",
)  # fmt: skip
"""Networks of IANA's registries of special addresses that some releases of Python take for public ones."""


class AddressRefused(OSError):
    """A connection to an address that is not public. The message is the end of a sentence."""


def refusal(address: str) -> str | None:
    """Why an address must not be connected to; None where it may be."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return "its address cannot be read"
    inner = _embedded(found)
    if inner.is_loopback:
        return "its address is this machine's own"
    if inner.is_link_local:
        return "its address is link-local"
    if any(each in network for each in (found, inner) for network in _NOT_PUBLIC):
        return "its address is not public"
    if inner in _METADATA or not inner.is_global or inner.is_multicast or inner.is_reserved or inner.is_unspecified:
        return "its address is not public"
    return None


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address stands for, where it does; else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None) or address


def networks(names: Sequence[str]) -> tuple[Network, ...]:
    """Networks such as "10.1.0.0/16". Raises ConfigurationError."""
    try:
        return tuple(ip_network(name) for name in names)
    except ValueError as error:
        raise ConfigurationError(f"{error}: a network looks like 10.1.0.0/16 or 192.168.1.7/32") from None


_NOT_PUBLIC = networks(_SPECIAL)


def guarded_connector(
    allowed: Sequence[Network] = (), *, resolver: AbstractResolver | None = None
) -> aiohttp.TCPConnector:
    """A connector that connects to public addresses alone, and those of the allowed networks.

    Names are resolved for every new connection; one that is open stays with the address that was checked. Connecting
    raises AddressRefused, in aiohttp's own error.
    """
    make = partial(_guarded_socket, allowed)
    return aiohttp.TCPConnector(socket_factory=make, resolver=resolver, use_dns_cache=False, limit=0)


def _guarded_socket(allowed: Sequence[Network], info: Any) -> socket.socket:
    family, kind, protocol, _, address = info
    own = any(ip_address(str(address[0]).partition("%")[0]) in each for each in allowed)
    if not own and (why := refusal(str(address[0]))) is not None:
        raise AddressRefused(why)
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setblocking(False)
    return made

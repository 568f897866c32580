"""Fetches pages politely and safely, and reads their texts.

Politely: robots.txt is kept to (RFC 9309), a host gets one request at a time with a pause that it may ask for, and the
program says who it is. Safely: public addresses only, also behind names and redirects; limits on
seconds, on bytes packed and unpacked, and on redirects; no scripts are run.
"""

from __future__ import annotations

import asyncio
import codecs
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from reground.core.concurrency import PerLoop, in_daemon
from reground.core.errors import ConfigurationError, MissingExtra
from reground.core.http import ENCODING, MIB, BadBody, Clock, read_body, retry_after
from reground.retrieval.encodings import decode, text_encoding
from reground.retrieval.reading.result import Circumstances, Read

_REDIRECTS = (301, 302, 303, 307, 308)
_TYPES = ("text/", "application/xhtml+xml", "application/xml", "application/pdf", "application/json")
_RULES_SECONDS = 86_400.0  # seconds that a robots.txt holds (RFC 9309, section 2.4)
_RETRY_SECONDS = 60.0
"""Seconds after which a robots.txt that could not be had is asked for again, unless its server names others."""


class NotFetched(Exception):
    """A page that was not fetched, and why, in a few words."""


class Blocked(NotFetched):
    """A page that whoever asked must not see, so that nothing else is to be told of it either."""


class Fetched(NamedTuple):
    """A page. url: where it came from after redirects. kind: its media type. charset: as its server named it, or "".

    when: the time of fetching, as ISO 8601 in UTC.
    """

    url: str
    content: bytes
    kind: str
    charset: str
    when: str


@dataclass
class _Host:
    """A host (scheme, name and port) of which one page is fetched at a time.

    rules: what its robots.txt allows, as protego reads it; None where it could not be had. rules_until: when it is
    asked for again. next_at: when its next page may be.
    """

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    rules: Any = None
    rules_until: float = 0.0
    next_at: float = 0.0

    def pause(self, agent: str) -> float:
        """The seconds that the host wants between two pages."""
        return 0.0 if self.rules is None else max(0.0, self.rules.crawl_delay(agent) or 0.0)


@dataclass
class _Budget:
    """The seconds that remain for a page."""

    seconds: float


@dataclass(kw_only=True)
class Fetcher:
    """Fetches pages. Use it in one event loop, and close it.

    agent: the name of the program, for servers and robots.txt. seconds: of one page, with its redirects and robots.txt
    but without the wait for its turn. idle: without data. most_bytes: of a page, unpacked. redirects: followed at most.
    in_flight: pages at once over all hosts; of one host it is one. robots: whether robots.txt is kept to.
    longest_pause: seconds between two pages of a host, at most; a host that asks for more is left alone. networks:
    those of one's own, such as 10.1.0.0/16, that may be fetched from although they are not public. resolver: finds
    hosts' addresses, else the system does.
    """

    agent: str = "reground"
    seconds: float = 20.0
    idle: float = 10.0
    most_bytes: int = 8 * MIB
    redirects: int = 5
    in_flight: int = 16
    robots: bool = True
    longest_pause: float = 10.0
    networks: Sequence[str] = ()
    resolver: AbstractResolver | None = None
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._allowed = networks(self.networks)
        self._session = PerLoop(self._open)
        self._hosts: dict[str, _Host] = {}
        self._room = asyncio.Semaphore(self.in_flight)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.aclose()

    async def fetch(self, url: str, *, why_not: Callable[[str], str | None] | None = None) -> Fetched:
        """The page at an address. Raises NotFetched.

        why_not: why an address is not to be asked, for the first one and all that it redirects to; raises Blocked then.
        """
        budget = _Budget(self.seconds)
        try:
            address = URL(url)
            for _ in range(self.redirects + 1):
                if why_not is not None and (why := why_not(str(address))) is not None:
                    raise Blocked(why)
                result = await self._step(address, budget)
                if isinstance(result, Fetched):
                    return result
                address = result
        except ValueError:
            raise NotFetched("its address cannot be read") from None
        raise NotFetched(f"it redirects more than {self.redirects} times")

    async def _step(self, place: URL, budget: _Budget) -> Fetched | URL:
        """The page, or where it redirects to."""
        if place.scheme not in ("http", "https") or not place.host:
            raise NotFetched("it is not at an http or https address")
        if place.user is not None or place.password is not None:
            raise NotFetched("its address holds a user or a password")
        async with self._turn(place) as host:
            if self.robots:
                await self._obey_robots(host, place, budget)
            async with self._get(place, budget) as response:
                if (target := _redirect(place, response)) is not None:
                    return target
                if response.status != 200:
                    raise NotFetched(f"its server answered {response.status}")
                return await self._page(place, response)

    @asynccontextmanager
    async def _turn(self, place: URL) -> AsyncIterator[_Host]:
        """This host's turn, with its pause, and then room among all pages: a slow host holds back no other."""
        host = self._hosts.setdefault(str(place.origin()), _Host())
        async with host.turn:
            await asyncio.sleep(max(0.0, host.next_at - self.clock()))
            async with self._room:
                try:
                    yield host
                finally:
                    pause = host.pause(self.agent)
                    # Where the pause is too long no page is asked for.
                    host.next_at = self.clock() + (pause if pause <= self.longest_pause else 0.0)

    async def _obey_robots(self, host: _Host, place: URL, budget: _Budget) -> None:
        """Ask for the host's robots.txt where it is not known or old. Raises NotFetched where it allows no page."""
        if self.clock() >= host.rules_until:
            try:
                text, seconds = await self._robots(place.origin() / "robots.txt", budget)
            except (BadBody, ValueError):
                text, seconds = None, _RETRY_SECONDS
            host.rules = None if text is None else _parsed(text)
            host.rules_until = self.clock() + seconds
        if host.rules is None:
            raise NotFetched("its robots.txt cannot be had")
        if not host.rules.can_fetch(str(place), self.agent):
            raise NotFetched("its robots.txt forbids it")
        if (pause := host.pause(self.agent)) > self.longest_pause:
            raise NotFetched(f"its robots.txt asks for {pause:g} s between two pages")

    async def _robots(self, place: URL, budget: _Budget) -> tuple[str | None, float]:
        """The text of a robots.txt, and how many seconds it holds. Where there is none everything is allowed (no text);
        where it cannot be had, nothing (None; RFC 9309, sections 2.3.1.3 and 2.3.1.4). Raises BadBody, ValueError."""
        for _ in range(self.redirects + 1):
            async with self._get(place, budget) as response:
                target = _redirect(place, response)
                if target is None and response.status == 200:
                    content = await read_body(response, MIB, idle=self.idle)
                    # A byte-order mark would hide the first line, and with it the rules that follow.
                    return content.decode("utf-8-sig", "replace"), _RULES_SECONDS
                if target is None and 400 <= response.status < 500 and response.status != 429:
                    return "", _RULES_SECONDS
                if target is None:
                    wait = retry_after(response.headers)
                    return None, _RETRY_SECONDS if wait is None else min(wait, _RULES_SECONDS)
                if target.scheme not in ("http", "https"):
                    return None, _RETRY_SECONDS
                place = target
        return "", _RULES_SECONDS  # more redirects than are followed count as no file

    @asynccontextmanager
    async def _get(self, place: URL, budget: _Budget) -> AsyncIterator[aiohttp.ClientResponse]:
        """A request, in the time that is left. Its errors become NotFetched, but for those of its body."""
        session = await self._session.get()
        began = self.clock()
        try:
            async with asyncio.timeout(budget.seconds):
                async with session.get(place, allow_redirects=False) as response:
                    yield response
        except AddressRefused as error:
            raise NotFetched(str(error)) from None
        except TimeoutError:
            raise NotFetched(f"it did not come within {self.seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise NotFetched(_why(error)) from None
        finally:
            budget.seconds -= self.clock() - began

    async def _page(self, place: URL, response: aiohttp.ClientResponse) -> Fetched:
        kind = response.content_type if response.headers.get("Content-Type", "").strip() else ""
        if kind and not kind.startswith(_TYPES):
            raise NotFetched(f"it is of the type {kind}")
        if (length := response.content_length) is not None and length > self.most_bytes:
            raise NotFetched(f"it is larger than {self.most_bytes / MIB:g} MiB")
        try:
            content = await read_body(response, self.most_bytes, idle=self.idle)
        except BadBody as error:
            raise NotFetched(f"its server {error}") from None
        when = datetime.now(UTC).isoformat(timespec="seconds")
        return Fetched(str(place), content, kind, response.charset or "", when)

    def _open(self) -> aiohttp.ClientSession:
        """A session that connects to public addresses alone, and those of the allowed networks.

        The check is on the address of the connection itself, when nothing has been sent. A check of the name could be
        led astray: by a name that resolves to a private address, or to another one the second time (DNS rebinding), and
        by a redirect. Names are resolved for every new connection; one that is open stays with the address that was
        checked. Connecting raises AddressRefused, in aiohttp's own error.
        """
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                socket_factory=self._guarded_socket, resolver=self.resolver, use_dns_cache=False, limit=0
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": self.agent, "Accept-Encoding": ENCODING, "Accept": "*/*;q=0.8"},
            auto_decompress=False,  # `read_body` unpacks, within limits
            timeout=aiohttp.ClientTimeout(total=None),
            trust_env=False,
        )

    def _guarded_socket(self, info: Any) -> socket.socket:
        family, kind, protocol, _, address = info
        host = str(address[0])
        is_allowed = any(ip_address(host.partition("%")[0]) in each for each in self._allowed)
        if not is_allowed and (why := refusal(host)) is not None:
            raise AddressRefused(why)
        connection = socket.socket(family=family, type=kind, proto=protocol)
        connection.setblocking(False)
        return connection


def _parsed(robots: str) -> Any:
    try:
        from protego import Protego
    except ImportError:
        raise MissingExtra("reading pages of the web", "web") from None
    return Protego.parse(robots)


def _redirect(place: URL, response: aiohttp.ClientResponse) -> URL | None:
    """Where a reply redirects to; None where it does not. Raises ValueError."""
    target = response.headers.get("Location") if response.status in _REDIRECTS else None
    return place.join(URL(target)).with_fragment(None) if target else None


def _why(error: Exception) -> str:
    """The end of a sentence about a failed connection."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, AddressRefused):
        return str(error.os_error)
    if isinstance(error, aiohttp.InvalidURL):
        return "its address cannot be read"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "its server offers no trusted TLS"
    if isinstance(error, aiohttp.ClientConnectorError):
        is_unknown = isinstance(error, aiohttp.ClientConnectorDNSError)
        return "its host is unknown" if is_unknown else "its server cannot be reached"
    return f"its server broke off ({type(error).__name__})"


Network = IPv4Network | IPv6Network
_NAT64 = IPv6Network("64:ff9b::/96")
_METADATA = {ip_address("168.63.129.16")}  # services of cloud providers on addresses that are public by their number
_SPECIAL = ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "3fff::/20", "5f00::/16", "fec0::/10")
"""Networks of IANA's registries of special addresses that some releases of Python take for public ones."""


class AddressRefused(OSError):
    """A connection to an address that is not public. The message is the end of a sentence."""


def refusal(address: str) -> str | None:
    """Why an address must not be connected to; None where it may be."""
    try:
        outer = ip_address(address.partition("%")[0])
    except ValueError:
        return "its address cannot be read"
    inner = _embedded(outer)
    if inner.is_loopback:
        return "its address is this machine's own"
    if inner.is_link_local:
        return "its address is link-local"
    special = any(each in network for each in (outer, inner) for network in _NOT_PUBLIC) or inner in _METADATA
    if special or not inner.is_global or inner.is_multicast or inner.is_reserved or inner.is_unspecified:
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

_READING_SECONDS = 20.0
_LARGE = 64 << 10
"""Bytes of HTML from which on it is read in a process of its own, whose start takes a fifth of a second: what looks for
articles takes the square of some pages, and hears no tick meanwhile."""


async def read_page(page: Fetched) -> Read:
    """The title and the text of a page. Raises NotFetched where it has none, or takes too long.

    A reader that still runs then, or after a cancellation, stops at its next tick, and with it the program that reads
    a PDF or a large page.
    """
    stop = threading.Event()

    def tick(share: float = 0.0, /) -> None:
        if stop.is_set():
            raise TimeoutError

    try:
        async with asyncio.timeout(_READING_SECONDS):
            read = await in_daemon(lambda: _read(page, Circumstances(tick)), name="reground-page")
    except TimeoutError:
        raise NotFetched(f"its text was not found within {_READING_SECONDS:g} s") from None
    except Exception as error:  # a broken page can make a parser fail in any way
        raise NotFetched(f"it cannot be read ({type(error).__name__})") from None
    finally:
        stop.set()
    if not read.text.strip():
        raise NotFetched("it holds no text")
    return read


def _read(page: Fetched, around: Circumstances) -> Read:
    start = page.content[:1024].lstrip().lower()
    kind = page.kind or ("application/pdf" if start.startswith(b"%pdf-") else "text/html" if start[:1] == b"<" else "")
    if kind == "application/pdf":
        from reground.retrieval.reading.pdf import read_pdf

        return read_pdf(page.content, around)
    content = _in_utf8(page)
    if "html" in kind:
        from reground.retrieval.reading.web import article_apart, read_article

        return (article_apart if len(content) > _LARGE else read_article)(content, around)
    return Read("", *decode(content, markup="xml" in kind))


def _in_utf8(page: Fetched) -> bytes:
    """The content, in UTF-8 with its mark where the server named another encoding that the bytes have."""
    codec = text_encoding(page.charset)
    try:
        return codecs.BOM_UTF8 + page.content.decode(codec).encode() if codec not in ("", "utf-8") else page.content
    except ValueError:  # a server that is wrong about its page
        return page.content

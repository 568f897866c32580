"""HTTP: addresses, keys, proxies, replies within limits, how fast a server may be asked, and who asks our own servers.

Addresses are recorded and shown, so one that holds a key is refused; keys come from the environment and are kept out of
messages.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import random
import re
import socket
import time
import urllib.request
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic_core import from_json

from reground.core.errors import AuthenticationError, ConfigurationError, ModelError, TransientModelError
from reground.core.language import storable_text

_log = logging.getLogger("reground.serve")
_SECRET_PARAMETER = re.compile(r"key|token|secret|passw|auth|credential|sig\b|signature", re.IGNORECASE)
_MODELS_KEY = "put the key into OPENAI_API_KEY, or into another environment variable that --api-key-env names"


def check_address(url: str, what: str = "the base URL", *, instead: str = _MODELS_KEY) -> None:
    """Refuse an address that contains a user, a password or a key.

    what: the setting or variable that holds it. instead: where the key belongs, for the error message.
    Raises ConfigurationError, without repeating the address.
    """
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise ConfigurationError(f"{what} cannot be read; it looks like http://localhost:8000/v1") from None
    if "@" in parts.netloc or any(_SECRET_PARAMETER.search(name) for name, _ in query):
        raise ConfigurationError(
            f"{what} holds a user, a password or a key, and addresses are recorded and shown: {instead}"
        )


def same_server(url: str, *others: str) -> bool:
    """Whether a URL has the scheme, the host and the port of one of the others."""
    ports = {"http": 80, "https": 443}
    with suppress(ValueError):  # what is no address
        addresses = map(urlsplit, (url, *others))
        server, *rest = ((each.scheme, each.hostname, each.port or ports.get(each.scheme)) for each in addresses)
        return server[1] is not None and server in rest
    return False


def is_http(url: str) -> bool:
    """Whether a text is an address that HTTP can reach: it has a host, and no port that cannot be."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def listening(host: str, port: int) -> tuple[socket.socket, str]:
    """A socket that listens, and its address for a browser. Raises ConfigurationError where it cannot be had."""
    try:
        # without the port, of which it takes the last 16 bits alone
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        opened = socket.create_server((address[0], port), family=family, backlog=QUEUE)
    except (OSError, OverflowError, ValueError) as error:  # a port or a name that cannot be
        why = str(getattr(error, "strerror", None) or error).lower()
        raise ConfigurationError(f"cannot listen at {host}:{port}: {why}") from None
    host, port = opened.getsockname()[:2]
    return opened, f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address or a name is of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def names_this(host: str, listening: str) -> bool:
    """Whether a Host header names the server that listens at this host.

    A name that a foreign site owns can be made to lead here (DNS rebinding), an address cannot. So only addresses,
    localhost and the machine's own name are taken, and where the server listens to this machine alone, only loopback
    addresses.
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return False
    if name in ("localhost", listening.lower()):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return not is_loopback(listening) and name in {socket.gethostname().lower(), socket.getfqdn().lower()}
    return address.is_loopback or not is_loopback(listening)


def proxy_for(url: str) -> str | None:
    """The environment's proxy for a URL; None for this machine.

    One without a scheme is an HTTP proxy, as for curl. Raises ConfigurationError for a SOCKS proxy and for what is no
    address, without repeating it: it may hold a password.
    """
    scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    proxy = urllib.request.getproxies().get(scheme)
    if proxy is None or is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    name, proxy = proxy_name(scheme), proxy.strip()
    kind, _, address = proxy.rpartition("://")
    if not is_http(f"http://{address}"):
        raise ConfigurationError(f"{name} must look like http://proxy.example:3128")
    if kind.lower() not in ("", "http", "https"):
        raise ConfigurationError(
            f"{name} is a {kind.lower()} proxy, and only HTTP proxies can be used: name one, or name the server in "
            "NO_PROXY if it can be reached without"
        )
    return f"{kind or 'http'}://{address}"


def proxy_name(scheme: str) -> str:
    """What messages call the proxy for URLs of this scheme."""
    return f"the proxy in {scheme.upper()}_PROXY"


_SECRET = re.compile(r"\b(?:(?:sk|rk|pk|key|gsk|hf|Bearer)[-_ ]|AIza)[\w*.+/=-]{6,}", re.IGNORECASE)
_LONGEST = 400
_RANDOM = 12  # letters and digits of a key that no sentence has by chance


def key_in(variable: str) -> str | None:
    """The key in an environment variable; None if it is unset or blank. Raises ConfigurationError if it can be none."""
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"{variable} has characters that no key has")
    return key or None


@cache
def spelled(key: str | None) -> re.Pattern[str] | None:
    """A key as a text may repeat it: in either case, and with marks between its characters.

    None for a short one, as servers of one's own have: it may be a word that means something else.
    """
    letters = [each for each in key or "" if each.isalnum()]
    between = r"[\W_]{0,3}+" if any(map(str.isdigit, letters)) else r"[^\w\s]{0,3}+"
    return re.compile(between.join(letters), re.IGNORECASE) if len(letters) >= _RANDOM else None


def redacted(text: str, key: str | None) -> str:
    """A server's message, shortened and without anything that may be a key."""
    if key:
        pattern = spelled(key)
        text = pattern.sub("[key]", text) if pattern else text.replace(key, "[key]")
        # The message may have been cut in the middle of the key.
        end = next((n for n in range(len(key) - 1, 3, -1) if text.lower().endswith(key[:n].lower())), 0)
        text = text[: len(text) - end]
    return _SECRET.sub("[key]", text)[:_LONGEST]


_MOST_SAID, _MOST_PARTS = 4000, 50
_SAYS = re.compile(r"(?:message|msg|detail|error|description)s?$", re.IGNORECASE)
_TAG = re.compile(r"<(?:(?:style|script|title)\b[^<>]{0,200}+>[^<>]{0,4000}+<)?+[^<>]{0,200}+>", re.IGNORECASE)


def error_text(error: Any) -> str:
    """What an error says, in one line: the messages in its JSON and in what it passes on, or its text without tags."""
    if isinstance(error, str):
        text = error[:_MOST_SAID]
        text = " ".join((_TAG.sub(" ", text) if "<html" in text.lower() else text).split())
        with suppress(ValueError, RecursionError):
            if isinstance(passed_on := from_json(error), dict | list):
                return error_text(passed_on) or text
        return text
    if isinstance(error, dict):
        error = [each for name, each in error.items() if type(each) is not str or _SAYS.search(name) or each[:1] == "{"]
    parts = map(error_text, error[:_MOST_PARTS] if isinstance(error, list) else ())
    return "; ".join(dict.fromkeys(filter(None, parts)))[:_MOST_SAID]


MIB = 1 << 20
LEAST_LIMIT = 2 * MIB
MOST_LIMIT = 64 * MIB
IDLE_SECONDS = 120.0
LARGE = MIB
ENCODING = "gzip"
_GZIP = (ENCODING, "x-gzip")  # the same by RFC 9110, section 8.4.1.3


class BadBody(Exception):
    """The fault of a reply's body, as the end of a sentence. passing: whether a retry may succeed."""

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(why)
        self.passing = passing


async def read_body(
    response: Any, most: int, *, idle: float = IDLE_SECONDS, on_data: Callable[[bytes], None] | None = None
) -> bytes:
    """The body, unpacked; memory never holds more than `most` bytes of it. Raises BadBody.

    The session must not unpack by itself: a few packed kilobytes can be gigabytes.
    What follows the end of a packed body is passed over, as in browsers: padding, or a second member, legal but rare.

    response: one of aiohttp's, whose body has not been read. idle: the most seconds without data.
    on_data: called with each unpacked piece.
    """
    packed = response.headers.get("Content-Encoding", "").strip().lower() or "identity"
    if packed not in ("identity", *_GZIP):
        raise BadBody(f"packed its reply as {packed}, which it was not asked to", passing=False)
    unpack = zlib.decompressobj(wbits=31) if packed in _GZIP else None
    parts: list[bytes] = []
    size = raw_size = 0
    while piece := await _piece(response.content, idle):
        raw_size += len(piece)  # limited too, because some of it may unpack to nothing, without end
        if unpack is not None:
            try:
                piece = b"" if unpack.eof else unpack.decompress(piece, most - size + 1)  # it would keep what follows
            except zlib.error as error:
                raise BadBody(f"packed its reply wrongly ({error})", passing=True) from None
        size += len(piece)
        if max(size, raw_size) > most:
            response.close()
            raise BadBody(f"sent more than the {most / MIB:.0f} MiB that a reply to this call may take", passing=False)
        parts.append(piece)
        if on_data is not None:
            on_data(piece)
    if unpack is not None and not unpack.eof:
        raise BadBody("cut its packed reply short", passing=True)
    return b"".join(parts)


async def _piece(content: Any, idle: float) -> bytes:
    try:
        # Most replies arrive whole, and a timer costs more than reading them.
        async with asyncio.timeout(None if content.is_eof() else idle) as limit:
            piece: bytes = await content.readany()
            return piece
    except TimeoutError:
        if not limit.expired():
            raise
        raise BadBody(f"sent nothing for {idle:g} s in the middle of its reply", passing=True) from None


def read_json(body: bytes) -> Any:
    """A body's JSON. Raises ValueError.

    Bytes that are no UTF-8, and half a surrogate pair, which a token limit may leave behind, become U+FFFD.
    """
    try:
        return from_json(body)
    except ValueError as error:
        first = error
    try:
        data = json.loads(body.decode("utf-8", "replace"))
        return from_json(storable_text(json.dumps(data, ensure_ascii=False)))
    except RecursionError:
        raise ValueError("nested too deep") from None
    except ValueError:
        raise first from None


Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


class Bucket:
    """A token bucket: fills at `per_minute`, holds some seconds' worth (at least 1), serves in order of arrival.

    Without a rate nothing waits. The rate may change, and the bucket be used in one event loop after another.
    A request larger than the bucket waits until it is full and leaves a debt, so that the average holds.
    """

    def __init__(
        self,
        per_minute: float | None,
        *,
        burst_seconds: float = 10.0,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.per_minute = per_minute
        self._burst_seconds = burst_seconds
        self._level = self._capacity
        self._clock = clock
        self._sleep = sleep
        self._at = clock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nap: asyncio.Future[None] | None = None

    @property
    def _rate(self) -> float:
        return (self.per_minute or 0.0) / 60.0

    @property
    def _capacity(self) -> float:
        return max(1.0, self._rate * self._burst_seconds)

    def _refill(self) -> float:
        now = self._clock()
        self._level = min(self._capacity, self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level

    async def take(self, amount: float) -> None:
        """Return when `amount` may be spent."""
        if not self._rate:
            return
        needed, loop = min(amount, self._capacity), asyncio.get_running_loop()
        if loop is not self._loop:  # a lock belongs to one loop
            self._loop, self._turn = loop, asyncio.Lock()
        async with self._turn:
            while (missing := needed - self._refill()) > 1e-9:
                self._nap = asyncio.ensure_future(self._sleep(missing / self._rate))
                try:
                    await asyncio.wait((self._nap,))  # or until something is given back, which may be enough
                finally:
                    self._nap.cancel()
            self._level -= amount

    def settle(self, difference: float) -> None:
        """Correct the amount taken: a positive difference takes more, a negative one gives back."""
        self._refill()
        self._level = min(self._capacity, self._level - difference)
        if difference < 0 and self._nap is not None:
            self._nap.cancel()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from Retry-After (seconds or an HTTP date) or retry-after-ms."""
    wait = headers.get("Retry-After", "")
    with suppress(ValueError):
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    with suppress(ValueError):
        return max(0.0, float(wait))
    with suppress(ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(wait).timestamp() - time.time())
    return None


def backoff(
    failures: int, requested: float | None, *, base: float, cap: float, uniform: Callable[[float, float], float]
) -> float:
    """Seconds to wait before the next attempt: those that the server requested, else `base` * 2^failures at most.

    A random part keeps calls that failed together from coming back together. `cap` is the most seconds of it.
    """
    spread = uniform(0.0, min(cap, base * 2.0**failures))
    return spread if requested is None else requested + min(spread, base)


Reply = TypeVar("Reply")
_TRANSIENT = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))


async def persist(ask: Callable[[], Awaitable[Reply]], attempts: int, *, base: float) -> Reply:
    """Ask until there is a reply, `attempts` times at most. base: seconds, as in `backoff`. Raises what `ask` does."""
    for failures in range(1, attempts):
        try:
            return await ask()
        except TransientModelError as error:
            wait = backoff(failures, error.retry_after, base=base, cap=60.0, uniform=random.uniform)
            await asyncio.sleep(min(60.0, wait))
    return await ask()


def headers_with(key: str | None) -> dict[str, str]:
    """The headers of a request whose reply `read_body` unpacks. key: sent as a bearer token."""
    return {"Accept-Encoding": ENCODING} | ({"Authorization": f"Bearer {key}"} if key else {})


async def post(session: Any, url: str, body: object, *, most: int) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of a server's reply to this JSON. Raises ModelError where none arrives whole."""
    try:
        async with session.post(url, json=body, proxy=proxy_for(url), allow_redirects=False) as response:
            return response.status, response.headers, await read_body(response, most)
    except BadBody as error:
        raise (TransientModelError if error.passing else ModelError)(f"{url} {error}") from None
    except Exception as error:
        if not isinstance(error, OSError) and not type(error).__module__.startswith("aiohttp."):
            raise  # not of the connection; the core does not import aiohttp, whose the session is
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise TransientModelError(f"cannot reach {url}: {why}; is the server running?") from None


def refusal(url: str, status: int, headers: Mapping[str, str], body: bytes, variable: str) -> ModelError:
    """The error that a reply other than 200 is. variable: of the environment, which holds the key."""
    message = redacted(error_text(body.decode("utf-8", "replace")), key_in(variable))[:300]
    if status in _TRANSIENT:
        return TransientModelError(f"{url} answered {status}: {message}", retry_after=retry_after(headers))
    if status in (401, 403):
        return AuthenticationError(f"{url} refused the key ({status}); is {variable} right?")
    return ModelError(f"{url} answered {status}: {message}" + "; a base URL often ends in /v1" * (status in (404, 405)))


def gave_up(error: object, attempts: int, details: str, requested: float | None) -> str:
    """The message of a last failure: with its attempts and how long the server asks to wait."""
    times = f"{attempts} attempt{'' if attempts == 1 else 's'}"
    request = "" if requested is None else f"; the server asks to wait {requested:.0f} s"
    return f"{error} (gave up after {times}{details}{request})"


HEAD_SECONDS = 10.0
"""How long the head of a request may take, from the connection's beginning or the reply before."""
_READ_SECONDS = 60.0  # in which a client has to take something of its reply
AT_ONCE = 16
"""Connections that are accepted in one go, before any can be refused; more wait in the system's queue."""
QUEUE = 2048
"""Connections that may wait to be accepted."""
_LEAST, _OWN_FILES = 32, 160
"""The fewest connections; and open files that are left for the index, journals, models and those just accepted."""
_PAUSE = 60.0
"""Seconds between two lines of the log that say the same of clients."""


class _Sparing(logging.Logger):
    """The log of a server about its clients: of each kind of line one a minute, without errors' texts."""

    def __init__(self) -> None:
        super().__init__(_log.name, logging.WARNING)
        self._told: dict[object, float] = {}

    def handle(self, record: logging.LogRecord) -> None:
        """Pass it on if it is time."""
        if time.monotonic() - self._told.get(record.msg, -_PAUSE) >= _PAUSE:
            self._told[record.msg] = time.monotonic()
            kind = record.exc_info[0] if record.exc_info else None  # its text may hold what the client sent
            why = "" if kind is None else f": {kind.__name__}"
            _log.log(record.levelno, "%s%s (said once a minute)", record.getMessage().strip(), why)


class Places:
    """The connections of one server, of which those that wait for their client cannot keep others out.

    most: the limit; by default what that of open files has room for. Where there would be more, the one that has waited
    longest is closed for the new one. seconds: how long the head of a request may take.
    """

    def __init__(self, most: int | None = None, seconds: float = HEAD_SECONDS) -> None:
        import resource  # Windows has none

        room = max(_LEAST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OWN_FILES)
        self.all: set[Connection] = set()
        self.seconds, self._most = seconds, room if most is None else most
        self._waiting: dict[Connection, asyncio.TimerHandle] = {}
        self.log = _Sparing()

    def add(self, new: Connection) -> None:
        """Take a new connection in, which waits for the head of a request."""
        self.all.add(new)
        if len(self.all) > self._most:
            self._close(next(iter(self._waiting), new), f"there are more than {self._most}")
        self.wait(new, self.seconds)

    def wait(self, connection: Connection, seconds: float | None) -> None:
        """Close it after these seconds, if its client has not taken a part of its reply meanwhile; None: never."""
        if (timer := self._waiting.pop(connection, None)) is not None:
            timer.cancel()
        if seconds is not None:
            unsent = connection.transport.get_write_buffer_size()
            timer = asyncio.get_running_loop().call_later(seconds, self._late, connection, seconds, unsent)
            self._waiting[connection] = timer

    def _late(self, connection: Connection, seconds: float, unsent: int) -> None:
        if connection.transport.get_write_buffer_size() < unsent:
            self.wait(connection, seconds)
        else:
            self._close(connection, f"nothing came from the client within {seconds:g} s")

    def _close(self, connection: Connection, why: str) -> None:
        self.log.warning("connections are closed: %s", why)
        self.wait(connection, None)
        self.all.discard(connection)
        connection.transport.abort()


class Connection(asyncio.Protocol):
    """The part of a server's protocol that keeps its place among `places`. It stands before that protocol as a base."""

    places: Places
    transport: Any

    def connection_made(self, transport: Any) -> None:
        """The place is taken."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # so that a reply is written when the client has all of it
        self.places.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The place is free."""
        self.places.wait(self, None)
        self.places.all.discard(self)
        super().connection_lost(exc)  # type: ignore[arg-type]

    def pause_writing(self) -> None:
        """The client has not taken the reply so far."""
        super().pause_writing()
        self.places.wait(self, _READ_SECONDS)

    def resume_writing(self) -> None:
        """It has."""
        super().resume_writing()
        self.places.wait(self, None)

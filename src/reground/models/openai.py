"""`openai/<model>`: any server that speaks the OpenAI chat protocol (OpenAI, vLLM, llama.cpp, Ollama, ...).

OPENAI_BASE_URL is its address (the option `base_url` overrides it), OPENAI_API_KEY the key; a server of your own needs
none. The protocol is small, so it is implemented here on aiohttp: with hundreds of calls in flight, the client's CPU
time decides how long a run takes.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import aiohttp
from pydantic_core import from_json
from yarl import URL

from reground.core.concurrency import PerLoop
from reground.core.errors import (
    AuthenticationError,
    CapabilityError,
    ConfigurationError,
    ModelError,
    TransientModelError,
)
from reground.core.http import (
    ENCODING,
    LARGE,
    LEAST_LIMIT,
    BadBody,
    check_address,
    key_in,
    proxy_for,
    proxy_name,
    read_body,
    read_json,
)
from reground.core.language import LanguageModel, Message, Reply, Sampling
from reground.core.untrusted import neutralise
from reground.models._openai_protocol import (
    INTERRUPTED,
    NONE,
    Complaint,
    Dialect,
    Endpoint,
    Limits,
    cut_at_stop,
    most_bytes,
    read_complaint,
    read_replies,
)
from reground.models._server_info import PAGE_SECONDS, ServerInfo, is_private
from reground.models.options import Listing, ModelOptions, Price
from reground.models.wrappers import rest_of

DEFAULT_BASE_URL = "https://api.openai.com/v1"
PROBE_SECONDS = 0.9
"""How long a server on this machine or in its network may take to list its models, connecting included."""
PROBE_CONNECT_SECONDS = 0.4
"""How long it may take to connect. A port where nobody listens refuses at once; one behind a firewall says nothing."""
LISTING_SECONDS = 2.0
"""The same for a provider on the internet."""
MOST_MODELS, _LONGEST_NAME = 1000, 200
CONNECT_SECONDS = 30.0
_log = logging.getLogger(__name__)


def create(model: str, options: ModelOptions) -> LanguageModel:
    """The adapter for `openai/<model>`, without wrappers.

    Raises ConfigurationError, also for OpenAI's own server without a key.
    """
    adapter = OpenAIModel(model, options)
    if adapter.server.key is None and adapter.server.url == DEFAULT_BASE_URL:
        raise ConfigurationError(
            f"{options.api_key_env} is not set: set it, or say with OPENAI_BASE_URL or --base-url where a server "
            "of yours is"
        )
    return adapter


async def available(options: ModelOptions) -> list[Listing]:
    """OpenAI in one line, or the models of the configured server, one line each, or why there are none.

    Takes at most two seconds, and under a second for a server in one's own network.
    """
    adapter = OpenAIModel("<model>", options)
    if adapter.base_url.host == URL(DEFAULT_BASE_URL).host and adapter.server.key is None:
        return [Listing(adapter.name, False, f"{options.api_key_env} is not set ({adapter.server.url})")]
    if not is_private(adapter.base_url):
        return await listings(adapter, hosted=True, base_url=options.base_url)
    note = f", key from {options.api_key_env}" if adapter.server.key else ", no key"
    return await listings(adapter, note=note, base_url=options.base_url)


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A kind of server: where it is, the wording of messages about it, and what its interface lacks.

    name: the prefix of its models' names. summary: its line in the list of models. url: its base URL, or what gives it.
    key_env: the variable of its key. hosted: whether it is on the internet, where models have a price and nothing is
    answered without a key. is_named: whether the user said where it is. start: what to do if it does not answer. bring:
    how to get a {model}. empty: what to say if it has no model. patient: whether to try a server again that has never
    answered, because it may still be starting. limits: what its interface lacks. listing_headers, listing_prefix: where
    models are listed, the headers that carry the key, if not Authorization, and what stands before the models' names.
    """

    name: str
    summary: str = ""
    url: str | Callable[[], str]
    key_env: str
    hosted: bool = False
    is_named: Callable[[], bool] = lambda: False
    start: str
    bring: str = ""
    empty: str = "has no model yet"
    patient: bool = True
    limits: Limits = NONE
    listing_headers: Callable[[str], Mapping[str, str]] | None = None
    listing_prefix: str = ""

    @property
    def base_url(self) -> str:
        """Where it is, unless the options say something else."""
        return self.url if isinstance(self.url, str) else self.url()

    def create(self, model: str, options: ModelOptions) -> OpenAIModel:
        """The adapter for one of its models, without wrappers.

        The key comes from the server's own variable or from the one that the options name; OPENAI_API_KEY is never
        sent. Raises ConfigurationError for a hosted provider without a key, or with its key at another address.
        """
        if options.api_key_env == ModelOptions().api_key_env:
            if self.hosted and options.base_url is not None and not _has_origin(options.base_url, self.base_url):
                raise ConfigurationError(
                    f"{self.name}/{model} is at {self.base_url}, and the key in {self.key_env} is sent nowhere else: "
                    "leave the base URL out, or name the variable of that server's key with --api-key-env"
                )
            options = replace(options, api_key_env=self.key_env)
        if options.price is None and not self.hosted:
            options = replace(options, price=Price(0.0, 0.0, 0.0))
        adapter = OpenAIModel(model, replace(options, base_url=options.base_url or self.base_url), provider=self)
        if self.hosted and adapter.server.key is None:
            raise ConfigurationError(f"{options.api_key_env} is not set: set it to your key for {self.base_url}")
        return adapter

    async def available(self, options: ModelOptions) -> list[Listing]:
        """Its models at its usual place, or one line that says why there are none.

        A hosted provider is one line, takes at most two seconds, and is asked only with a key. A server on this machine
        takes under a second. It gets its key only where the user said where it is: anybody here may listen on a port.
        """
        try:
            adapter = self.create("<model>", replace(options, base_url=None, api_key_env=self.key_env))
        except ConfigurationError:
            if not self.hosted:
                raise
            return [Listing(f"{self.name}/<model>", False, f"{self.key_env} is not set ({self.base_url})")]
        has_key = adapter.server.key is not None and not self.hosted and not self.is_named()
        if has_key:
            adapter.server = replace(adapter.server, key=None)
        return await listings(adapter, hosted=self.hosted, has_key=has_key)


def _has_origin(url: str, home: str) -> bool:
    try:
        return URL(url).origin() == URL(home).origin()
    except ValueError:
        return False


OPENAI = Provider(
    name="openai",
    url=DEFAULT_BASE_URL,
    key_env="OPENAI_API_KEY",
    start="start the server there, or set OPENAI_BASE_URL to where it is",
)


class OpenAIModel:
    """One model of one server.

    Raises TransientModelError for passing faults (408, 409, 429, 5xx, lost connections, timeouts, replies that are
    malformed or broken off), AuthenticationError, ContextLengthExceeded, CapabilityError (no log-probabilities or
    grammar), else ModelError.
    Parameters that the server refuses are remembered: the name of the length limit, and temperature, top_p, seed or
    stop for reasoning models that accept none (replies are then cut here at stop strings). If a server returns fewer
    samples than requested, the others are requested at once.
    """

    def __init__(self, model: str, options: ModelOptions | None = None, *, provider: Provider | None = None) -> None:
        options = options if options is not None else ModelOptions()
        provider = provider if provider is not None else OPENAI
        if not model:
            raise ConfigurationError(f"name the model: {provider.name}/<model>")
        self.name = f"{provider.name}/{model}"
        self.provider = provider
        self._model = model
        self._options = options
        self.price = options.price
        self.base_url = base_url_from(options)
        key = key_in(options.api_key_env)
        self.server = Endpoint(str(self.base_url.with_query(None)).rstrip("/"), options.api_key_env, key)
        self.served_at = self.server.url
        self._chat = url_below(self.base_url, "chat/completions")
        self._proxy = proxy_for(str(self.base_url))
        self._dialect = Dialect(provider.limits, provider.limits.without)
        self._met = False
        self._granted: int | None = None
        self._info = ServerInfo(self.base_url, partial(self._get, seconds=min(PAGE_SECONDS, options.timeout)))
        self._sessions = PerLoop(self._session)

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r}, {self.server!r})"

    @property
    def identity(self) -> str:
        """Tells this model from another server's model of the same name."""
        return f"{self.server.url} {self._model}"

    @property
    def samples(self) -> int | None:
        """The replies that one request gives: known of the provider, or seen; None if it gives all or was never asked
        for several."""
        return 1 if "n" in self._dialect.without else self._granted or self.provider.limits.samples

    async def aclose(self) -> None:
        """Close the connections; the model can still be used and opens new ones."""
        await self._sessions.aclose()

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return `sampling.n` replies."""
        # What the server would ignore without a word is refused before anything is paid.
        lacks = self.provider.limits.lacks
        if sampling.logprobs and "logprobs" in lacks:
            raise CapabilityError(f"{self.name} gives no log-probabilities; choose a model or a server that does")
        if sampling.grammar is not None and "grammar" in lacks:
            raise CapabilityError(f"{self.name} cannot keep a reply to a grammar", lacks="grammar")
        facts = await self._info.facts()
        if facts.control_tokens:  # records hold the method's own messages, which this leaves as they are
            messages = [Message(role=m.role, content=neutralise(m.content, facts.control_tokens)) for m in messages]
        complete = partial(self._complete, messages, facts.grammar)
        replies = await complete(sampling)
        if len(replies) < sampling.n:
            self._granted = len(replies)
        while len(replies) < sampling.n:
            replies = await _complete_more(complete, sampling, replies)
        return replies[: sampling.n]

    async def _get(self, place: URL, *, seconds: float) -> tuple[int, Any, bytes]:
        """A short request. Raises BadBody and aiohttp's errors."""
        return await self._fetch(await self._sessions.get(), place, seconds)

    async def _fetch(self, session: aiohttp.ClientSession, place: URL, seconds: float) -> tuple[int, Any, bytes]:
        connect = PROBE_CONNECT_SECONDS if seconds <= PROBE_SECONDS else None
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=connect)
        async with session.get(place, proxy=self._proxy, allow_redirects=False, timeout=limit) as response:
            return response.status, response.headers, await read_body(response, LEAST_LIMIT)

    async def _complete(self, messages: Sequence[Message], grammar: str, sampling: Sampling) -> list[Reply]:
        while True:
            dialect = self._dialect
            status, headers, body = await self._post(
                dialect.body(self._model, messages, sampling, grammar), most_bytes(sampling)
            )
            if status == 200:
                read = partial(self._read, body, messages, sampling, dialect)
                # A large one is read in a thread, so that other calls continue meanwhile.
                outcome = await asyncio.to_thread(read) if len(body) > LARGE else read()
                if not isinstance(outcome, int):
                    return outcome
                status = outcome
            complaint = read_complaint(status, headers, body)
            if (better := dialect.learn(complaint)) is not None:
                if self._dialect == dialect:  # else a concurrent call has found another already
                    self._dialect = better
                    _log.info("%s: the server takes no %s", self.name, ", ".join(sorted(better.without)))
            elif status == 404:
                raise await self._unknown_model(complaint)
            else:
                raise self.server.refusal(complaint, sampling)

    def _read(
        self, body: bytes, messages: Sequence[Message], sampling: Sampling, dialect: Dialect
    ) -> list[Reply] | int:
        """The replies; or the status that an error has which some gateways report under a 200."""
        try:
            data = read_json(body)
            if isinstance(data, dict) and data.get("error"):
                code = data["error"].get("code") if isinstance(data["error"], dict) else None
                return code if isinstance(code, int) and 400 <= code < 600 else 500
            apart = self.provider.limits.thinks_apart
            replies = read_replies(data, messages, self.price, thinks_apart=apart)
        except ValueError as error:
            why = self.server.redact(str(error).splitlines()[0])
            raise TransientModelError(f"{self.server.url} gave a malformed reply: {why}") from None
        for reply in replies:
            if reply.finish_reason in INTERRUPTED:  # what it says until there is no answer
                raise TransientModelError(f"{self.server.url} broke its reply off ({reply.finish_reason})")
        return [cut_at_stop(reply, sampling.stop) for reply in replies] if dialect.cuts_here(sampling.stop) else replies

    async def _post(self, body: bytes, most: int) -> tuple[int, Any, bytes]:
        session = await self._sessions.get()
        try:
            async with session.post(self._chat, data=body, proxy=self._proxy, allow_redirects=False) as response:
                self._met = True
                return response.status, response.headers, await read_body(response, most)
        except BadBody as error:
            kind = TransientModelError if error.passing else ModelError
            raise kind(f"{self.server.url} {error}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._connection_error(error) from None

    def _session(self, key: Mapping[str, str] | None = None) -> aiohttp.ClientSession:
        """key: the headers that carry the key, if not Authorization."""
        if key is None:
            key = {} if self.server.key is None else {"Authorization": f"Bearer {self.server.key}"}
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connection_limit(self._options.connections)),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json", "Accept-Encoding": ENCODING, **key},
            auto_decompress=False,  # `read_body` unpacks, within limits
            timeout=aiohttp.ClientTimeout(total=self._options.timeout, sock_connect=CONNECT_SECONDS),
        )

    def _connection_error(self, error: Exception) -> ModelError:
        """The error for a failed connection."""
        url = self.server.url
        if self._proxy is not None and (failure := proxy_error(error, self.base_url)) is not None:
            return failure
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
            return ModelError(f"{url} offers no trusted TLS: {getattr(error, 'strerror', None) or error}")
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            return TransientModelError(f"cannot find the host of {url}; is the base URL right?")
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return TransientModelError(f"cannot connect to {url} within {CONNECT_SECONDS:.0f} s")
        if isinstance(error, aiohttp.ClientConnectorError):
            kind = TransientModelError if self.provider.patient or self._met else ModelError
            return kind(f"cannot reach {url} ({_reason(error)}); {self.provider.start}")
        if isinstance(error, TimeoutError):
            return TransientModelError(
                f"{url} gave no reply within {self._options.timeout:g} s; a slow server needs fewer "
                "questions at once, or a higher timeout in reground.toml"
            )
        return TransientModelError(f"{url} cut the connection ({type(error).__name__})")

    async def list_models(self, seconds: float) -> list[str] | None:
        """The models that the server lists; None if it answers with something else than such a list.

        Raises ModelError if it does not answer in time.
        """
        place = url_below(self.base_url, "models")
        try:
            if self.provider.listing_headers is not None and self.server.key is not None:
                async with self._session(self.provider.listing_headers(self.server.key)) as session:
                    status, headers, body = await self._fetch(session, place, seconds)
            else:
                status, headers, body = await self._get(place, seconds=seconds)
        except BadBody as error:
            raise ModelError(f"{self.server.url} {error}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise ModelError(f"{self.server.url} did not answer within {seconds:g} s") from None
            raise self._connection_error(error) from None
        if status in (404, 405):
            return None
        if status != 200:
            raise self.server.refusal(read_complaint(status, headers, body), Sampling())
        return model_names(body, self.provider.listing_prefix)

    async def _unknown_model(self, complaint: Complaint) -> ModelError:
        try:
            models = await self.list_models(LISTING_SECONDS) or []
        except ModelError:
            models = []
        if not models or self._model in models:
            message = self.server.redact(complaint.message)
            return ModelError(f"{self.server.url} knows no {self._model!r}, or the base URL is wrong (404): {message}")
        close = difflib.get_close_matches(self._model, models, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        bring = self.provider.bring.format(model=self._model)
        return ModelError(f"{self.server.url} has no model {self._model!r}; {hint}it serves {some(models)}{bring}")


async def _complete_more(
    complete: Callable[[Sampling], Awaitable[list[Reply]]], sampling: Sampling, have: list[Reply]
) -> list[Reply]:
    """Request the missing samples concurrently, in requests of the size that the server grants."""
    size = len(have)
    requests = [
        rest_of(sampling, done).model_copy(update={"n": min(size, sampling.n - done)})
        for done in range(size, sampling.n, size)
    ]
    results = await asyncio.gather(*map(complete, requests), return_exceptions=True)
    replies = have + [reply for result in results if not isinstance(result, BaseException) for reply in result]
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        failed = min(failures, key=lambda failure: isinstance(failure, TransientModelError))
        if isinstance(failed, ModelError):
            failed.paid = replies
        raise failed
    return replies


def _reason(error: aiohttp.ClientConnectorError) -> str:
    return (os.strerror(error.errno) if error.errno else error.strerror or "no connection").lower()


def base_url_from(options: ModelOptions) -> URL:
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


def url_below(base: URL, path: str) -> URL:
    """A path below the base URL, with the base URL's query."""
    return base.with_path(f"{base.path.rstrip('/')}/{path}").with_query(base.query)


def connection_limit(wanted: int) -> int:
    """The number of connections, limited by the process's open files, so that calls wait instead of failing."""
    try:
        import resource
    except ImportError:  # not on Windows
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft < 0 else max(8, min(wanted, soft - 64))


def proxy_error(error: Exception, url: URL) -> ModelError | None:
    """The error for a connection to this server that failed at the environment's proxy; None if it failed elsewhere."""
    name = proxy_name(url.scheme)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        if error.status == 407:
            return ModelError(f"{name} wants a user and a password (407): http://USER:PASSWORD@HOST:PORT")
        kind = TransientModelError if error.status >= 500 else ModelError
        return kind(f"{name} gives no way to {url.host} ({error.status})")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return TransientModelError(f"cannot find the host of {name}")
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return TransientModelError(
            f"cannot reach {name} ({_reason(error)}); name {url.host} in NO_PROXY if it needs none"
        )
    return None


def model_names(body: bytes, prefix: str = "") -> list[str] | None:
    """The names in a reply to `GET /v1/models`, sorted; None if it is no such list.

    prefix: what the server puts before each name. At most a thousand names, none with control characters.
    """
    try:
        data = from_json(body)
    except ValueError:
        return None
    match data:
        case {"data": [*models]}:
            named = [each["id"] for each in models if isinstance(each, dict) and isinstance(each.get("id"), str)]
        case {"object": "list"} if data.get("data") is None:  # Ollama without models
            named = []
        case _:
            return None
    fit = (name.removeprefix(prefix) for name in set(named) if name.isprintable() and len(name) <= _LONGEST_NAME)
    return sorted(name for name in fit if name.strip())[:MOST_MODELS]


def command_words(model: str, base_url: str | None = None) -> str:
    """What to type for this model."""
    return shlex.join(["--model", model, *(("--base-url", base_url) if base_url else ())])


def some(models: Sequence[str], most: int = 8) -> str:
    """The first models, and how many more there are."""
    more = f" and {len(models) - most} more" if len(models) > most else ""
    return ", ".join(models[:most]) + more


async def listings(
    adapter: OpenAIModel,
    *,
    hosted: bool = False,
    note: str = "",
    base_url: str | None = None,
    has_key: bool = False,
) -> list[Listing]:
    """One line a model of a server of one's own, or one line that says why there is none. Closes the adapter.

    hosted: whether it is a provider on the internet, which is one line and has more time. note: what to say after the
    address. base_url: the option that is needed to reach it. has_key: whether a key is known that this request does not
    send.
    """
    unnamed, server, url = adapter.name, adapter.server, adapter.server.url
    words = command_words(unnamed, base_url)
    try:
        models = await adapter.list_models(LISTING_SECONDS if hosted else PROBE_SECONDS)
    except AuthenticationError as error:
        if has_key:
            return [Listing(unnamed, True, f"{url} wants a key, and {server.key_env} is set", words, url)]
        return [Listing(unnamed, False, str(error), None, url)]
    except ModelError as error:
        return [Listing(unnamed, False, str(error))]
    finally:
        await adapter.aclose()
    if hosted:
        key = f"key from {server.key_env}" if server.key else "no key"
        why = f"{url}, {key}; serves {some(models or []) or 'models it does not list'}"
        return [Listing(unnamed, True, why, words, url)]
    if models is None:
        return [Listing(unnamed, False, f"what answers at {url} lists no models, so it may be another kind of server")]
    if not models:
        return [Listing(unnamed, False, f"{url} {adapter.provider.empty}", None, url)]
    lines = []
    for model in models:
        name = f"{unnamed.partition('/')[0]}/{model}"
        if "embed" in model.lower():
            lines.append(Listing(name, False, f"{url}{note}; by its name it makes embeddings", None, url))
        else:
            lines.append(Listing(name, True, url + note, command_words(name, base_url), url))
    return lines

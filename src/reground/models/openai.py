"""Models of any server that speaks the OpenAI chat protocol: OpenAI, vLLM, llama.cpp, Ollama and others.

The protocol is small, so it is implemented here on aiohttp: with hundreds of calls in flight, the client's CPU time
decides how long a run takes. `servers` is the table of the kinds of servers.
"""

from __future__ import annotations

import asyncio
import difflib
import ipaddress
import logging
import os
import re
import resource
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import aiohttp
from pydantic_core import from_json, to_json
from yarl import URL

from reground.core import http
from reground.core.concurrency import PerLoop
from reground.core.errors import (
    AuthenticationError,
    CapabilityError,
    ConfigurationError,
    ModelError,
    TransientModelError,
)
from reground.core.http import BadBody, read_json
from reground.core.language import Message, Reply, Sampling, hearing
from reground.core.reasoning import ended_at
from reground.core.untrusted import neutralise
from reground.models import _openai_protocol as protocol
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
_MOST_LEARNT = 12
"""Requests of one call, each as the refusal before wanted it."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A kind of server: where it is, the wording of messages about it, and what its interface lacks.

    name: the prefix of its models' names. summary: its line in the list of models. url: its base URL, or what gives it.
    kind: "local" for a server on this machine, whose models cost nothing; "hosted" for a provider on the internet,
    whose key goes to nobody else; "any" for a server wherever the options say. key_env: the variable of its key.
    url_env: the variable in which the user may say where it is. start: what to do if it does not answer. bring: how to
    get a {model}. empty: what to say if it has no model. patient: whether to try a server again that has never
    answered, because it may still be starting. dialect: what its interface lacks. listing_headers, listing_prefix:
    where models are listed, the headers that carry the {key}, and what stands before the models' names.
    """

    name: str
    summary: str
    url: str | Callable[[], str]
    kind: Literal["local", "hosted", "any"]
    key_env: str
    url_env: str = ""
    start: str
    bring: str = ""
    empty: str = "has no model yet"
    patient: bool = True
    dialect: protocol.Dialect = field(default_factory=protocol.Dialect)
    listing_headers: tuple[tuple[str, str], ...] = (("Authorization", "Bearer {key}"),)
    listing_prefix: str = ""

    @property
    def base_url(self) -> str:
        """Where it is, unless the options say something else."""
        return self.url if isinstance(self.url, str) else self.url()

    def create(self, model: str, options: ModelOptions) -> OpenAIModel:
        """The adapter for one of its models, without wrappers.

        The key comes from the server's own variable or from the one that the options name; OPENAI_API_KEY is sent to
        none but `openai`. Raises ConfigurationError for a hosted provider without a key, or with its key at another
        address.
        """
        if options.api_key_env == ModelOptions().api_key_env:
            if self.kind == "hosted" and not http.same_server(options.base_url or self.base_url, self.base_url):
                raise ConfigurationError(
                    f"{self.name}/{model} is at {self.base_url}, and the key in {self.key_env} is sent nowhere else: "
                    "leave the base URL out, or name the variable of that server's key with --api-key-env"
                )
            options = replace(options, api_key_env=self.key_env)
        if options.price is None and self.kind == "local":
            options = replace(options, price=Price(0.0, 0.0, 0.0))
        adapter = OpenAIModel(model, options, provider=self)
        if adapter.key is None and (self.kind == "hosted" or adapter.served_at == DEFAULT_BASE_URL):
            raise ConfigurationError(
                f"{options.api_key_env} is not set: set it to your key for {self.base_url}"
                + (", or say with OPENAI_BASE_URL or --base-url where a server of yours is" * (self.kind == "any"))
            )
        return adapter

    async def available(self, options: ModelOptions) -> list[Listing]:
        """Its models, one line each, or one line that says why there are none; of a provider on the internet one line.

        Only `openai` is looked for where the options say. It takes at most two seconds, and under one in the user's own
        network. A server on this machine gets its key only where the user said where it is: anybody here may listen on
        a port. Raises ConfigurationError as `create` does.
        """
        if self.kind != "any":
            options = replace(options, base_url=None, api_key_env=self.key_env)
        adapter = self.create("<model>", options)
        name, url = adapter.name, adapter.served_at
        note = f", key from {adapter.key_env}" if adapter.key else ", no key"
        keeps_key = self.kind == "local" and adapter.key is not None and not os.environ.get(self.url_env, "").strip()
        if keeps_key:
            adapter.key = None
        on_internet = self.kind == "hosted" or (self.kind == "any" and not is_private(adapter.base_url))
        try:
            models = await adapter.list_models(LISTING_SECONDS if on_internet else PROBE_SECONDS)
        except AuthenticationError as error:
            if keeps_key:
                return [Listing(name, True, f"{url} wants a key, and {self.key_env} is set", command_words(name), url)]
            return [Listing(name, False, str(error), None, url)]
        except ModelError as error:
            return [Listing(name, False, str(error))]
        finally:
            await adapter.aclose()
        if on_internet:
            why = f"{url}{note}; serves {some(models or []) or 'models it does not list'}"
            return [Listing(name, True, why, command_words(name, options.base_url), url)]
        if models is None:
            return [Listing(name, False, f"what answers at {url} lists no models, so it may be another kind of server")]
        if not models:
            return [Listing(name, False, f"{url} {self.empty}", None, url)]
        return [self._listing(model, url + note * (self.kind == "any"), url, options.base_url) for model in models]

    def _listing(self, model: str, where: str, url: str, base_url: str | None) -> Listing:
        name = f"{self.name}/{model}"
        if "embed" in model.lower():
            return Listing(name, False, f"{where}; by its name it makes embeddings", None, url)
        return Listing(name, True, where, command_words(name, base_url), url)


def _openai_url() -> str:
    url = os.environ.get("OPENAI_BASE_URL", "").strip() or DEFAULT_BASE_URL
    http.check_address(url, "the base URL in OPENAI_BASE_URL")
    return url


OPENAI = Provider(
    name="openai",
    summary="`openai/<model>`: any server that speaks the OpenAI chat protocol (OpenAI, vLLM, llama.cpp, Ollama, ...).",
    url=_openai_url,
    kind="any",
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

    def __init__(self, model: str, options: ModelOptions | None = None, *, provider: Provider = OPENAI) -> None:
        options = options if options is not None else ModelOptions()
        if not model:
            raise ConfigurationError(f"name the model: {provider.name}/<model>")
        self.name = f"{provider.name}/{model}"
        self.provider = provider
        self._model = model
        self._options = options
        self.price = options.price
        self._extra: dict[str, Any] = from_json(str(options.extra_body or "{}"))
        self.base_url = _parsed(options.base_url or provider.base_url)
        self.served_at = str(self.base_url.with_query(None)).rstrip("/")
        self.key_env, self.key = options.api_key_env, http.key_in(options.api_key_env)
        self._chat = _below(self.base_url, "chat/completions")
        self._proxy = http.proxy_for(str(self.base_url))
        self._dialect = provider.dialect
        self._met = False
        self._info = ServerInfo(self.base_url, partial(self._get, seconds=min(PAGE_SECONDS, options.timeout)))
        self._sessions = PerLoop(self._session)

    @property
    def identity(self) -> str:
        """Tells this model from another server's model of the same name."""
        return " ".join(filter(None, (self.served_at, self._model, str(self._options.extra_body or ""))))

    @property
    def samples(self) -> int | None:
        """The replies that one request gives: known of the provider, or seen; None if it gives all or was never asked
        for several."""
        return 1 if "n" in self._dialect.without else self._dialect.samples

    async def aclose(self) -> None:
        """Close the connections; the model can still be used and opens new ones."""
        await self._sessions.aclose()

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return `sampling.n` replies."""
        # What the server would ignore without a word is refused before anything is paid.
        if sampling.logprobs and "logprobs" in self._dialect.lacks:
            raise CapabilityError(f"{self.name} gives no log-probabilities; choose a model or a server that does")
        if sampling.grammar is not None and "grammar" in self._dialect.lacks:
            raise CapabilityError(f"{self.name} cannot keep a reply to a grammar", lacks="grammar")
        facts = await self._info.facts()
        if facts.control_tokens:  # records hold the method's own messages, which this leaves as they are
            messages = [Message(role=m.role, content=neutralise(m.content, facts.control_tokens)) for m in messages]
        complete = partial(self._complete, messages, facts.grammar)
        replies = await complete(sampling)
        while len(replies) < sampling.n:
            replies = await _complete_more(complete, sampling, replies)
        return replies[: sampling.n]

    async def _complete(self, messages: Sequence[Message], grammar: str, sampling: Sampling) -> list[Reply]:
        before = dialect = self._dialect
        extra = self._extra if hearing.get() is None else {**protocol.STREAMED, **self._extra}
        first = request = dialect.request(self._model, messages, sampling, grammar, extra)
        for _ in range(_MOST_LEARNT):
            most = protocol.most_bytes(sampling, streams="stream" in request)
            status, headers, body = await self._post(to_json(request), most)
            if status == 200:
                read = partial(self._read, body, messages, sampling, dialect)
                # A large one is read in a thread, so that other calls continue meanwhile.
                outcome = await asyncio.to_thread(read) if len(body) > http.LARGE else read()
                if not isinstance(outcome, int):
                    if self._dialect == before != dialect:  # else a concurrent call has found something already
                        self._dialect = dialect
                        refused = ", ".join(name for name in first if request.get(name) != first[name]) or "stream"
                        _log.warning("%s: requests differ by what the server refused: %s", self.name, refused)
                    if len(outcome) < request.get("n", 1):
                        self._dialect = replace(self._dialect, samples=len(outcome))
                    return outcome
                status = outcome
            complaint = protocol.read_complaint(status, headers, protocol.joined(body))
            better = dialect.learn(complaint, request)
            if better is None or better == dialect:
                break
            dialect = better
            request = dialect.request(self._model, messages, sampling, grammar, extra)
        if status in (404, 405):
            raise await self._unknown_model(complaint)
        raise self._refusal(complaint, sampling)

    def _read(
        self, body: bytes, messages: Sequence[Message], sampling: Sampling, dialect: protocol.Dialect
    ) -> list[Reply] | int:
        """The replies; or the status that an error has which some gateways report under a 200."""
        try:
            data = http.read_json(protocol.joined(body))
            if (status := protocol.status_of(data)) is not None:
                return status
            replies = protocol.read_replies(data, messages, self.price, thinks_apart=dialect.thinks_apart)
        except ValueError as error:
            if b'"choices"' not in body and protocol.FOREIGN.search(body):
                hint = "give the address of its OpenAI-compatible interface, which often ends in /v1"
                raise ModelError(f"{self.served_at} does not answer in OpenAI's chat protocol; {hint}") from None
            why = http.redacted(str(error).splitlines()[0], self.key)
            raise TransientModelError(f"{self.served_at} gave a malformed reply: {why}") from None
        for reply in replies:
            if protocol.INTERRUPTED.search(reply.finish_reason):  # what it says until there is no answer
                raise TransientModelError(f"{self.served_at} broke its reply off ({reply.finish_reason})")
        stop = sampling.stop if dialect.cuts_here(sampling.stop) else ()
        return [protocol.without_key(ended_at(reply, stop), self.key) for reply in replies]

    def _refusal(self, complaint: protocol.Complaint, sampling: Sampling) -> ModelError:
        return protocol.refusal(complaint, sampling, url=self.served_at, key_env=self.key_env, key=self.key)

    async def _post(self, body: bytes, most: int) -> tuple[int, Any, bytes]:
        session = await self._sessions.get()
        try:
            async with session.post(
                self._chat, data=body, headers=http.headers_with(self.key), proxy=self._proxy, allow_redirects=False
            ) as response:
                self._met = True
                on_data = None if (hear := hearing.get()) is None else protocol.Joining(hear).follow
                return response.status, response.headers, await http.read_body(response, most, on_data=on_data)
        except http.BadBody as error:
            kind = TransientModelError if error.passing else ModelError
            raise kind(f"{self.served_at} {error}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._connection_error(error) from None

    async def _get(
        self, place: URL, *, seconds: float, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, bytes]:
        """A short request. Raises BadBody and aiohttp's errors."""
        session = await self._sessions.get()
        connect = PROBE_CONNECT_SECONDS if seconds <= PROBE_SECONDS else None
        async with session.get(
            place,
            headers=http.headers_with(self.key) if headers is None else headers,
            proxy=self._proxy,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=connect),
        ) as response:
            return response.status, response.headers, await http.read_body(response, http.LEAST_LIMIT)

    def _session(self) -> aiohttp.ClientSession:
        # No more connections than the process may open files, so that calls wait instead of failing.
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = self._options.connections
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=most if files < 0 else max(8, min(most, files - 64))),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json", "Accept-Encoding": http.ENCODING},
            auto_decompress=False,  # `read_body` unpacks, within limits
            timeout=aiohttp.ClientTimeout(total=self._options.timeout, sock_connect=CONNECT_SECONDS),
        )

    def _connection_error(self, error: Exception) -> ModelError:
        url = self.served_at
        if self._proxy is not None and (failure := _proxy_error(error, self.base_url)) is not None:
            return failure
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
            return ModelError(f"{url} offers no trusted TLS: {getattr(error, 'strerror', None) or error}")
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

    async def list_models(self, seconds: float, base: URL | None = None) -> list[str] | None:
        """The models that the server lists; None if it answers with something else than such a list.

        base: another base URL of it. Raises ModelError if it does not answer in time, or is reground itself.
        """
        templates = self.provider.listing_headers if self.key is not None else ()
        key = {name: value.format(key=self.key) for name, value in templates}
        try:
            place = _below(base or self.base_url, "models")
            status, headers, body = await self._get(place, seconds=seconds, headers=key)
        except http.BadBody as error:
            raise ModelError(f"{self.served_at} {error}") from None
        except TimeoutError:
            raise ModelError(f"{self.served_at} did not answer within {seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._connection_error(error) from None
        if status in (404, 405):
            return None
        if status != 200:
            raise self._refusal(protocol.read_complaint(status, headers, body), Sampling())
        if self.provider.kind == "local" and b'"owned_by":"reground"' in body.replace(b" ", b""):
            raise ModelError(f"{self.served_at} is reground itself")
        return model_names(body, self.provider.listing_prefix)

    async def _unknown_model(self, complaint: protocol.Complaint) -> ModelError:
        path, models = self.base_url.path.rstrip("/"), None
        with suppress(ModelError):
            for other in dict.fromkeys((path, path.removesuffix("/chat/completions"), f"{path}/v1", "/v1")):
                base = self.base_url.with_path(other).with_query(self.base_url.query)
                if (models := await self.list_models(LISTING_SECONDS, base)) is not None and other != path:
                    return ModelError(f"{self.served_at} speaks no chat protocol: give {base} as base URL")
                if models is not None:
                    break
        if not models or self._model in models:
            message = http.redacted(complaint.message, self.key)
            return ModelError(f"{self.served_at} knows no {self._model!r}, or the base URL is wrong (404): {message}")
        close = difflib.get_close_matches(self._model, models, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        bring = self.provider.bring.format(model=self._model)
        return ModelError(f"{self.served_at} has no model {self._model!r}; {hint}it serves {some(models)}{bring}")


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


def _parsed(text: str) -> URL:
    try:
        url = URL(text)
        if url.host is not None and url.scheme in ("http", "https"):
            return url
    except ValueError:
        pass
    raise ConfigurationError("the base URL (--base-url or OPENAI_BASE_URL) must look like http://localhost:8000/v1")


def _below(base: URL, path: str) -> URL:
    """A path below the base URL, with the base URL's query."""
    return base.with_path(f"{base.path.rstrip('/')}/{path}").with_query(base.query)


def _reason(error: aiohttp.ClientConnectorError) -> str:
    return (os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or "no connection").lower()


def _proxy_error(error: Exception, url: URL) -> ModelError | None:
    """The error for a connection to this server that failed at the environment's proxy; None if it failed elsewhere."""
    name = http.proxy_name(url.scheme)
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
            names = [each["id"] for each in models if isinstance(each, dict) and isinstance(each.get("id"), str)]
        case {"object": "list"} if data.get("data") is None:  # Ollama without models
            names = []
        case _:
            return None
    fit = (name.removeprefix(prefix) for name in set(names) if name.isprintable() and len(name) <= _LONGEST_NAME)
    return sorted(name for name in fit if name.strip())[:MOST_MODELS]


def command_words(model: str, base_url: str | None = None) -> str:
    """What to type for this model."""
    return shlex.join(["--model", model, *(("--base-url", base_url) if base_url else ())])


def some(models: Sequence[str], most: int = 8) -> str:
    """The first models, and how many more there are."""
    more = f" and {len(models) - most} more" if len(models) > most else ""
    return ", ".join(models[:most]) + more


PAGE_SECONDS, PAGE_TRIES = 4.0, 6
"""How long a page is waited for, and how often: a busy server answers late."""


@dataclass(frozen=True)
class Facts:
    """What is known of a server. grammar: how it takes one (`_openai_protocol.grammar_parameter`)."""

    control_tokens: tuple[str, ...] = ()
    grammar: str = "response_format"


class _NotYet(Exception):
    """The server cannot be reached, still starts, or is too busy to tell."""


class ServerInfo:
    """What one server tells, asked for once. Only a server of the user's own is asked.

    get: requests a page and gives status, headers and body. It raises BadBody and aiohttp's errors.
    """

    def __init__(self, base: URL, get: Callable[[URL], Awaitable[tuple[int, Any, bytes]]]) -> None:
        self._base = base
        self._get = get
        self._late = 0
        self._facts = None if is_private(base) else Facts()
        self._asking: asyncio.Task[Facts | None] | None = None

    async def facts(self) -> Facts:
        """What is known now. Concurrent calls share the requests; where it could not tell the next call asks again."""
        if self._facts is None:
            if self._asking is None or self._asking.get_loop() is not asyncio.get_running_loop():
                self._asking = asyncio.create_task(self._ask())
            self._facts = await asyncio.shield(self._asking)
            self._asking = None if self._facts is None else self._asking
        return self._facts or Facts()

    async def _ask(self) -> Facts | None:
        try:
            if (properties := await self._page("props")) is not None:
                return Facts(control_tokens(properties), "grammar")  # llama.cpp
            tokenizer = await self._page("tokenizer_info")  # vLLM has it only if enabled
            version = await self._page("version")
        except _NotYet:
            return None
        except RecursionError:  # of a page that is nested too deep
            return Facts()
        return Facts(control_tokens(tokenizer), "response_format" if version is None else "structured_outputs")

    async def _page(self, name: str) -> Any:
        """The content of a page; None if the server has none. Raises _NotYet."""
        try:
            root = self._base.path.rstrip("/").removesuffix("/v1")  # the pages are next to the protocol's, not below
            status, _, body = await self._get(self._base.with_path(f"{root}/{name}").with_query(self._base.query))
            if status == 503:
                raise _NotYet
            return await asyncio.to_thread(read_json, body) if status == 200 else None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise _NotYet from None
        except TimeoutError:
            self._late += 1
            if self._late < PAGE_TRIES:
                raise _NotYet from None
            return None
        except (BadBody, aiohttp.ClientError, OSError, ValueError):
            return None


_SHAPE = re.compile(r"<<?/?[^\s<>{}'\"%]{1,60}>>?|\[/?[A-Z_]{2,40}\]|\[\|[^\s|\[\]]{1,40}\|\]")
_OURS = re.compile(r"</?passage>")
_MARKS = frozenset("<>[]|｜")
_MOST_TOKENS, _MOST_MARKED = 2000, 100


def is_private(url: URL) -> bool:
    """Whether the user runs the server: it is not encrypted, or in a private network. Other servers are not asked."""
    host = url.host or ""
    try:
        return url.scheme == "http" or ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan"))


def control_tokens(page: Any) -> tuple[str, ...]:
    """The control tokens in a server's reply: the named ones, and text in its chat template that looks like one."""
    if not isinstance(page, dict):
        return ()
    texts: list[str] = []
    for name, value in page.items():
        if name.endswith("_token") or name in ("media_marker", "additional_special_tokens", "added_tokens_decoder"):
            texts += _texts(value)
        elif name.startswith("chat_template"):
            texts += [shape for template in _texts(value) for shape in _SHAPE.findall(template)]
    tokens = {text for text in texts if _MARKS & set(text) and 1 < len(text) <= _MOST_MARKED}
    return tuple(sorted(token for token in tokens if not _OURS.fullmatch(token))[:_MOST_TOKENS])


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value: itself, those of a list, and those under `content` or `template` in mappings of it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, dict) or name in ("content", "template"):
                yield from _texts(each)

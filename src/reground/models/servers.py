"""Providers that are servers with an OpenAI-compatible interface: four on this machine, two on the internet.

The models of a server on this machine cost nothing and need no key; `--base-url` says where it is, if not on its usual
port. A hosted provider has a key of its own, which goes to nobody else. The interfaces lack some of what OpenAI's has:
see the limits of each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from yarl import URL

from reground.core.errors import ConfigurationError
from reground.core.http import check_address
from reground.models._openai_protocol import Limits
from reground.models.openai import OpenAIModel, Provider, listings
from reground.models.options import Listing, ModelOptions, Price


@dataclass(frozen=True, kw_only=True)
class Server(Provider):
    """A provider with a usual place.

    summary: its line in the list of models. url: its base URL, or what gives it. key_env: the variable of its key.
    hosted: whether it is on the internet, where models have a price and nothing is answered without a key. empty: what
    to say of a server that has no model. is_named: whether the user said where it is.
    """

    summary: str
    url: str | Callable[[], str]
    key_env: str
    hosted: bool = False
    empty: str = ""
    is_named: Callable[[], bool] = lambda: False

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
        return await listings(adapter, hosted=self.hosted, empty=self.empty, has_key=has_key)


def _has_origin(url: str, home: str) -> bool:
    try:
        return URL(url).origin() == URL(home).origin()
    except ValueError:
        return False


def ollama_url() -> str:
    """Ollama's address from OLLAMA_HOST, which may be a host, host:port, :port or a URL, as for Ollama itself."""
    named = os.environ.get("OLLAMA_HOST", "").strip().strip("'\"")
    url = named if "://" in named else f"http://{named}"
    check_address(url, "OLLAMA_HOST")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        raise ConfigurationError(f"OLLAMA_HOST must look like 127.0.0.1:11434, not {named!r}") from None
    if parts.scheme not in ("http", "https"):
        raise ConfigurationError(f"OLLAMA_HOST must look like 127.0.0.1:11434, not {named!r}")
    if host in ("0.0.0.0", "::"):  # noqa: S104 - where a server listens on every address, a client asks this machine
        host = "127.0.0.1"
    if port is None:
        port = 11434 if "://" not in named else 443 if parts.scheme == "https" else 80
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/').removesuffix('/v1')}/v1"


OLLAMA = Server(
    name="ollama",
    summary="`ollama/<model>`: a model that Ollama serves on this machine or at OLLAMA_HOST, without key and price.",
    url=ollama_url,
    key_env="OLLAMA_API_KEY",
    start="start Ollama there (ollama serve), or set OLLAMA_HOST to where it is",
    bring="; ollama pull {model} brings another",
    empty="has no model yet: ollama pull llama3.2",
    patient=False,
    is_named=lambda: bool(os.environ.get("OLLAMA_HOST", "").strip()),
)
LMSTUDIO = Server(
    name="lmstudio",
    summary="`lmstudio/<model>`: a model that LM Studio serves on port 1234 of this machine, without price.",
    url="http://127.0.0.1:1234/v1",
    key_env="LM_API_TOKEN",
    start="start LM Studio's server there (lms server start), or say with --base-url where it is",
    bring="; lms get brings another",
    empty="has no model yet: lms get",
    patient=False,
)
LLAMACPP = Server(
    name="llamacpp",
    summary="`llamacpp/<model>`: a model that llama.cpp's server has on port 8080 of this machine, without price.",
    url="http://127.0.0.1:8080/v1",
    key_env="LLAMA_API_KEY",
    start="start it there (llama-server -m FILE.gguf), or say with --base-url where it is",
    empty="has no model: llama-server -m FILE.gguf",
    patient=False,
)
VLLM = Server(  # it takes minutes to start, so it is patient
    name="vllm",
    summary="`vllm/<model>`: a model that vLLM serves on port 8000 of this machine, without price.",
    url="http://127.0.0.1:8000/v1",
    key_env="VLLM_API_KEY",
    start="start it there (vllm serve MODEL), or say with --base-url where it is",
    empty="has no model: vllm serve MODEL",
)


def _anthropic_headers(key: str) -> Mapping[str, str]:
    """The list of models belongs to Anthropic's own interface, which takes the key in another header."""
    return {"x-api-key": key, "anthropic-version": "2023-06-01"}


ANTHROPIC = Server(
    name="anthropic",
    summary="`anthropic/<model>`: a Claude model, through Anthropic's OpenAI-compatible interface, with "
    "ANTHROPIC_API_KEY.",
    url="https://api.anthropic.com/v1",
    key_env="ANTHROPIC_API_KEY",
    hosted=True,
    start="is this machine on the internet?",
    limits=Limits(without=frozenset({"n", "seed"}), lacks=frozenset({"logprobs", "grammar"}), refuses_blank_stops=True),
    listing_headers=_anthropic_headers,
)
"""Source: platform.claude.com, "OpenAI SDK compatibility", as of November 2026.

`n` must be 1; `seed`, `logprobs` and `response_format` are ignored without an error; a stop string of white space alone
does not work. Learnt from refusals: models since Opus 4.7 take no temperature, others not both temperature and top_p.
"""
GEMINI = Server(
    name="gemini",
    summary="`gemini/<model>`: a Gemini model, through Google's OpenAI-compatible interface, with GEMINI_API_KEY.",
    url="https://generativelanguage.googleapis.com/v1beta/openai",
    key_env="GEMINI_API_KEY",
    hosted=True,
    start="is this machine on the internet?",
    limits=Limits(without=frozenset({"seed"}), samples=8, stops=5, thinks_apart=True),
    listing_prefix="models/",
)
"""Sources: ai.google.dev, "OpenAI compatibility" and `GenerationConfig`, as of November 2026, and reports of users.

`seed` is refused as an unknown name (ChatterUI #227). The API takes 1 to 8 candidates and up to 5 stop strings. Learnt
from refusals: models that give one candidate or no log-probabilities. `total_tokens` minus the two other counts is what
the model thought, which is paid (any-llm #1290).
"""

LOCAL = {each.name: each for each in (OLLAMA, LMSTUDIO, LLAMACPP, VLLM)}
HOSTED = {each.name: each for each in (ANTHROPIC, GEMINI)}

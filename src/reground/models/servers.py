"""Providers that are servers with an OpenAI-compatible interface: five on this machine, two on the internet.

The models of a server on this machine cost nothing and need no key; `--base-url` says where it is, if not on its usual
port. A hosted provider has a key of its own, which goes to nobody else. The interfaces lack some of what OpenAI's has:
see the limits of each.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from reground.core.errors import ConfigurationError
from reground.core.http import check_address
from reground.models._openai_protocol import Dialect
from reground.models.openai import Provider


def ollama_url() -> str:
    """Ollama's address from OLLAMA_HOST, which may be a host, host:port, :port or a URL, as for Ollama itself."""
    address = os.environ.get("OLLAMA_HOST", "").strip().strip("'\"")
    url = address if "://" in address else f"http://{address}"
    check_address(url, "OLLAMA_HOST")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port
        if parts.scheme not in ("http", "https"):
            raise ValueError
    except ValueError:
        raise ConfigurationError(f"OLLAMA_HOST must look like 127.0.0.1:11434, not {address!r}") from None
    if host in ("0.0.0.0", "::"):  # noqa: S104 - where a server listens on every address, a client asks this machine
        host = "127.0.0.1"
    if port is None:
        port = 11434 if "://" not in address else 443 if parts.scheme == "https" else 80
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/').removesuffix('/v1')}/v1"


OLLAMA = Provider(
    name="ollama",
    summary="`ollama/<model>`: a model that Ollama serves on this machine or at OLLAMA_HOST, without key and price.",
    url=ollama_url,
    kind="local",
    key_env="OLLAMA_API_KEY",
    url_env="OLLAMA_HOST",
    start="start Ollama there (ollama serve), or set OLLAMA_HOST to where it is",
    bring="; ollama pull {model} brings another",
    empty="has no model yet: ollama pull llama3.2",
    patient=False,
)


def _local(name: str, what: str, port: int, key_env: str, run: str, **more: Any) -> Provider:
    """A server on a port of this machine. what: its maker's name. run: the command that starts it with a model."""
    return Provider(
        name=name,
        summary=f"`{name}/<model>`: a model that {what} serves on port {port} of this machine, without price.",
        url=f"http://127.0.0.1:{port}/v1",
        kind="local",
        key_env=key_env,
        start=f"start {what} there ({run}), or say with --base-url where it is",
        **{"empty": f"has no model: {run}", **more},
    )


LMSTUDIO = _local(
    *("lmstudio", "LM Studio", 1234, "LM_API_TOKEN", "lms server start"),
    bring="; lms get brings another",
    empty="has no model yet: lms get",
    patient=False,
)
LLAMACPP = _local("llamacpp", "llama.cpp", 8080, "LLAMA_API_KEY", "llama-server -m FILE.gguf", patient=False)
VLLM = _local("vllm", "vLLM", 8000, "VLLM_API_KEY", "vllm serve MODEL")
SGLANG = _local("sglang", "SGLang", 30000, "SGLANG_API_KEY", "sglang serve --model-path MODEL")
"""vLLM and SGLang take minutes to start, so they are waited for."""
ANTHROPIC = Provider(
    name="anthropic",
    summary="`anthropic/<model>`: a Claude model, through Anthropic's OpenAI-compatible interface, with "
    "ANTHROPIC_API_KEY.",
    url="https://api.anthropic.com/v1",
    kind="hosted",
    key_env="ANTHROPIC_API_KEY",
    start="is this machine on the internet?",
    dialect=Dialect(
        without=frozenset({"n", "seed"}), lacks=frozenset({"logprobs", "grammar"}), refuses_blank_stops=True
    ),
    # The list of models belongs to its own interface, which takes the key in another header.
    listing_headers=(("x-api-key", "{key}"), ("anthropic-version", "2023-06-01")),
)
"""Source: platform.claude.com, "OpenAI SDK compatibility", as of November 2026.

`n` must be 1; `seed`, `logprobs` and `response_format` are ignored without an error; a stop string of white space alone
does not work. Learnt from refusals: models since Opus 4.7 take no temperature, others not both temperature and top_p.
"""
GEMINI = Provider(
    name="gemini",
    summary="`gemini/<model>`: a Gemini model, through Google's OpenAI-compatible interface, with GEMINI_API_KEY.",
    url="https://generativelanguage.googleapis.com/v1beta/openai",
    kind="hosted",
    key_env="GEMINI_API_KEY",
    start="is this machine on the internet?",
    dialect=Dialect(without=frozenset({"seed"}), samples=8, stops=5, thinks_apart=True),
    listing_prefix="models/",
)
"""Sources: ai.google.dev, "OpenAI compatibility" and `GenerationConfig`, as of November 2026, and reports of users.

`seed` is refused as an unknown name (ChatterUI #227). The API takes 1 to 8 candidates and up to 5 stop strings. Learnt
from refusals: models that give one candidate or no log-probabilities. `total_tokens` minus the two other counts is what
the model thought, which is paid (any-llm #1290).
"""

"""Providers that are servers with an OpenAI-compatible interface: five on this machine, two on the internet.

The models of a server on this machine cost nothing and need no key; `--base-url` says where it is, if not on its usual
port. A hosted provider has a key of its own, which goes to nobody else. The interfaces lack some of what OpenAI's has:
see the limits of each.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from reground.core.errors import ConfigurationError
from reground.core.http import check_address
from reground.models._openai_protocol import Dialect
from reground.models.openai import Provider


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
LMSTUDIO = Provider(
    name="lmstudio",
    summary="`lmstudio/<model>`: a model that LM Studio serves on port 1234 of this machine, without price.",
    url="http://127.0.0.1:1234/v1",
    kind="local",
    key_env="LM_API_TOKEN",
    start="start LM Studio's server there (lms server start), or say with --base-url where it is",
    bring="; lms get brings another",
    empty="has no model yet: lms get",
    patient=False,
)
LLAMACPP = Provider(
    name="llamacpp",
    summary="`llamacpp/<model>`: a model that llama.cpp's server has on port 8080 of this machine, without price.",
    url="http://127.0.0.1:8080/v1",
    kind="local",
    key_env="LLAMA_API_KEY",
    start="start it there (llama-server -m FILE.gguf), or say with --base-url where it is",
    empty="has no model: llama-server -m FILE.gguf",
    patient=False,
)
VLLM = Provider(  # it takes minutes to start, so it is patient
    name="vllm",
    summary="`vllm/<model>`: a model that vLLM serves on port 8000 of this machine, without price.",
    url="http://127.0.0.1:8000/v1",
    kind="local",
    key_env="VLLM_API_KEY",
    start="start it there (vllm serve MODEL), or say with --base-url where it is",
    empty="has no model: vllm serve MODEL",
)
SGLANG = Provider(  # patient too
    name="sglang",
    summary="`sglang/<model>`: a model that SGLang serves on port 30000 of this machine, without price.",
    url="http://127.0.0.1:30000/v1",
    kind="local",
    key_env="SGLANG_API_KEY",
    start="start it there (sglang serve --model-path MODEL), or say with --base-url where it is",
    empty="has no model: sglang serve --model-path MODEL",
)
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

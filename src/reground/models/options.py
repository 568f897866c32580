"""The options of models, for all providers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

from reground.core.errors import ConfigurationError
from reground.core.files import expanded, files_fingerprint
from reground.core.http import check_address
from reground.core.language import Message, Reply

Dtype = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens; `cached` is for prompt tokens that the server reused."""

    prompt: float
    cached: float
    completion: float

    def __post_init__(self) -> None:
        if not all(0 <= each < float("inf") for each in (self.prompt, self.cached, self.completion)):
            raise ConfigurationError("a price is in USD per million tokens and cannot be negative")

    @classmethod
    def parse(cls, text: str) -> Price:
        """Read "PROMPT,COMPLETION" or "PROMPT,CACHED,COMPLETION"; two numbers charge cached tokens in full."""
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        match numbers:
            case [prompt, completion]:
                return cls(prompt, prompt, completion)
            case [prompt, cached, completion]:
                return cls(prompt, cached, completion)
        raise ConfigurationError(
            f"a price is PROMPT,COMPLETION or PROMPT,CACHED,COMPLETION in USD per million tokens, not {text!r}"
        )

    def usd(self, prompt: int, cached: int, completion: int) -> float:
        """What a call costs in US dollars; `cached` is the part of `prompt` that the server reused."""
        return ((prompt - cached) * self.prompt + cached * self.cached + completion * self.completion) / 1e6


def priced(replies: Sequence[Reply], price: Price | None) -> list[Reply]:
    """The replies of one call, with its cost in the usage of the first."""
    first, *others = replies
    if price is not None:
        usd = price.usd(first.usage.prompt, first.usage.cached, first.usage.completion)
        first = first.model_copy(update={"usage": first.usage.model_copy(update={"usd": usd})})
    return [first, *others]


def without_system(messages: Sequence[Message]) -> list[Message]:
    """The conversation for a model that knows no system messages: a first turn of the user begins with them."""
    instructions = [message.content for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    first = others.pop(0).content if others and others[0].role == "user" else ""
    return [Message(role="user", content="\n\n".join(filter(None, (*instructions, first)))), *others]


def alternating(messages: Sequence[Message]) -> list[Message]:
    """The conversation for a model whose roles must alternate: neighbours of one role become one turn."""
    turns = [(role, "\n\n".join(m.content for m in each)) for role, each in groupby(messages, lambda m: m.role)]
    return [Message(role=role, content=content) for role, content in turns]


@dataclass(frozen=True)
class ModelOptions:
    """Settings that adapters and wrappers share; each reads those that concern it."""

    base_url: str | None = None
    """Where the OpenAI-compatible server is; else OPENAI_BASE_URL, else the provider's own address."""

    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key. The key itself is never a setting."""

    extra_body: str | Mapping[str, Any] | None = field(default=None, metadata={"metavar": "JSON"})
    """Fields that every request to a server has too, as a JSON object: '{"enable_thinking": false}'."""

    price: Price | None = field(default=None, metadata={"metavar": "PROMPT,COMPLETION"})
    """USD per million prompt,completion tokens, e.g. 0.15,0.60; without it the cost in USD is unknown."""

    connections: int = field(default=1024, metadata={"file": True, "found": True})
    """Calls in flight at once."""

    requests_per_minute: float | None = field(default=None, metadata={"file": True, "found": True})
    """The provider's limit on requests, kept on this side."""

    tokens_per_minute: float | None = field(default=None, metadata={"file": True, "found": True})
    """The provider's limit on tokens, kept on this side."""

    attempts: int = field(default=6, metadata={"file": True, "found": True})
    """How often one call is tried, the first time included."""

    timeout: float = field(default=600.0, metadata={"file": True, "found": True})
    """Seconds that one attempt may take."""

    context: int | None = field(default=None, metadata={"file": True})
    """Context a slot, in tokens (gguf); else what the model was trained with."""

    slots: int | None = field(default=None, metadata={"file": True})
    """Calls that are decoded together (gguf)."""

    threads: int | None = field(default=None, metadata={"found": True})
    """Processor threads (gguf); else all cores read prompts and all but one decode."""

    lookup: bool = field(default=False, metadata={"file": True, "found": True})
    """Guess the next words from the text so far and check several at once (gguf): the same text sooner where a reply
    repeats its prompt, but no log-probabilities."""

    adapter: Path | None = None
    """A LoRA adapter: a folder or file of peft (hf), or a GGUF file (gguf)."""

    dtype: Dtype = field(default="auto", metadata={"file": True})
    """What the model computes in (hf); auto is bfloat16 on a GPU, else float32. A processor with AVX512-BF16 or AMX
    gains from bfloat16 too."""

    cache: Path | None = None
    """A file (SQLite) that answers repeated temperature-0 calls across runs."""

    def __post_init__(self) -> None:
        if not isinstance(self.api_key_env, str) or not self.api_key_env or {"=", "\0"} & set(self.api_key_env):
            raise ConfigurationError(f"api_key_env must name an environment variable, not {self.api_key_env!r}")
        for name in ("adapter", "cache"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Path | str):
                raise ConfigurationError(f"{name} must be a path, not {value!r}")
        if self.dtype not in get_args(Dtype):
            raise ConfigurationError(f"dtype must be one of {', '.join(get_args(Dtype))}, not {self.dtype!r}")
        if self.base_url is not None:
            if not str(self.base_url).startswith(("http://", "https://")):
                raise ConfigurationError("base_url: a base URL starts with http:// or https://")
            check_address(self.base_url)
        object.__setattr__(self, "extra_body", _extra_body(self.extra_body))
        if self.price is not None and not isinstance(self.price, Price):
            raise ConfigurationError(
                f"price is Price.parse('PROMPT,COMPLETION') in USD per million tokens, not {self.price!r}"
            )
        for name, what in _NUMBERS.items():
            number: Any = getattr(self, name)
            kind = int if what == _WHOLE else int | float
            is_valid = isinstance(number, kind) and not isinstance(number, bool) and _LEAST <= number < _MOST
            if not is_valid and not (number is None and getattr(ModelOptions, name) is None):
                raise ConfigurationError(f"{name} must be {what} above zero, not {number!r}")


def _extra_body(value: str | Mapping[str, Any] | None) -> str | None:
    """The fields as JSON in one order. Raises ConfigurationError for what is no object, or would change the call."""
    if value is None:
        return None
    try:
        fields = json.loads(value) if isinstance(value, str) else value
        text = json.dumps({**fields}, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        raise ConfigurationError(f"extra_body must be a JSON object, not {value!r:.200}") from None
    if ours := sorted(fields.keys() & {"model", "messages", "n", "stream", "stream_options"}):
        raise ConfigurationError(f"extra_body cannot have {', '.join(ours)}: these are reground's own")
    return text


_WHOLE, _FINITE = "a whole number", "a finite number"
_NUMBERS = dict.fromkeys(("connections", "attempts", "context", "slots", "threads"), _WHOLE)
_NUMBERS |= dict.fromkeys(("timeout", "requests_per_minute", "tokens_per_minute"), _FINITE)
_LEAST, _MOST = 1e-6, 2**53
"""The range of a meaningful number of calls, tokens or seconds."""


@dataclass(frozen=True)
class Listing:
    """One line of `reground models`: a name, whether it can be used here, and why or why not.

    use: the words of a command that choose it; None if it cannot be used. server: the address of the server that
    answered; None for a model without one.
    """

    name: str
    usable: bool
    why: str
    use: str | None = None
    server: str | None = None


def weights_of(name: str) -> str | None:
    """The fingerprint of a model's file or folder; None for an alias or a model on a server."""
    provider, _, place = name.partition("/")
    if provider not in {"gguf", "hf"} or not place:
        return None
    return files_fingerprint(expanded(place))


def local_identity(name: str, options: ModelOptions) -> str:
    """Tells a model in this process from another of the same name: its weights, its adapter, and how it computes."""
    adapter = None if options.adapter is None else files_fingerprint(options.adapter)
    return f"{name} {weights_of(name)} {options.adapter} {adapter} {options.context} {options.dtype}"

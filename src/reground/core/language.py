"""Values that can be stored, and language models: what goes in and comes out, and the port.

A model, a retriever, a sandbox or an exception may produce half a surrogate pair, a number that is not finite, or
deeply nested data. `Text`, `Number` and `Json` repair such values when they are created, so that everything in a run
can be written and a replay sees the same values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from operator import not_
from typing import Annotated, Any, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from reground.core.errors import ConfigurationError
from reground.core.user_code import awaited, origin

DEEPEST = 64
"""Maximum levels of nested data. JSON readers stop at about 200, and a record adds some of its own."""
_LARGEST_BITS = 10_000


def storable_text(text: str) -> str:
    """The text with lone surrogates as U+FFFD, and pairs of surrogates as the character that they encode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def finite(number: float) -> float:
    """The number, if JSON can hold it; infinities become the largest numbers, NaN the lowest."""
    return number if math.isfinite(number) else 1e308 if number > 0 else -1e308


def storable(value: Any, depth: int = DEEPEST) -> Any:
    """JSON data with its texts and numbers repaired, cut below `depth` levels of nesting."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, int) and value.bit_length() > _LARGEST_BITS:
        return f"(an integer of {value.bit_length()} bits)"
    if not isinstance(value, dict | list | tuple):
        return value
    if depth == 0:
        return "(nested too deep to be kept)"
    if isinstance(value, dict):
        return {storable(key, 0): storable(each, depth - 1) for key, each in value.items()}
    return [storable(each, depth - 1) for each in value]


Text = Annotated[str, AfterValidator(storable_text)]
"""Text that can be written as UTF-8."""
Number = Annotated[float, AfterValidator(finite)]
"""A number that JSON can hold."""
Json = Annotated[JsonValue, BeforeValidator(storable)]
"""Data that can be written as JSON and read back."""


class Value(BaseModel):
    """Base of everything that is serialised: frozen, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def first_fault(error: ValidationError) -> str:
    """The first thing that is wrong with a value, behind the place where it stands."""
    first = error.errors()[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))


LATER = Field(exclude_if=not_)
"""Marks a field that came after some values were stored: it is serialised only when set, so earlier journals replay."""


class Message(Value):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: Text


LEAST_REPLY = 16
"""Minimum tokens of a reply. A call whose reply a budget would cut shorter is not made, unless it asks for less."""

REPLY_TOKENS = 1024
"""Maximum tokens of a reply that holds a text or an answer: the same in all methods, so that comparisons are fair."""


class Grammar(Value):
    """The form of a reply, twice: a server decodes by the one that it knows.

    gbnf: a grammar in llama.cpp's notation, which vLLM reads too; empty where the form is JSON for every server.
    json_schema: a schema of the same content, as JSON text, for servers that know schemas only; their reply is JSON.
    """

    gbnf: str
    json_schema: str


class Sampling(Value):
    """How to decode. Temperature 0 means greedy; `logprobs` asks for one per generated token.

    grammar: the form that decoding keeps to.
    """

    n: int = Field(default=1, ge=1)
    temperature: float = Field(default=0.0, ge=0.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    max_tokens: int = Field(default=REPLY_TOKENS, ge=1)
    stop: tuple[str, ...] = ()
    seed: int | None = None
    logprobs: bool = False
    grammar: Annotated[Grammar | None, LATER] = None


class TokenLogprob(Value):
    """A generated token's text and the natural logarithm of its probability."""

    token: str
    logprob: float


IMPOSSIBLE = -9999.0
"""The log-probability that servers give a token of probability 0. It also replaces NaN."""


def _storable_tokens(tokens: tuple[TokenLogprob, ...] | None) -> tuple[TokenLogprob, ...] | None:
    """A reply's tokens in a form that can be stored. They are checked together, because a reply has hundreds."""
    if not tokens or (
        math.isfinite(sum([each.logprob for each in tokens])) and "".join([each.token for each in tokens]).isascii()
    ):
        return tokens
    return tuple(
        TokenLogprob(
            token=storable_text(each.token), logprob=each.logprob if math.isfinite(each.logprob) else IMPOSSIBLE
        )
        for each in tokens
    )


class Usage(Value):
    """The cost of calls in tokens and US dollars.

    cached: the part of `prompt` that a server reused. usd: None if a price is unknown.
    """

    calls: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    usd: float | None = 0.0

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together, cached ones included."""
        return self.prompt + self.completion

    def __add__(self, other: Usage) -> Usage:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Usage(
            calls=self.calls + other.calls,
            prompt=self.prompt + other.prompt,
            cached=self.cached + other.cached,
            completion=self.completion + other.completion,
            usd=usd,
        )


class Reply(Value):
    """One sampled completion.

    usage: the whole call's on its first reply and empty on the others, so the sum over replies is the cost.
    reasoning: what a reasoning model wrote before `text`; None if it marked no such part. room: tokens that its limit
    had beyond the sampling's, for the thought.
    """

    text: Text
    reasoning: Text | None = None
    room: Annotated[int, LATER] = 0
    finish_reason: Text = "stop"
    token_logprobs: Annotated[tuple[TokenLogprob, ...] | None, AfterValidator(_storable_tokens)] = None
    usage: Usage = Usage()

    @property
    def mean_logprob(self) -> float | None:
        """The mean natural logarithm of the tokens' probabilities (perplexity is exp of its negative), or None."""
        tokens = self.token_logprobs
        return sum(token.logprob for token in tokens) / len(tokens) if tokens else None

    def upto(self, end: int) -> Reply:
        """The first `end` characters and the tokens that spell them."""
        return self.only([(0, end)])

    def only(self, ranges: Sequence[tuple[int, int]]) -> Reply:
        """These half-open ranges of the characters, in order, and the tokens that spell them.

        A token across a border keeps its part inside, with its whole log-probability. There are no log-probabilities
        if the tokens do not spell the text; a server may give none, or numbers.
        """
        text, tokens = "".join(self.text[start:end] for start, end in ranges), None
        if self.token_logprobs is not None:
            spelled = "".join(token.token for token in self.token_logprobs)
            lead = spelled.find(self.text[: max((end for _, end in ranges), default=0)])
            if lead >= 0 and not spelled[:lead].strip():  # a server may take white space off the beginning of the text
                tokens = tokens_within(self.token_logprobs, [(start + lead, end + lead) for start, end in ranges])
        return self.model_copy(update={"text": text, "token_logprobs": tokens})


def tokens_within(tokens: Sequence[TokenLogprob], ranges: Sequence[tuple[int, int]]) -> tuple[TokenLogprob, ...]:
    """The tokens that spell these half-open ranges of the text that all spell. One across a border is cut at it."""
    inside, at = [], 0
    for token in tokens:
        text = "".join(token.token[max(0, start - at) : max(0, end - at)] for start, end in ranges)
        at += len(token.token)
        if text:
            inside.append(token.model_copy(update={"token": text}))
    return tuple(inside)


Hearing = Callable[[Reply | tuple[int, int]], None]
hearing: ContextVar[Hearing | None] = ContextVar("hearing", default=None)
"""Who listens to the call in hand, from any thread; None where nobody does. A model may tell its reply as far as it is
written, from the beginning; before that, how many tokens of the prompt it has read, and of how many."""


@runtime_checkable
class LanguageModel(Protocol):
    """Anything that continues a conversation.

    Raises `ModelError`; `TransientModelError` only where the same call may succeed later. It may have a `price`, whose
    `usd` gives the US dollars of prompt, cached and written tokens, and `samples`: the most replies that one request
    gives. It may tell `hearing` what it does meanwhile.
    """

    @property
    def name(self) -> str:
        """`provider/model`, as the user wrote it."""

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return `sampling.n` replies."""


async def replies_of(model: LanguageModel, messages: Sequence[Message], sampling: Sampling) -> Sequence[Reply]:
    """What a model replies. Raises ConfigurationError where that is anything else than replies, or none."""
    replies = await awaited(model.generate, messages, sampling)
    if not isinstance(replies, list | tuple) or not replies or not all(isinstance(each, Reply) for each in replies):
        what = f"{replies!r:.80}, not a list with a reground.core.language.Reply for each of sampling.n"
        raise ConfigurationError(f"{origin(model)}: generate gave {what}")
    return replies


Prompt: TypeAlias = str | Sequence[Message]


def as_messages(prompt: Prompt) -> tuple[Message, ...]:
    """A plain string is one user turn."""
    if isinstance(prompt, str):
        return (Message(role="user", content=prompt),)
    return tuple(prompt)


def estimate_tokens(messages: tuple[Message, ...]) -> int:
    """Estimate a prompt's length without a tokenizer: one token per 3.5 UTF-8 bytes, and 4 per turn.

    Large vocabularies reach 4.5 bytes per token on plain English; 2.7 was measured for a small one on passages full of
    names. The meter replaces estimates by real costs and learns from the difference, so errors do not add up.
    """
    return sum(4 + 2 * len(message.content.encode()) // 7 for message in messages)


def tokens_of(prompt: Prompt) -> int:
    """A prompt's estimated length in tokens."""
    return estimate_tokens(as_messages(prompt))

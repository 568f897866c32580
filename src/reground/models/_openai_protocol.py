"""The OpenAI chat protocol without the network: requests, replies, and what refusals mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from reground.core.errors import (
    AuthenticationError,
    CapabilityError,
    ContextLengthExceeded,
    ModelError,
    TransientModelError,
)
from reground.core.http import LEAST_LIMIT, MOST_LIMIT, redacted, retry_after
from reground.core.language import Grammar, Message, Reply, Sampling, TokenLogprob, Usage, estimate_tokens
from reground.core.reasoning import separate
from reground.models.options import Price

PAGES = {"props": "grammar", "version": "structured_outputs"}
"""Pages next to `/v1` that tell what a server is, llama.cpp or vLLM, and its parameter. Others get RESPONSE_FORMAT."""
RESPONSE_FORMAT = "response_format"
"""The parameter of OpenAI, Ollama and most gateways, which read schemas only."""

_ABOUT = re.compile(r"grammar|json.?schema|structured.?output|response.?(?:format|schema)", re.IGNORECASE)
TOKEN_BYTES = 64
SCORED_TOKEN_BYTES = 4096
"""A token with its log-probability takes about 150 bytes; some servers add twenty alternatives."""
_OPTIONAL = ("temperature", "top_p", "seed", "stop")
_UNSUPPORTED = re.compile(
    r"unsupported|not? support|unrecogni[sz]ed|unknown|extra (?:input|field)|unexpected|not (?:permitted|allowed)"
    r"|deprecated|only the default",
    re.IGNORECASE,
)
_ONE_SAMPLE = re.compile(
    r"only (?:one|1|a single) (?:completion|choice|sample|candidate)|multiple candidates|\bcandidateCount\b"
    r"|\bn\b\W{0,3}(?:must|should|can only) be (?:1|one)\b",
    re.IGNORECASE,
)
_NOT_BOTH = re.compile(r"temperature.{1,9}top_p.{1,9}cannot both", re.IGNORECASE)
Wish = Literal["logprobs", "grammar"]


@dataclass(frozen=True)
class Limits:
    """What is known before the first call. What is not known is learnt from the server's refusals.

    without: parameters that are not sent, because they are refused or ignored. lacks: what cannot be asked for at all,
    because the server would ignore it silently. samples: the most replies of one request. stops: the most stop strings
    of one request. refuses_blank_stops: a stop string of white space alone is refused.
    thinks_apart: `completion_tokens` leaves out the tokens of thoughts, which `total_tokens` has.
    """

    without: frozenset[str] = frozenset()
    lacks: frozenset[Wish] = frozenset()
    samples: int | None = None
    stops: int | None = None
    refuses_blank_stops: bool = False
    thinks_apart: bool = False


NONE = Limits()


@dataclass(frozen=True)
class Dialect:
    """What one server understands: its names for the length limit and a grammar, and the parameters that it refuses.

    limits: what its provider's documentation says. without: also what the server refused.
    """

    length: str = "max_tokens"
    grammar: str = RESPONSE_FORMAT
    without: frozenset[str] = frozenset()
    limits: Limits = NONE

    def body(self, model: str, messages: Sequence[Message], sampling: Sampling) -> bytes:
        """The JSON of a chat completion request."""
        wanted: dict[str, Any] = {
            "model": model,
            "messages": [{"role": message.role, "content": message.content} for message in self._turns(messages)],
            self.length: sampling.max_tokens,
            "temperature": sampling.temperature,
        }
        if sampling.n > 1:
            wanted["n"] = min(sampling.n, self.limits.samples or sampling.n)
        if sampling.top_p < 1:
            wanted["top_p"] = sampling.top_p
        if stop := self._stops(sampling.stop):
            wanted["stop"] = stop
        if sampling.seed is not None:
            wanted["seed"] = sampling.seed
        if sampling.logprobs:
            wanted["logprobs"] = True
        if sampling.grammar is not None:
            wanted |= parameter(self.grammar, sampling.grammar)
        for name in self.without:
            wanted.pop(name, None)
        return to_json(wanted)

    def _turns(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages that are sent: without system messages, the first turn begins with what these say."""
        if "system" not in self.without:
            return messages
        instructions = [message.content for message in messages if message.role == "system"]
        others = [message for message in messages if message.role != "system"] or [Message(role="user", content="")]
        opening = "\n\n".join(filter(None, (*instructions, others[0].content)))
        return (others[0].model_copy(update={"content": opening}), *others[1:])

    def _stops(self, stop: Sequence[str]) -> Sequence[str]:
        """The stop strings that are sent."""
        sent = [each for each in stop if each.strip()] if self.limits.refuses_blank_stops else stop
        return sent[: self.limits.stops]

    def cuts_here(self, stop: Sequence[str]) -> bool:
        """Whether replies are to be cut on this side, because the server does not get all of these stop strings."""
        return bool(stop) and ("stop" in self.without or len(self._stops(stop)) < len(stop))

    def learn(self, complaint: Complaint) -> Dialect | None:
        """The dialect that avoids this error; None if the error is about something else."""
        if "n" not in self.without and (complaint.param == "n" or _ONE_SAMPLE.search(complaint.message)):
            return replace(self, without=self.without | {"n"})
        if "system" not in self.without and is_about_system(complaint):
            return replace(self, without=self.without | {"system"})
        if "top_p" not in self.without and _NOT_BOTH.search(complaint.message):
            return replace(self, without=self.without | {"top_p"})
        if not (_UNSUPPORTED.search(complaint.message) or complaint.code.startswith("unsupported")):
            return None
        if self.length == "max_tokens" and complaint.names("max_tokens"):
            return replace(self, length="max_completion_tokens")
        for name in _OPTIONAL:
            if name not in self.without and complaint.names(name):
                return replace(self, without=self.without | {name})
        return None


def most_bytes(sampling: Sampling) -> int:
    """Maximum bytes of a reply to this request: far more than its tokens need, but bounded."""
    each = SCORED_TOKEN_BYTES if sampling.logprobs else TOKEN_BYTES
    return min(MOST_LIMIT, LEAST_LIMIT + sampling.n * sampling.max_tokens * each)


def parameter(name: str, grammar: Grammar) -> dict[str, Any]:
    """The part of a request that holds the reply to the grammar. name: one of those of `PAGES`, or RESPONSE_FORMAT."""
    if name == "grammar":
        return {"grammar": grammar.gbnf}
    if name == "structured_outputs":
        return {"structured_outputs": {"grammar": grammar.gbnf}}
    schema = {"name": "reply", "strict": True, "schema": from_json(grammar.json_schema)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def is_about_grammar(message: str) -> bool:
    """Whether a server's refusal is about the grammar."""
    return _ABOUT.search(message) is not None


TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
NO_QUOTA = "insufficient_quota"
"""The code of a complaint about an account without money or quota, whatever the provider calls it."""
BAD_KEY = "invalid_api_key"
"""The code of a complaint about the key, where the provider's status does not say so."""
_MOST_LETTERS = 4000
_CONTEXT = re.compile(
    r"context.{0,12}(?:length|window|size|limit)|maximum (?:context|prompt|input|model length)"
    r"|too many (?:input )?tokens|`inputs` tokens \+ `max_new_tokens` must be"
    r"|(?:prompt|input).{0,24} too (?:long|large)|input token count.{0,24}exceeds"
    r"|\bmax\w{0,20}tokens\b.{0,60}(?:too large|range|maximum)",
    re.IGNORECASE,
)
_SYSTEM = re.compile(
    r"system (?:role|message|prompt|instruction)s? (?:is |are )?not supported|developer instruction is not enabled"
    r"|not support (?:the |a )?['\"]?system['\"]? (?:role|message|prompt|instruction|with this model)",
    re.IGNORECASE,
)
_MONEY = frozenset({NO_QUOTA, "billing_error", "enforced_spend_limit_reached", "credit_balance_exhausted"})
_NO_MONEY = re.compile(r"credit balance is too low|\blimit: 0\b", re.IGNORECASE)
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


@dataclass(frozen=True)
class Complaint:
    """An error reply. retry_after: seconds."""

    status: int
    message: str
    code: str = ""
    param: str = ""
    retry_after: float | None = None

    def names(self, parameter: str) -> bool:
        """Whether it is about this request parameter."""
        if self.param:
            return self.param == parameter
        return re.search(rf"\b{parameter}\b", self.message, re.IGNORECASE) is not None


def read_complaint(status: int, headers: Mapping[str, str], body: bytes) -> Complaint:
    """Read an error reply. Its message may hold a key: `Endpoint.redact` removes it and shortens the message."""
    text = body[:_MOST_LETTERS].decode("utf-8", "replace").strip()
    code = param = ""
    wait = retry_after(headers)
    try:
        data = from_json(body)
        if isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict):
            data = data[0]  # Gemini's errors are lists
        error = data.get("error", data) if isinstance(data, dict) else data
        if isinstance(error, dict):
            # OpenAI says "message", FastAPI says "detail", with the parameter's path in "loc".
            text = str(error.get("message") or error.get("detail") or text)
            code, param = str(error.get("code") or error.get("type") or ""), str(error.get("param") or "")
            code = _known(error, code, text)
            wait = _delay(error) if wait is None else wait
        elif error:
            text = str(error)
    except ValueError:
        if "<html" in text.lower():
            text = ""
    return Complaint(status, " ".join(text[:_MOST_LETTERS].split()), code, param, wait)


def _known(error: Mapping[str, Any], code: str, text: str) -> str:
    """The code, replaced where the provider says in its own words that the account or the key is at fault."""
    if error.get("type") in _MONEY or code in _MONEY or _NO_MONEY.search(text):
        return NO_QUOTA
    for detail in _details(error):
        if detail.get("reason") == "API_KEY_INVALID":
            return BAD_KEY
        violations = detail.get("violations")
        if isinstance(violations, list) and any("PerDay" in str(each) for each in violations[:100]):
            return NO_QUOTA  # it does not come back before midnight, whatever RetryInfo says
    return code


def _delay(error: Mapping[str, Any]) -> float | None:
    """Seconds to wait from Google's `RetryInfo`, such as "26s"."""
    for detail in _details(error):
        found = _DELAY.fullmatch(str(detail.get("retryDelay", "")))
        if found is not None:
            return float(found[1])
    return None


def _details(error: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of an error as Google's services list them (google.rpc.Status)."""
    details = error.get("details")
    return [each for each in details[:100] if isinstance(each, dict)] if isinstance(details, list) else []


def is_about_system(complaint: Complaint) -> bool:
    """Whether the model takes no system message, in the words of the templates of models and of Google."""
    return complaint.status in (400, 422, 500) and _SYSTEM.search(complaint.message) is not None


def is_about_context(complaint: Complaint) -> bool:
    """Whether prompt and completion together were too long."""
    return (
        complaint.status == 413
        or "context_length" in complaint.code
        or "context_size" in complaint.code
        or _CONTEXT.search(complaint.message) is not None
    )


@dataclass(frozen=True)
class Endpoint:
    """A server as error messages describe it, never with its key."""

    url: str
    key_env: str
    key: str | None

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r}, key {'set' if self.key else 'not set'})"

    def redact(self, text: str) -> str:
        """A server's message, shortened and without anything that may be a key."""
        return redacted(text, self.key)

    def refusal(self, complaint: Complaint, sampling: Sampling) -> ModelError:
        """The error for a refused chat completion."""
        message = self.redact(complaint.message) or f"HTTP {complaint.status}"
        if complaint.code == NO_QUOTA or complaint.status == 402:
            return ModelError(f"the account behind {self.key_env} has no quota left at {self.url}: {message}")
        if complaint.status in TRANSIENT or complaint.status >= 500:
            why = f"{self.url} answered {complaint.status}: {message}"
            return TransientModelError(why, retry_after=complaint.retry_after)
        if sampling.logprobs and complaint.names("logprobs"):
            return CapabilityError(f"{self.url} gives no log-probabilities for this model: {message}")
        if sampling.grammar is not None and is_about_grammar(f"{complaint.param} {complaint.message}"):
            return CapabilityError(f"{self.url} cannot keep a reply to a grammar: {message}", lacks="grammar")
        if complaint.status == 401 or complaint.code == BAD_KEY:
            problem = f"refused the key in {self.key_env}" if self.key else f"needs a key: set {self.key_env}"
            return AuthenticationError(f"{self.url} {problem} ({complaint.status})")
        if complaint.status == 403:
            return AuthenticationError(
                f"{self.url} does not allow this with the key in {self.key_env} (403): {message}"
            )
        if is_about_context(complaint):
            return ContextLengthExceeded(f"the prompt does not fit the model at {self.url}: {message}")
        if 300 <= complaint.status < 400:
            return ModelError(
                f"{self.url} redirects elsewhere ({complaint.status}); give the final address as base URL"
            )
        return ModelError(f"{self.url} refused the request ({complaint.status}): {message}")


_NOTHING = Usage()
_MANY = 4096
FILTERED = "content_filter"
INTERRUPTED = frozenset({"error", "insufficient_system_resource", "abort"})
"""How a reply ends that the server broke off, in the words of OpenRouter and Mistral, DeepSeek, vLLM and SGLang."""
_FINISHES = {"stop": "stop", "max_tokens": "length", "model_length": "length", FILTERED: FILTERED} | dict.fromkeys(
    ("safety", "recitation", "blocklist", "prohibited_content", "spii"), FILTERED
)
"""Gemini may give the names of its own interface, and a filter's reason behind a colon; `model_length` is Mistral's."""


def read_replies(
    data: Any, messages: Sequence[Message], price: Price | None, *, thinks_apart: bool = False
) -> list[Reply]:
    """Replies from a completion, with its usage on the first. Raises ValueError if it is malformed.

    thinks_apart: as in `Limits`.
    """
    try:
        choices = data["choices"]
        if not choices:
            raise ValueError("no choices")
        ends = [_finish(choice.get("finish_reason")) for choice in choices]
        # A filter may leave no message at all.
        messages_back = [
            choice["message"] if end != FILTERED else choice.get("message") or {}
            for choice, end in zip(choices, ends, strict=True)
        ]
        parts = [(_text(message), _reasoning(message)) for message in messages_back]
        usage_data = _thoughts_too(data.get("usage"), apart=thinks_apart)
        texts = [text + (thought or "") for text, thought in parts]
        if len(choices) > 1 and "timings" in data:
            usage_data = _of_all(usage_data, choices, texts)
        usage = _usage(usage_data, messages, texts, price)
        replies: list[Reply] = []
        for choice, end, (text, thought) in zip(choices, ends, parts, strict=True):
            reply = Reply(
                text=text,
                reasoning=thought,
                finish_reason=end,
                token_logprobs=_logprobs(choice.get("logprobs")),
                usage=_NOTHING if replies else usage,
            )
            replies.append(separate(reply))
        return replies
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _finish(reason: Any) -> Any:
    """How a reply ended, by OpenAI's name. What is no text is left to validation."""
    if not isinstance(reason, str):
        return reason or "stop"
    return _FINISHES.get(reason.partition(":")[0].strip().lower(), reason or "stop")


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    if content is not None:
        raise ValueError(f"its content is {content!r:.40}, which is no text")
    return message.get("refusal") or ""


def _reasoning(message: dict[str, Any]) -> str | None:
    """The model's thought, if the server separates it. DeepSeek and llama.cpp use another name than vLLM."""
    thought = message.get("reasoning_content") or message.get("reasoning")
    return thought if isinstance(thought, str) else None


def _logprobs(data: dict[str, Any] | None) -> Any:
    if not data:
        return None
    if data.get("content") is not None:
        scored = data["content"]
        # Very many are checked one by one, because nothing else runs while one call checks them all.
        make: Callable[..., Any] = TokenLogprob if len(scored) > _MANY else dict
        return tuple(make(token=each["token"], logprob=each["logprob"]) for each in scored)
    if data.get("tokens") is not None:  # the form of the older completions interface
        pairs = zip(data["tokens"], data["token_logprobs"], strict=True)
        return tuple({"token": token, "logprob": logprob} for token, logprob in pairs)
    return None


def _thoughts_too(usage: dict[str, Any] | None, *, apart: bool) -> dict[str, Any] | None:
    """The usage with the tokens of thoughts among those of the completion. apart: whether they are known not to be.

    Otherwise the total tells: with OpenAI's servers thoughts are part of the completion, with xAI's they come on top.
    """
    if not usage or usage.get("total_tokens") is None or usage.get("prompt_tokens") is None:
        return usage
    rest, completion = usage["total_tokens"] - usage["prompt_tokens"], usage.get("completion_tokens") or 0
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    on_top = thought > 0 and rest == completion + thought
    return {**usage, "completion_tokens": max(completion, rest)} if apart or on_top else usage


def _of_all(usage: dict[str, Any] | None, choices: Sequence[dict[str, Any]], texts: Sequence[str]) -> Any:
    """llama.cpp's usage, which counts the first reply's tokens alone, with those of the others: counted where their
    log-probabilities are there, else estimated."""
    if not usage:
        return usage
    scored = [len((choice.get("logprobs") or {}).get("content") or ()) for choice in choices[1:]]
    rest = sum(exact or _estimated(text) for exact, text in zip(scored, texts[1:], strict=True))
    return {**usage, "completion_tokens": (usage.get("completion_tokens") or 0) + rest}


def _estimated(text: str) -> int:
    """A quarter of the bytes is close enough."""
    return len(text.encode()) // 4


def _usage(
    data: dict[str, Any] | None, messages: Sequence[Message], texts: Sequence[str], price: Price | None
) -> Usage:
    if data and data.get("prompt_tokens"):
        prompt, completion = data["prompt_tokens"], data.get("completion_tokens") or 0
        details = data.get("prompt_tokens_details")
        reused = (details.get("cached_tokens") if details else data.get("prompt_cache_hit_tokens")) or 0
        cached = min(reused, prompt)  # a price must not become negative
    else:
        # A budget must end even if a server does not count tokens, or tells 0.
        prompt, completion, cached = estimate_tokens(tuple(messages)), sum(map(_estimated, texts)), 0
    usd = None if price is None else price.usd(prompt, cached, completion)
    return Usage(calls=1, prompt=prompt, cached=cached, completion=completion, usd=usd)


def cut_at_stop(replies: Sequence[Reply], stop: Sequence[str]) -> list[Reply]:
    """Cut each reply and its log-probabilities at the first stop string, as a server that supports them does."""
    return [_ended(reply, stop) for reply in replies]


def _ended(reply: Reply, stop: Sequence[str]) -> Reply:
    ends = [at for at in (reply.text.find(string) for string in stop) if at >= 0]
    return reply.upto(min(ends)).model_copy(update={"finish_reason": "stop"}) if ends else reply

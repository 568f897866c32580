"""The OpenAI chat protocol without the network: requests, replies, and what refusals mean."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from reground.core.bodies import LEAST_LIMIT, MOST_LIMIT
from reground.core.errors import (
    AuthenticationError,
    CapabilityError,
    ContextLengthExceeded,
    ModelError,
    TransientModelError,
)
from reground.core.language import Message, Reply, Sampling, TokenLogprob, Usage, estimate_tokens
from reground.core.reasoning import separate
from reground.models._grammars import RESPONSE_FORMAT, is_about_grammar, parameter
from reground.models.options import Price

TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
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
    r"only (?:one|1|a single) (?:completion|choice|sample)|\bn\b\W{0,3}(?:must|should|can only) be (?:1|one)\b", re.I
)
_CONTEXT = re.compile(
    r"context.{0,12}(?:length|window|size)|maximum (?:context|prompt|input)|too many (?:input )?tokens"
    r"|(?:prompt|input).{0,24} too (?:long|large)",
    re.IGNORECASE,
)
_SECRET = re.compile(r"\b(?:sk|rk|pk|key|gsk|hf|Bearer)[-_ ][\w*.+/=-]{6,}", re.IGNORECASE)


def most_bytes(sampling: Sampling) -> int:
    """Maximum bytes of a reply to this request: far more than its tokens need, but bounded."""
    each = SCORED_TOKEN_BYTES if sampling.logprobs else TOKEN_BYTES
    return min(MOST_LIMIT, LEAST_LIMIT + sampling.n * sampling.max_tokens * each)


@dataclass(frozen=True)
class Dialect:
    """What one server understands: its names for the length limit and a grammar, and the parameters that it refuses."""

    length: str = "max_tokens"
    grammar: str = RESPONSE_FORMAT
    without: frozenset[str] = frozenset()

    def body(self, model: str, messages: Sequence[Message], sampling: Sampling) -> bytes:
        """The JSON of a chat completion request."""
        wanted: dict[str, Any] = {
            "model": model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            self.length: sampling.max_tokens,
            "temperature": sampling.temperature,
        }
        if sampling.n > 1:
            wanted["n"] = sampling.n
        if sampling.top_p < 1:
            wanted["top_p"] = sampling.top_p
        if sampling.stop:
            wanted["stop"] = sampling.stop
        if sampling.seed is not None:
            wanted["seed"] = sampling.seed
        if sampling.logprobs:
            wanted["logprobs"] = True
        if sampling.grammar is not None:
            wanted |= parameter(self.grammar, sampling.grammar)
        for name in self.without:
            wanted.pop(name, None)
        return to_json(wanted)

    def learn(self, complaint: Complaint) -> Dialect | None:
        """The dialect that avoids this error; None if the error is about something else."""
        if "n" not in self.without and (complaint.param == "n" or _ONE_SAMPLE.search(complaint.message)):
            return replace(self, without=self.without | {"n"})
        if not (_UNSUPPORTED.search(complaint.message) or complaint.code.startswith("unsupported")):
            return None
        if self.length == "max_tokens" and complaint.names("max_tokens"):
            return replace(self, length="max_completion_tokens")
        for name in _OPTIONAL:
            if name not in self.without and complaint.names(name):
                return replace(self, without=self.without | {name})
        return None


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
        return self.param == parameter or (not self.param and re.search(rf"\b{parameter}\b", self.message) is not None)


def read_complaint(status: int, headers: Mapping[str, str], body: bytes) -> Complaint:
    """Read an error reply in any of the forms that servers use."""
    text = body[:4000].decode("utf-8", "replace").strip()
    code = param = ""
    try:
        data = from_json(body)
        error = data.get("error", data) if isinstance(data, dict) else data
        if isinstance(error, dict):
            # OpenAI says "message", FastAPI says "detail", with the parameter's path in "loc".
            text = str(error.get("message") or error.get("detail") or text)
            code, param = str(error.get("code") or error.get("type") or ""), str(error.get("param") or "")
            if error.get("type") == "insufficient_quota":
                code = "insufficient_quota"
        elif error:
            text = str(error)
    except ValueError:
        if "<html" in text.lower():
            text = ""
    return Complaint(status, " ".join(text.split())[:400], code, param, retry_after(headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from Retry-After (seconds or an HTTP date) or retry-after-ms."""
    exact = headers.get("retry-after-ms")
    given = headers.get("Retry-After")
    try:
        if exact is not None:
            return max(0.0, float(exact) / 1000)
        return None if given is None else max(0.0, float(given))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(str(given)).timestamp() - time.time())
    except ValueError:
        return None


@dataclass(frozen=True)
class Server:
    """A server as error messages describe it, never with its key."""

    url: str
    key_env: str
    key: str | None

    def __repr__(self) -> str:
        return f"Server({self.url!r}, key {'set' if self.key else 'not set'})"

    def redact(self, text: str) -> str:
        """Remove anything that may be a key from a server's message."""
        if self.key:
            text = text.replace(self.key, "[key]")
        return _SECRET.sub("[key]", text)

    def refusal(self, complaint: Complaint, sampling: Sampling) -> ModelError:
        """The error for a refused chat completion."""
        said = self.redact(complaint.message) or f"HTTP {complaint.status}"
        if complaint.code == "insufficient_quota":
            return ModelError(f"the account behind {self.key_env} has no quota left at {self.url}: {said}")
        if complaint.status in TRANSIENT or complaint.status >= 500:
            why = f"{self.url} answered {complaint.status}: {said}"
            return TransientModelError(why, retry_after=complaint.retry_after)
        if sampling.logprobs and complaint.names("logprobs"):
            return CapabilityError(f"{self.url} gives no log-probabilities for this model: {said}")
        if sampling.grammar is not None and is_about_grammar(f"{complaint.param} {complaint.message}"):
            return CapabilityError(f"{self.url} cannot keep a reply to a grammar: {said}", lacks="grammar")
        if complaint.status == 401:
            problem = f"refused the key in {self.key_env}" if self.key else f"needs a key: set {self.key_env}"
            return AuthenticationError(f"{self.url} {problem} (401)")
        if complaint.status == 403:
            return AuthenticationError(f"{self.url} does not allow this with the key in {self.key_env} (403): {said}")
        if is_about_context(complaint):
            return ContextLengthExceeded(f"the prompt does not fit the model at {self.url}: {said}")
        if 300 <= complaint.status < 400:
            return ModelError(
                f"{self.url} redirects elsewhere ({complaint.status}); give the final address as base URL"
            )
        return ModelError(f"{self.url} refused the request ({complaint.status}): {said}")


def is_about_context(complaint: Complaint) -> bool:
    """Whether prompt and completion together were too long."""
    return (
        complaint.status == 413
        or "context_length" in complaint.code
        or "context_size" in complaint.code
        or _CONTEXT.search(complaint.message) is not None
    )


def read_replies(data: Any, messages: Sequence[Message], price: Price | None) -> list[Reply]:
    """Replies from a completion, with its usage on the first. Raises ValueError if it is malformed."""
    try:
        choices = data["choices"]
        if not choices:
            raise ValueError("no choices")
        said = [(_text(choice["message"]), _reasoning(choice["message"])) for choice in choices]
        usage = _usage(data.get("usage"), messages, [text + (thought or "") for text, thought in said], price)
        replies: list[Reply] = []
        for choice, (text, thought) in zip(choices, said, strict=True):
            reply = Reply(
                text=text,
                reasoning=thought,
                finish_reason=choice.get("finish_reason") or "stop",
                token_logprobs=_logprobs(choice.get("logprobs")),
                usage=_NOTHING if replies else usage,
            )
            replies.append(separate(reply))
        return replies
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


_NOTHING = Usage()
_MANY = 4096


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


def _usage(
    data: dict[str, Any] | None, messages: Sequence[Message], texts: Sequence[str], price: Price | None
) -> Usage:
    if data and data.get("prompt_tokens") is not None:
        prompt, completion = data["prompt_tokens"], data.get("completion_tokens") or 0
        details = data.get("prompt_tokens_details")
        cached = (details.get("cached_tokens") if details else data.get("prompt_cache_hit_tokens")) or 0
    else:
        # A budget must end even if a server does not count tokens: a quarter of the bytes is close enough.
        prompt, completion, cached = estimate_tokens(tuple(messages)), sum(len(t.encode()) // 4 for t in texts), 0
    usd = None if price is None else price.usd(prompt, cached, completion)
    return Usage(calls=1, prompt=prompt, cached=cached, completion=completion, usd=usd)


def cut_at_stop(replies: Sequence[Reply], stop: Sequence[str]) -> list[Reply]:
    """Cut each reply and its log-probabilities at the first stop string, as a server that supports them does."""
    return [_ended(reply, stop) for reply in replies]


def _ended(reply: Reply, stop: Sequence[str]) -> Reply:
    ends = [at for at in (reply.text.find(string) for string in stop) if at >= 0]
    return reply.upto(min(ends)).model_copy(update={"finish_reason": "stop"}) if ends else reply

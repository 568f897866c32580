"""The OpenAI chat protocol without the network: requests, replies, and what refusals mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
from reground.models.options import Price, priced

_GRAMMAR = re.compile(r"grammar|json.?schema|structured.?output|response.?(?:format|schema)", re.IGNORECASE)
TOKEN_BYTES = 64
SCORED_TOKEN_BYTES = 4096
"""A token with its log-probability takes about 150 bytes; some servers add twenty alternatives."""
_OPTIONAL = ("max_tokens", "temperature", "top_p", "seed", "stop")
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
class Dialect:
    """What a server understands: first what its documentation says, then also what it refused.

    without: parameters that are not sent, because they are refused or ignored; "system" stands for system messages, and
    without "max_tokens" the length limit has its other name. lacks: what cannot be asked for at all, because the server
    would ignore it silently. samples: the most replies of one request. stops: the most stop strings of one request.
    refuses_blank_stops: a stop string of white space alone is refused. thinks_apart: `completion_tokens` leaves out the
    tokens of thoughts, which `total_tokens` has.
    """

    without: frozenset[str] = frozenset()
    lacks: frozenset[Wish] = frozenset()
    samples: int | None = None
    stops: int | None = None
    refuses_blank_stops: bool = False
    thinks_apart: bool = False

    def body(self, model: str, messages: Sequence[Message], sampling: Sampling, grammar: str) -> bytes:
        """The JSON of a chat completion request. grammar: how the server takes one, as in `grammar_parameter`."""
        wanted: dict[str, Any] = {
            "model": model,
            "messages": [{"role": message.role, "content": message.content} for message in self._turns(messages)],
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
        }
        if sampling.n > 1:
            wanted["n"] = min(sampling.n, self.samples or sampling.n)
        if sampling.top_p < 1:
            wanted["top_p"] = sampling.top_p
        if stop := self._stops(sampling.stop):
            wanted["stop"] = stop
        if sampling.seed is not None:
            wanted["seed"] = sampling.seed
        if sampling.logprobs:
            wanted["logprobs"] = True
        if sampling.grammar is not None:
            wanted |= grammar_parameter(grammar, sampling.grammar)
        if "max_tokens" in self.without:
            wanted["max_completion_tokens"] = sampling.max_tokens
        return to_json({name: value for name, value in wanted.items() if name not in self.without})

    def _turns(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages that are sent: without system messages, the first turn begins with what these say."""
        if "system" not in self.without:
            return messages
        instructions = [message.content for message in messages if message.role == "system"]
        others = [message for message in messages if message.role != "system"] or [Message(role="user", content="")]
        opening = "\n\n".join(filter(None, (*instructions, others[0].content)))
        return (others[0].model_copy(update={"content": opening}), *others[1:])

    def _stops(self, stop: Sequence[str]) -> Sequence[str]:
        sent = [each for each in stop if each.strip()] if self.refuses_blank_stops else stop
        return sent[: self.stops]

    def cuts_here(self, stop: Sequence[str]) -> bool:
        """Whether replies are to be cut on this side, because the server does not get all of these stop strings."""
        return bool(stop) and ("stop" in self.without or len(self._stops(stop)) < len(stop))

    def learn(self, complaint: Complaint) -> Dialect | None:
        """The dialect that avoids this error; None if the error is about something else."""
        if complaint.is_about_context or not (complaint.status in (400, 422) or complaint.is_about_system):
            return None
        is_refused = {
            "n": complaint.param == "n" or _ONE_SAMPLE.search(complaint.message),
            "system": complaint.is_about_system,
            "top_p": _NOT_BOTH.search(complaint.message),
        }
        if _UNSUPPORTED.search(complaint.message) or complaint.code.startswith("unsupported"):
            is_refused |= {name: is_refused.get(name) or complaint.names(name) for name in _OPTIONAL}
        refused = next((name for name, value in is_refused.items() if value and name not in self.without), None)
        return None if refused is None else replace(self, without=self.without | {refused})


def most_bytes(sampling: Sampling) -> int:
    """Maximum bytes of a reply to this request: far more than its tokens need, but bounded."""
    each = SCORED_TOKEN_BYTES if sampling.logprobs else TOKEN_BYTES
    return min(MOST_LIMIT, LEAST_LIMIT + sampling.n * sampling.max_tokens * each)


def grammar_parameter(name: str, grammar: Grammar) -> dict[str, Any]:
    """The part of a request that holds the reply to the grammar.

    name: "grammar" for llama.cpp, "structured_outputs" for vLLM. All others, such as OpenAI, Ollama and most gateways,
    read schemas only.
    """
    if name == "grammar":
        return {"grammar": grammar.gbnf}
    if name == "structured_outputs":
        return {"structured_outputs": {"grammar": grammar.gbnf}}
    schema = {"name": "reply", "strict": True, "schema": from_json(grammar.json_schema)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


TRANSIENT = frozenset({408, 409, 425, 429})
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

    @property
    def is_about_system(self) -> bool:
        """Whether the model takes no system message, in the words of the templates of models and of Google."""
        return self.status in (400, 422, 500) and _SYSTEM.search(self.message) is not None

    @property
    def is_about_context(self) -> bool:
        """Whether prompt and completion together were too long."""
        named = "context_length" in self.code or "context_size" in self.code
        return self.status == 413 or named or _CONTEXT.search(self.message) is not None


def read_complaint(status: int, headers: Mapping[str, str], body: bytes) -> Complaint:
    """Read an error reply. Its message may hold a key: `http.redacted` removes it and shortens the message."""
    text = body[:_MOST_LETTERS].decode("utf-8", "replace").strip()
    wait = retry_after(headers)
    try:
        data = from_json(body)
    except ValueError:
        data, text = None, "" if "<html" in text.lower() else text
    match data:
        case {"error": error} | [{"error": error}]:  # Gemini's errors are lists
            pass
        case error:
            pass
    if not isinstance(error, dict):
        return Complaint(status, _one_line(str(error) if error else text), retry_after=wait)
    # OpenAI says "message", FastAPI says "detail".
    text = str(error.get("message") or error.get("detail") or text)
    code = str(error.get("code") or error.get("type") or "")
    details = error.get("details")  # as Google's services list them (google.rpc.Status)
    for detail in details[:100] if isinstance(details, list) else ():
        match detail:
            case {"reason": "API_KEY_INVALID"}:
                code = BAD_KEY
            case {"violations": [*violations]} if any("PerDay" in str(each) for each in violations[:100]):
                code = NO_QUOTA  # it does not come back before midnight, whatever RetryInfo says
            case {"retryDelay": delay} if wait is None and (seconds := _DELAY.fullmatch(str(delay))):
                wait = float(seconds[1])
    if error.get("type") in _MONEY or code in _MONEY or _NO_MONEY.search(text):
        code = NO_QUOTA
    return Complaint(status, _one_line(text), code, str(error.get("param") or ""), wait)


def _one_line(text: str) -> str:
    return " ".join(text[:_MOST_LETTERS].split())


def refusal(complaint: Complaint, sampling: Sampling, *, url: str, key_env: str, key: str | None) -> ModelError:
    """The error for a refused chat completion, without anything that may be a key."""
    message = redacted(complaint.message, key) or f"HTTP {complaint.status}"
    if complaint.code == NO_QUOTA or complaint.status == 402:
        return ModelError(f"the account behind {key_env} has no quota left at {url}: {message}")
    if complaint.status in TRANSIENT or complaint.status >= 500:
        return TransientModelError(f"{url} answered {complaint.status}: {message}", retry_after=complaint.retry_after)
    if sampling.logprobs and complaint.names("logprobs"):
        return CapabilityError(f"{url} gives no log-probabilities for this model: {message}")
    if sampling.grammar is not None and _GRAMMAR.search(f"{complaint.param} {complaint.message}"):
        return CapabilityError(f"{url} cannot keep a reply to a grammar: {message}", lacks="grammar")
    if complaint.status == 401 or complaint.code == BAD_KEY:
        problem = f"refused the key in {key_env}" if key else f"needs a key: set {key_env}"
        return AuthenticationError(f"{url} {problem} ({complaint.status})")
    if complaint.status == 403:
        return AuthenticationError(f"{url} does not allow this with the key in {key_env} (403): {message}")
    if complaint.is_about_context:
        return ContextLengthExceeded(f"the prompt does not fit the model at {url}: {message}")
    if 300 <= complaint.status < 400:
        return ModelError(f"{url} redirects elsewhere ({complaint.status}); give the final address as base URL")
    return ModelError(f"{url} refused the request ({complaint.status}): {message}")


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

    thinks_apart: as in `Dialect`.
    """
    try:
        replies = [_reply(choice) for choice in data["choices"]]
        if not replies:
            raise ValueError("no choices")
        usage = _usage(data, replies, messages, thinks_apart)
        replies[0] = replies[0].model_copy(update={"usage": usage})
        return priced([separate(reply) for reply in replies], price)
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _reply(choice: Mapping[str, Any]) -> Reply:
    """One reply. A thought that the server separates has one name at DeepSeek and llama.cpp and another at vLLM."""
    end = choice.get("finish_reason") or "stop"
    if isinstance(end, str):
        end = _FINISHES.get(end.partition(":")[0].strip().lower(), end)
    message = choice["message"] if end != FILTERED else choice.get("message") or {}  # a filter may leave none at all
    thought = message.get("reasoning_content") or message.get("reasoning")
    scored = (choice.get("logprobs") or {}).get("content")
    return Reply(
        text=_text(message),
        reasoning=thought if isinstance(thought, str) else None,
        finish_reason=end,
        # One by one, because nothing else runs while one call of pydantic checks very many.
        token_logprobs=None
        if scored is None
        else tuple(TokenLogprob(token=each["token"], logprob=each["logprob"]) for each in scored),
    )


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    if content is not None:
        raise ValueError(f"its content is {content!r:.40}, which is no text")
    return message.get("refusal") or ""


def _usage(data: Mapping[str, Any], replies: Sequence[Reply], messages: Sequence[Message], thinks_apart: bool) -> Usage:
    """What the server counted. Where it does not count, or tells 0, it is estimated: a budget must end all the same."""
    counts = data.get("usage") or {}
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens") or 0
    estimates = [len(f"{reply.text}{reply.reasoning or ''}".encode()) // 4 for reply in replies]
    if not prompt:
        return Usage(calls=1, prompt=estimate_tokens(tuple(messages)), completion=sum(estimates), usd=None)
    if counts.get("total_tokens") is not None:
        # With OpenAI's servers thoughts are part of the completion, with xAI's they come on top: the total tells.
        rest = counts["total_tokens"] - prompt
        thought = (counts.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
        if thinks_apart or (thought > 0 and rest == completion + thought):
            completion = max(completion, rest)
    if len(replies) > 1 and "timings" in data:  # llama.cpp counts the tokens of the first reply alone
        others = zip(replies[1:], estimates[1:], strict=True)
        completion += sum(len(reply.token_logprobs or ()) or estimate for reply, estimate in others)
    details = counts.get("prompt_tokens_details")
    reused = (details.get("cached_tokens") if details else counts.get("prompt_cache_hit_tokens")) or 0
    # No more than all are reused, or a price could become negative.
    return Usage(calls=1, prompt=prompt, cached=min(reused, prompt), completion=completion, usd=None)


def cut_at_stop(reply: Reply, stop: Sequence[str]) -> Reply:
    """Cut a reply and its log-probabilities at the first stop string, as a server that supports them does."""
    ends = [at for at in (reply.text.find(string) for string in stop) if at >= 0]
    return reply.upto(min(ends)).model_copy(update={"finish_reason": "stop"}) if ends else reply

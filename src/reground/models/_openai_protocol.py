"""The OpenAI chat protocol without the network: requests, replies, and what refusals mean."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from reground.core.budget import MOST_COUNT
from reground.core.errors import (
    AuthenticationError,
    CapabilityError,
    ContextLengthExceeded,
    ModelError,
    TransientModelError,
)
from reground.core.http import LEAST_LIMIT, MOST_LIMIT, error_text, read_json, redacted, retry_after, spelled
from reground.core.language import Grammar, Hearing, Message, Reply, Sampling, TokenLogprob, Usage, estimate_tokens
from reground.core.reasoning import separate
from reground.models.options import Price, alternating, priced, without_system

_GRAMMAR = re.compile(r"grammar|json.?schema|structured.?output|response.?(?:format|schema)", re.IGNORECASE)
TOKEN_BYTES = 64
SCORED_TOKEN_BYTES = 4096
"""A token with its log-probability takes about 150 bytes; some servers add twenty alternatives."""
Wish = Literal["logprobs", "grammar"]
Bounds = tuple[float, float]


@dataclass(frozen=True)
class Dialect:
    """What a server understands: first what its documentation says, then also what it refused.

    without: parameters that are not sent, because they are refused or ignored; "system" stands for system messages, and
    without "max_tokens" the length limit has its other name. lacks: what cannot be asked for at all, because the server
    would ignore it silently. bounds: the least and the most that a parameter may be. samples: the most replies of one
    request. greedy_alone: it is 1 at temperature 0. stops: the most stop strings. refuses_blank_stops: a stop string of
    white space alone is refused. joins: turns of one role that follow each other become one. streams: replies are taken
    as streams. thinks_apart: `completion_tokens` leaves out the tokens of thoughts, which `total_tokens` has.
    """

    without: frozenset[str] = frozenset()
    lacks: frozenset[Wish] = frozenset()
    bounds: frozenset[tuple[str, Bounds]] = frozenset()
    samples: int | None = None
    greedy_alone: bool = False
    stops: int | None = None
    refuses_blank_stops: bool = False
    joins: bool = False
    streams: bool = False
    thinks_apart: bool = False

    def request(
        self, model: str, messages: Sequence[Message], sampling: Sampling, grammar: str, extra: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A chat completion request with more fields. grammar: how the server takes one, as in `grammar_parameter`."""
        limit = "max_completion_tokens" if "max_tokens" in self.without else "max_tokens"
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": message.role, "content": message.content} for message in self._turns(messages)],
            limit: sampling.max_tokens,
            "temperature": sampling.temperature,
        }
        at_once = 1 if self.greedy_alone and not sampling.temperature else self.samples or sampling.n
        if (samples := min(sampling.n, at_once)) > 1:
            body["n"] = samples
        if sampling.top_p < 1:
            body["top_p"] = sampling.top_p
        if stop := self._stops(sampling.stop):
            body["stop"] = stop
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if sampling.logprobs:
            body["logprobs"] = True
        if sampling.grammar is not None:
            body |= grammar_parameter(grammar, sampling.grammar)
        if self.streams:
            body |= STREAMED
        body |= extra
        for name, (least, most) in self.bounds:
            if name in body:
                body[name] = type(body[name])(min(max(body[name], least), most))
        return {name: value for name, value in body.items() if name not in self.without}

    def _turns(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages that are sent: without system messages, the first turn begins with what these say."""
        if "system" in self.without:
            messages = without_system(messages)
        return alternating(messages) if self.joins else messages

    def _stops(self, stop: Sequence[str]) -> Sequence[str]:
        stops = [each for each in stop if each.strip()] if self.refuses_blank_stops else stop
        return stops[: self.stops]

    def cuts_here(self, stop: Sequence[str]) -> bool:
        """Whether replies are to be cut on this side, because the server does not get all of these stop strings."""
        return bool(stop) and ("stop" in self.without or len(self._stops(stop)) < len(stop))

    def learn(self, complaint: Complaint, sent: Mapping[str, Any]) -> Dialect | None:
        """The dialect that avoids this error: what is named of the request is another value, or is not sent.

        None if nothing of the request is named, or something else is wrong. sent: the request.
        """
        is_other = complaint.is_about_context or complaint.is_passing or complaint.code in (BAD_KEY, NO_QUOTA)
        if is_other or complaint.status not in (400, 404, 422, 500, 501):
            return None
        if complaint.status != 500:
            if "stream" not in sent and "stream" not in self.without and complaint.named(["stream"]):
                return replace(self, streams=True)
            for name in complaint.named([name for name in sent if name not in _REQUIRED]):
                if (better := self._relaxed(name, complaint, sent)) is not None:
                    return better
        return self._turned(complaint, sent["messages"])

    def _relaxed(self, name: str, complaint: Complaint, sent: Mapping[str, Any]) -> Dialect | None:
        """The dialect that sends this parameter otherwise, or not at all; None if it cannot."""
        value, without = sent[name], replace(self, without=self.without | {name})
        numbers = complaint.numbers(name, sent)
        if name == "n":
            if not (sent.get("temperature", 1) or self.greedy_alone):
                return replace(self, greedy_alone=True)
            fewer = max((int(each) for each in numbers if each < value), default=1)
            return replace(self, samples=fewer if fewer >= _WORTH_ASKING and self.samples is None else 1)
        if name == "stop":
            if not self.refuses_blank_stops and not all(each.strip() for each in value):
                return replace(self, refuses_blank_stops=True)
            fewer = max((int(each) for each in numbers if each < len(value)), default=0)
            return replace(self, stops=fewer) if fewer >= 1 else without
        if name == "max_tokens" and "max_completion_tokens" in complaint.whole:
            return without
        bounds = dict(self.bounds)
        is_named = name in _LENGTHS and bounds.get(name, (1, 0))[1] == value  # so it is the first that is too large
        if (allowed := (1, value - 1) if is_named else allowed_values(name, value, complaint, numbers)) is not None:
            least, most = bounds.get(name, allowed)
            bounds[name] = max(least, allowed[0]), min(most, allowed[1])
            if bounds[name][0] <= bounds[name][1]:
                return replace(self, bounds=frozenset(bounds.items()))
        return None if name == "max_completion_tokens" else without

    def _turned(self, complaint: Complaint, turns: Sequence[Mapping[str, Any]]) -> Dialect | None:
        """The dialect with other roles of messages; None if the complaint is not about roles."""
        roles = [turn["role"] for turn in turns]
        about = _ROLES if complaint.status != 500 else _SURELY_ROLES
        if not (about.search(complaint.whole) or complaint.param.startswith("messages")):
            return None
        repeats = any(role == following for role, following in pairwise(roles))
        if "system" in roles and not (repeats and _ALTERNATE.search(complaint.whole)):
            return replace(self, without=self.without | {"system"})
        return replace(self, joins=True) if repeats else None


def allowed_values(name: str, value: Any, complaint: Complaint, numbers: Collection[float]) -> Bounds | None:
    """The least and the most that a complaint allows for a parameter; None if it names no such numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if name in _LENGTHS:
        below = [number for number in numbers if _LEAST_LENGTH <= number < value]
        above = [number for number in numbers if value < number <= _LARGEST_LEAST]
        return (1, max(below)) if below else (min(above), math.inf) if above else None
    if (span := _RANGE.search(complaint.whole)) is not None:
        least, most = float(span[1]), float(span[2])
        if least < most and not least < value < most:
            edge = (most - least) / 100  # the ends themselves may be refused
            return least + edge * (value == least), most - edge * (value == most)
    if len(numbers) != 1:
        return None
    (only,) = numbers
    return (-math.inf, only) if value > only else (only, math.inf)


_REQUIRED = frozenset({"model", "messages", "logprobs", "grammar", "structured_outputs", "response_format"})
"""What is not left out: a request makes no sense without it, or the caller has to know that it was."""
_LENGTHS = frozenset({"max_tokens", "max_completion_tokens"})
_LEAST_LENGTH, _LARGEST_LEAST, _WORTH_ASKING = 16, 64, 4
_ROLES = re.compile(r"\brole|\bsystem\b|\bdeveloper\b|角色|alternat|\buser\b.{1,30}\bassistant\b", re.IGNORECASE)
_SURELY_ROLES = re.compile(r"\broles?\b|\bsystem (?:message|prompt|instruction)", re.IGNORECASE)
_ALTERNATE = re.compile(r"alternat|consecutive|successive|interleav|\bsame role|交替", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![A-Za-z0-9_./])(?<![A-Za-z]-)\d{1,9}(?:\.\d{1,9})?(?![A-Za-z0-9_]|\.\d|-[A-Za-z])")
_THOUSANDS = re.compile(r"(?<![\[(\d])(\d{1,3}),(?=\d{3}(?!\d))")
_RANGE = re.compile(
    r"(?<![A-Za-z0-9_.])(\d{1,9}(?:\.\d{1,9})?)[^\dA-Za-z.]{1,4}(?:[a-z]{1,3}[^\dA-Za-z.]{1,2})?(\d{1,9}(?:\.\d{1,9})?)"
)
_PATTERNS = {
    "max_tokens": r"max(?:imum)?[\s_-]?(?:(?:completion|output|new)[\s_-]?)?tokens",
    "n": r"n(?!['’][^\W\d_])|candidate[\s_]?count|number of (?:candidates|choices|completions|samples)"
    r"|(?:multiple|several|only (?:one|1|a single)) (?:candidate|choice|completion|sample)s?",
    "stop": r"stop(?:[\s_-]?(?:sequence|string|word)s?)?",
    "stream": r"(?:non-?)?stream(?:s|ed|ing)?|流式",
}
_PATTERNS["max_completion_tokens"] = _PATTERNS["max_tokens"]


@cache
def _naming(parameter: str) -> re.Pattern[str]:
    """What names a parameter: its words, however they are joined."""
    words = _PATTERNS.get(parameter) or r"[\s_-]?".join(map(re.escape, parameter.split("_")))
    # Not \b: in Chinese no space stands beside the name.
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{words})(?![A-Za-z0-9_])", re.IGNORECASE)


STREAMED: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def most_bytes(sampling: Sampling, *, streams: bool) -> int:
    """Maximum bytes of a reply to this request: far more than its tokens need, but bounded."""
    each = SCORED_TOKEN_BYTES if sampling.logprobs or streams else TOKEN_BYTES
    return min(MOST_LIMIT, LEAST_LIMIT + sampling.n * sampling.max_tokens * each)


def grammar_parameter(name: str, grammar: Grammar) -> dict[str, Any]:
    """The part of a request that holds the reply to the grammar.

    name: "grammar" for llama.cpp, "structured_outputs" for vLLM. All others, such as OpenAI, Ollama and most gateways,
    read schemas only.
    """
    if name == "grammar" and grammar.gbnf:
        return {"grammar": grammar.gbnf}
    if name == "structured_outputs" and grammar.gbnf:
        return {"structured_outputs": {"grammar": grammar.gbnf}}
    schema = {"name": "reply", "strict": True, "schema": from_json(grammar.json_schema)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


TRANSIENT = frozenset({408, 409, 425, 429, 498})
NO_QUOTA = "insufficient quota"
"""The code of a complaint about an account without money or quota, whatever the provider calls it."""
BAD_KEY = "invalid api key"
"""The code of a complaint about the key, where the provider's status does not say so."""
_MOST_LETTERS = 4000
_CONTEXT = re.compile(
    r"context.{0,12}(?:length|window|size|limit|exceed)|maximum (?:context|prompt|input|model length)"
    r"|too many (?:input )?tokens|`inputs` tokens \+ `max_new_tokens` must be"
    r"|(?:prompt|input|content).{0,24} too (?:long|large)|input token count.{0,24}exceeds"
    r"|\b(?:input|prompt) length\b|超长|过长",
    re.IGNORECASE,
)
_CONTEXT_FIELD = re.compile(r'"n_ctx"|"[a-z_]{0,20}context_(?:length|size|window)"', re.IGNORECASE)
_TWO_SIZES = re.compile(r"(?<![\d.])(?!2\d{3}-)\d{3,9}(?!\d|\.\d)")
_TOKENS = re.compile(r"token|токен|トークン|토큰|令牌|词元", re.IGNORECASE)
_RATE = re.compile(
    r"rate.?limit|too many requests"
    r"|\bper.?(?:second|min|hour|day)|\b[TR]P[MD]\b|throttl|try again (?:in|later)|wait before|temporaril|overload",
    re.IGNORECASE,
)
_NOT_BOTH = re.compile(r"temperature\W{1,3}\w{1,4}\W{1,3}top_p", re.IGNORECASE)
_NO_MONEY = re.compile(
    r"credit balance|\blimit: 0\b|insufficient.{0,12} (?:balance|quota)|spend(?:ing)? limit|欠费", re.I
)
_NO_KEY = re.compile(r"(?:incorrect|invalid|wrong) api.?key", re.IGNORECASE)
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


@dataclass(frozen=True)
class Complaint:
    """An error reply. code: its code and type as words. retry_after: seconds. whole: all that it says."""

    status: int
    message: str
    code: str = ""
    param: str = ""
    retry_after: float | None = None
    whole: str = ""

    def named(self, parameters: Iterable[str]) -> list[str]:
        """Those of the request's parameters that it is about, the first one first: by its field, else by its words."""
        parameters = list(parameters)
        for text in (self.param, self.message, self.whole):
            places = {name: match.start() for name in parameters if (match := _naming(name).search(text))}
            if places.keys() >= {"temperature", "top_p"} and _NOT_BOTH.search(text):
                places["temperature"] = len(text)
            if places:
                return sorted(places, key=places.__getitem__)
        return []

    def numbers(self, name: str, sent: Mapping[str, Any]) -> set[float]:
        """The numbers after a parameter's name, else all; without those of the request, the status and the model."""
        text = _THOUSANDS.sub(r"\1", self.whole.replace(sent["model"], ""))
        match = _naming(name).search(text)
        ours = {float(self.status), sent[name] if isinstance(sent[name], int | float) else None}
        after, every = (
            {float(each) for each in _NUMBER.findall(part)} - ours
            for part in (text[match.end() :] if match else "", text)
        )
        return after or every

    @property
    def is_passing(self) -> bool:
        """Whether the server wants a pause, whatever its status is."""
        is_paced = self.retry_after is not None or _RATE.search(f"{self.code} {self.message}") is not None
        return (self.status in TRANSIENT or is_paced) and not _CONTEXT.search(self.code)

    @property
    def is_about_context(self) -> bool:
        """Whether prompt and completion together were too long: by its field, its words, or two sizes in tokens."""
        if self.is_passing:
            return False
        if self.status == 413 or _CONTEXT.search(self.code) or _CONTEXT_FIELD.search(self.whole):
            return True
        has_sizes = len(set(_TWO_SIZES.findall(self.message))) > 1
        if _CONTEXT.search(self.message) is not None:
            return has_sizes or self.param not in _LENGTHS
        return has_sizes and _TOKENS.search(self.message) is not None and not self.named(_LENGTHS)


def read_complaint(status: int, headers: Mapping[str, str], body: bytes) -> Complaint:
    """Read an error reply. Its message may hold a key: `http.redacted` removes it and shortens the message."""
    wait = retry_after(headers)
    data, whole = None, error_text(body.decode("utf-8", "replace"))
    with suppress(ValueError):
        data = from_json(body)
        whole = " ".join(to_json(data)[:_MOST_LETTERS].decode("utf-8", "replace").split())  # without escapes
    error = _error_in(data)
    fields = error if isinstance(error, dict) else {}
    codes = (str(fields.get(name) or "") for name in ("code", "type"))
    code = " ".join(each for each in codes if each and not each.isdigit()).replace("_", " ")  # a number is the status
    text = error_text(error) or code or whole
    details = fields.get("details")  # as Google's services list them (google.rpc.Status)
    for detail in details[:100] if isinstance(details, list) else ():
        match detail:
            case {"reason": "API_KEY_INVALID"}:
                code = BAD_KEY
            case {"violations": [*violations]} if any("PerDay" in str(each) for each in violations[:100]):
                code = NO_QUOTA  # it does not come back before midnight, whatever RetryInfo says
            case {"retryDelay": delay} if wait is None and (seconds := _DELAY.fullmatch(str(delay))):
                wait = float(seconds[1])
    for name, form in ((NO_QUOTA, _NO_MONEY), (BAD_KEY, _NO_KEY)):
        code = name if form.search(f"{code} {text}") else code
    return Complaint(status, text, code, str(fields.get("param") or ""), wait, whole)


def _error_in(data: Any) -> Any:
    """What a body says of an error, if it says it apart from the rest; else the whole body."""
    first = data[0] if isinstance(data, list) and len(data) == 1 else data  # Gemini's errors are lists
    return (first.get("error") if isinstance(first, dict) else None) or data


def status_of(data: Any) -> int | None:
    """The status that an error would have had, of one that came under a 200; None of anything else."""
    error, said = _error_in(data), error_text(data)
    is_whole = error is data
    has_replies = not isinstance(data, dict) or (data.get("choices") is not None and data.get("object") != "error")
    if is_whole and (has_replies or not said):
        return None
    if "/chat/completions" in said:
        return 404
    codes = [str(error.get(name)) for name in ("code", "status", "type")] if isinstance(error, dict) else []
    numbers = (int(each) for each in codes if re.fullmatch(r"[45]\d\d", each))
    return next(numbers, 400 if is_whole or any("invalid_request" in each for each in codes) else 500)


FOREIGN = re.compile(rb'\A\s*+<|"(?:content|generated_text|output|response|text)"\s{0,9}+:\s{0,9}+[\[{"]')
"""What shows a page, or in a reply without choices the text of another protocol."""


def refusal(complaint: Complaint, sampling: Sampling, *, url: str, key_env: str, key: str | None) -> ModelError:
    """The error for a refused chat completion, without anything that may be a key."""
    message = redacted(complaint.message, key) or f"HTTP {complaint.status}"
    if complaint.code == NO_QUOTA or complaint.status == 402:
        return ModelError(f"the account behind {key_env} has no quota left at {url}: {message}")
    if complaint.is_passing or complaint.status >= 500:
        return TransientModelError(f"{url} answered {complaint.status}: {message}", retry_after=complaint.retry_after)
    if sampling.logprobs and complaint.named(("logprobs",)):
        return CapabilityError(f"{url} gives no log-probabilities for this model: {message}")
    if sampling.grammar is not None and _GRAMMAR.search(f"{complaint.param} {complaint.message}"):
        return CapabilityError(f"{url} cannot keep a reply to a grammar: {message}", lacks="grammar")
    if complaint.status == 401 or complaint.code == BAD_KEY:
        problem = f"refused the key in {key_env}" if key else f"needs a key: set {key_env}"
        return AuthenticationError(f"{url} {problem} ({complaint.status})")
    if complaint.status == 403:
        return AuthenticationError(f"{url} does not allow this with the key in {key_env} (403): {message}")
    if complaint.is_about_context or complaint.named(_LENGTHS):
        return ContextLengthExceeded(f"the prompt does not fit the model at {url}: {message}")
    if 300 <= complaint.status < 400:
        return ModelError(f"{url} redirects elsewhere ({complaint.status}); give the final address as base URL")
    wants_field = complaint.status in (400, 422) and re.search(r"[a-z]_[a-z]", message) is not None
    hint = "; --extra-body adds fields to requests, if it wants one" * wants_field
    return ModelError(f"{url} refused the request ({complaint.status}): {message}{hint}")


_EVENTS = (b"data:", b"event:", b"id:", b"retry:", b":")


def joined(body: bytes) -> bytes:
    """A reply that came as a stream of events, as the one that it would have been; any other reply as it is, without
    the mark of UTF-8."""
    body = body.removeprefix(b"\xef\xbb\xbf")
    if not body.lstrip().startswith(_EVENTS):
        return body
    joining = Joining()
    joining.follow(body + b"\n\n")
    choices = joining.choices
    is_whole = joining.ended or all(choice.get("finish_reason") for choice in choices.values())
    joining.whole["choices"] = [choices[index] for index in sorted(choices)] if is_whole else []
    return body if joining.broken else to_json(joining.whole)


class Joining:
    """Puts the chunks of a stream together, and tells who listens what there is of the reply after each."""

    def __init__(self, hear: Hearing | None = None) -> None:
        self.whole: dict[str, Any] = {}
        self.choices: dict[int, dict[str, Any]] = {}
        self.broken = self.ended = False
        self._hear = hear
        self._line: list[bytes] = []  # what has come of it
        self._data: list[bytes] = []  # of an event whose JSON goes over several lines

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Add a chunk. Raises ValueError, AttributeError, TypeError or KeyError for what is none."""
        self.whole |= {name: value for name, value in chunk.items() if value is not None and name != "choices"}
        for part in chunk.get("choices") or ():
            choice = self.choices.setdefault(part.get("index") or 0, {"message": {}})
            _extend(choice, part)
            if self._hear is not None:
                self._hear(reply_of(choice | {"finish_reason": "length", "logprobs": None}))
        if self._hear is not None and (progress := chunk.get("prompt_progress")):
            self._hear((max(progress["processed"], progress["cache"]), progress["total"]))

    def follow(self, piece: bytes) -> None:
        """Add the lines of server-sent events that end in a piece of the body, unless they are broken."""
        # of bytes: as text, a line would end at any of Unicode's separators
        *lines, rest = re.split(rb"\r\n|\r|\n", piece)
        if lines:
            lines[0], self._line = b"".join([*self._line, lines[0]]), []
        self._line.append(rest)
        try:
            for line in lines:
                self._read(line)
        except (ValueError, AttributeError, TypeError, KeyError):
            self.broken = True

    def _read(self, line: bytes) -> None:
        """Read a line of an event. Most events are one line; the JSON of others is whole at the blank line."""
        data = line[5:].strip() if line.startswith(b"data:") else b""
        if data.upper() == b"[DONE]":
            self.ended = True
        elif self._data and not line:
            whole, self._data = b"\n".join(self._data), []
            self.add(read_json(whole))
        elif self._data:
            self._data.append(data)
        elif data.startswith(b"{"):  # others are signs of life
            try:
                chunk = read_json(data)
            except ValueError:
                self._data = [data]
            else:
                self.add(chunk)


def _extend(choice: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Add a piece of a stream to the choice that it belongs to."""
    message = choice["message"]
    for name, value in (part.get("delta") or part.get("message") or {}).items():
        if name == "content" and (thought := _of_parts(value, True)):
            message["reasoning"] = (message.get("reasoning") or "") + thought
        is_text = name in _TEXT_FIELDS and isinstance(value, str | list)
        message[name] = (message.get(name) or "") + _of_parts(value) if is_text else value
    choice["finish_reason"] = part.get("finish_reason") or choice.get("finish_reason")
    if scored := (part.get("logprobs") or {}).get("content"):
        choice.setdefault("logprobs", {"content": []})["content"] += scored


_THINKS = re.compile("think|reason", re.IGNORECASE)
_TEXT_FIELDS = frozenset({"content", "reasoning_content", "reasoning", "refusal"})
FILTERED = "content_filter"
INTERRUPTED = re.compile(r"error|insufficient_system_resource|abort|cancel|time_?out", re.IGNORECASE)
"""How a reply ends that the server broke off."""
_FINISHES = {
    FILTERED: re.compile(r"filter|safety|recitation|blocklist|prohibited|spii|sensitive", re.IGNORECASE),
    "length": re.compile(r"length|limit|max_|window", re.IGNORECASE),
    "stop": re.compile(r"stop|eos|end_|complete", re.IGNORECASE),
}
"""How it ends otherwise, by whatever names; those of calls of tools stay."""


def read_replies(
    data: Any, messages: Sequence[Message], price: Price | None, *, thinks_apart: bool = False
) -> list[Reply]:
    """Replies from a completion, with its usage on the first. Raises ValueError if it is malformed.

    thinks_apart: as in `Dialect`.
    """
    try:
        replies = [reply_of(choice) for choice in data["choices"]]
        if not replies:
            raise ValueError("no choices")
        usage = _usage(data, replies, messages, thinks_apart)
        replies[0] = replies[0].model_copy(update={"usage": usage})
        replies = [separate(reply) for reply in replies]
        cut = (reply.upto(len(reply.text)) for reply in replies)  # vLLM gives the token that ended the reply too
        pairs = zip(cut, replies, strict=True)  # tokens of a byte spell no text
        return priced([first if first.token_logprobs is not None else reply for first, reply in pairs], price)
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def reply_of(choice: Mapping[str, Any]) -> Reply:
    """One reply. A thought that the server separates has one name at DeepSeek and llama.cpp and another at vLLM."""
    end = choice.get("finish_reason") or "stop"
    if isinstance(end, str) and not INTERRUPTED.search(end):
        end = next((name for name, form in _FINISHES.items() if form.search(end)), end)
    message = choice["message"] if end != FILTERED else choice.get("message") or {}  # a filter may leave none at all
    thought = message.get("reasoning_content") or message.get("reasoning") or _of_parts(message.get("content"), True)
    scored = (choice.get("logprobs") or {}).get("content")
    return Reply(
        text=_text(message),
        reasoning=thought if thought and isinstance(thought, str) else None,
        finish_reason=end,
        token_logprobs=None if scored is None else tuple(map(_scored, scored)),
    )


def _scored(token: Mapping[str, Any]) -> TokenLogprob:
    """A token of a reply. JSON has no number for the log-probability of what cannot be: OpenAI writes -9999 and others
    null. One at a time, because nothing else runs while one call of pydantic checks very many."""
    return TokenLogprob(token=token["token"], logprob=-9999.0 if token["logprob"] is None else token["logprob"])


def without_key(reply: Reply, key: str | None) -> Reply:
    """The reply as it may be kept, where a server repeats the key in one of its texts or over its tokens."""
    if (pattern := spelled(key)) is None:
        return reply
    texts = {name: getattr(reply, name) or "" for name in ("text", "reasoning", "finish_reason")}
    changed: dict[str, Any] = {name: pattern.sub("[key]", text) for name, text in texts.items() if pattern.search(text)}
    if pattern.search("".join(each.token for each in reply.token_logprobs or ())):
        changed["token_logprobs"] = None
    return reply.model_copy(update=changed) if changed else reply


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str | list):
        return _of_parts(content)
    if content is not None:
        raise ValueError(f"its content is {content!r:.40}, which is no text")
    return message.get("refusal") or ""


def _of_parts(content: Any, is_thought: bool = False) -> str:
    """The text of a message's content, a text or a list of texts and of parts with a text; or that of its thought."""
    if not isinstance(content, list):
        return content if isinstance(content, str) and not is_thought else ""
    texts = [part if isinstance(part, dict) else {"text": part} for part in content]
    texts = [part for part in texts if is_thought == bool(_THINKS.search(str(part.get("type"))))]
    return "".join(_of_parts(part.get("text") or part.get("thinking") or part.get("summary")) for part in texts)


def _usage(data: Mapping[str, Any], replies: Sequence[Reply], messages: Sequence[Message], thinks_apart: bool) -> Usage:
    """What the server counted. Where it tells no count, or 0, it is estimated: a budget must end."""
    counts = data.get("usage") or {}
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens") or 0
    estimates = [len(f"{reply.text}{reply.reasoning or ''}".encode()) // 4 for reply in replies]
    estimated = Usage(calls=1, prompt=estimate_tokens(tuple(messages)), completion=sum(estimates), usd=None)
    if not prompt:
        return estimated
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
    if not all(0 <= number <= MOST_COUNT for number in (prompt, completion, reused)):
        return estimated
    # No more than all are reused, or a price could become negative.
    return Usage(calls=1, prompt=prompt, cached=min(reused, prompt), completion=completion, usd=None)

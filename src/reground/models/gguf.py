"""`gguf`: a GGUF file run in this process by llama.cpp, many calls at once (extra [local]).

`gguf/<alias>`, `gguf/<path>` or `gguf/<org>/<repo>:<file>`; see `reground.models.pull` for what can be brought here.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.core.errors import ContextLengthExceeded, MissingExtra, ModelError
from reground.core.language import Message, Reply, Sampling, TokenLogprob, Usage
from reground.core.untrusted import neutralise
from reground.hub import Progress
from reground.models import pull
from reground.models._gguf_header import read_header
from reground.models.options import Listing, ModelOptions

if TYPE_CHECKING:
    from reground.models._llama import Engine

SLOTS = 4
CONTEXT = 4096  # tokens for each slot, where neither the user nor the model says less


def create(model: str, options: ModelOptions) -> GgufModel:
    """The model behind an alias, a path or a file of a hub. Its weights are downloaded and loaded at the first call.

    Raises ConfigurationError for an unknown name, MissingExtra if llama.cpp is not installed.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtra(f"gguf/{model}", "local")
    pull.check(model)
    return GgufModel(model, options)


async def available(options: ModelOptions) -> list[Listing]:
    """The aliases and the files in the models folder."""
    missing = importlib.util.find_spec("xllamacpp") is None
    listings = []
    for alias, weights in pull.ALIASES.items():
        pulled = pull.is_pulled(weights)
        why = f"pulled ({_size(weights)})" if pulled else f"not pulled yet: reground models pull {alias}"
        listings.append(Listing(f"gguf/{alias}", pulled and not missing, _needs_extra() if missing else why))
    files = await asyncio.to_thread(pull.other_files)
    return listings + [
        Listing(f"gguf/{path.name}", not missing, _needs_extra() if missing else f"in {path.parent}") for path in files
    ]


def _needs_extra() -> str:
    return str(MissingExtra("it", "local"))


def _size(weights: pull.Weights) -> str:
    return f"{weights.size / 1e6:.0f} MB" if weights.size else weights.licence


class GgufModel:
    """A language model in this process.

    `slots` calls decode together and share the weights; more wait. Instances of one file and the same options share
    one engine. `progress` is called while weights are downloaded. A cancelled call frees its slot at the next token.
    Log-probabilities are those of the model before temperature and top-p. Where one character is made of several
    tokens, they come as one with the last one's log-probability.
    """

    def __init__(self, model: str, options: ModelOptions, *, progress: Progress | None = None) -> None:
        self.name = f"gguf/{model}"
        self.progress = progress
        self._model = model
        self._options = options
        self.price = options.price
        self._engine: Engine | None = None
        self._special: tuple[str, ...] = ()

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return `sampling.n` replies. Raises ContextLengthExceeded and ModelError."""
        engine = self._engine or await self._open()
        cancelled = threading.Event()
        work = _Work(engine, self.name, self._turns(messages), sampling, cancelled)
        try:
            replies, usage = await asyncio.wrap_future(engine.submit(work.run))
        except asyncio.CancelledError:
            cancelled.set()
            raise
        if self._options.price is not None:
            usd = self._options.price.usd(usage.prompt, usage.cached, usage.completion)
            usage = usage.model_copy(update={"usd": usd})
        return [replies[0].model_copy(update={"usage": usage}), *replies[1:]]

    async def aclose(self) -> None:
        """Release the engine; the last release frees its memory. A later call loads it again."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.to_thread(_drop, [engine])

    async def _open(self) -> Engine:
        path = await pull.pulled(self._model, progress=self.progress)
        engine, self._special = await asyncio.to_thread(self._load, path)
        self._engine = engine
        return engine

    def _load(self, path: Path) -> tuple[Engine, tuple[str, ...]]:
        from reground.models._llama import shared

        header = read_header(path)
        engine = shared(
            path,
            slots=self._options.slots or SLOTS,
            context=self._options.context or min(header.context or CONTEXT, CONTEXT),
            threads=self._options.threads,
        )
        return engine, header.special

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        """llama.cpp would read a control token's text inside a message as the token; here it cannot."""
        return [{"role": m.role, "content": neutralise(m.content, extra=self._special)} for m in messages]


def _drop(engines: list[Engine]) -> None:
    """Let the last reference go here, in a worker thread: ending an engine may wait for a batch."""
    engines.clear()


@dataclass
class _Choice:
    """One reply while it is being written."""

    text: str = ""
    reasoning: str = ""
    tokens: list[TokenLogprob] = field(default_factory=list)
    finish: str | None = None

    def take(self, choice: Mapping[str, Any], stop: tuple[str, ...]) -> None:
        """Add what a chunk brings."""
        if self.finish is not None:
            return
        content, seen = choice["delta"].get("content") or "", len(self.text)
        self.text += content
        self.reasoning += choice["delta"].get("reasoning_content") or ""
        if content:
            for entry in (choice.get("logprobs") or {}).get("content") or ():
                self.tokens.append(TokenLogprob(token=entry["token"], logprob=min(0.0, entry["logprob"])))
        self.finish = choice.get("finish_reason")
        cuts = [at for at in (self.text.find(each, max(0, seen - len(each) + 1)) for each in stop) if at >= 0]
        if cuts:
            self._cut(min(cuts))

    def _cut(self, length: int) -> None:
        self.text, self.finish = self.text[:length], "stop"
        kept: list[TokenLogprob] = []
        for token in self.tokens:
            room = length - sum(len(each.token) for each in kept)
            if room <= 0:
                break
            kept.append(token.model_copy(update={"token": token.token[:room]}))
        self.tokens = kept


class _Work:
    """One call, as the engine's threads run it: a request for every `slots` replies, read as they stream in."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        turns: list[dict[str, str]],
        sampling: Sampling,
        cancelled: threading.Event,
    ) -> None:
        self._engine = engine
        self._name = name
        self._turns = turns
        self._sampling = sampling
        self._cancelled = cancelled

    def run(self) -> tuple[list[Reply], Usage]:
        """Generate. The prompt counts once, however many replies grow from it."""
        replies: list[Reply] = []
        total = Usage(calls=1)
        while len(replies) < self._sampling.n:
            reading = self._read(min(self._engine.slots, self._sampling.n - len(replies)), first=len(replies))
            if not replies:
                total += Usage(prompt=reading.prompt, cached=reading.cached)
            total += Usage(completion=reading.completion)
            replies += reading.replies(self._sampling.logprobs)
        return replies, total

    def _read(self, n: int, *, first: int) -> _Reading:
        # llama.cpp loses the log-probabilities of tokens that it holds back because they may begin a stop string,
        # so where they are asked for, stop strings are looked for on this side.
        own_stop = self._sampling.stop if self._sampling.logprobs else ()
        reading = _Reading([_Choice() for _ in range(n)], own_stop, self._cancelled.is_set)
        self._engine.chat(_request(self._turns, self._sampling, n, first), reading)
        if self._cancelled.is_set():
            raise ModelError("the call was cancelled")
        if reading.error is not None:
            raise self._refusal(reading.error)
        if not reading.finished:
            raise ModelError(f"{self._name}: llama.cpp stopped before the reply was complete")
        return reading

    def _refusal(self, error: Mapping[str, Any]) -> ModelError:
        if error.get("type") == "exceed_context_size_error":
            return ContextLengthExceeded(
                f"the prompt has {error.get('n_prompt_tokens')} tokens and {self._name} has room for "
                f"{error.get('n_ctx')} in each of its {self._engine.slots} slots: "
                "retrieve fewer or shorter passages, or give the model more with --context"
            )
        return ModelError(f"{self._name}: {error.get('message', error)}")


class _Reading:
    """Gathers a stream's chunks; says whether enough has been read."""

    def __init__(self, choices: list[_Choice], stop: tuple[str, ...], cancelled: Callable[[], bool]) -> None:
        self._choices = choices
        self._stop = stop
        self._cancelled = cancelled
        self._counted = 0
        self._seen = 0
        self.prompt = 0
        self.cached = 0
        self.error: Mapping[str, Any] | None = None

    def __call__(self, chunk: Mapping[str, Any]) -> bool:
        if "error" in chunk:
            self.error = chunk["error"]
        progress = chunk.get("prompt_progress")
        if progress:
            self.prompt, self.cached = progress["total"], progress["cache"]
        usage = chunk.get("usage")
        if usage:
            self.prompt = usage["prompt_tokens"]
            self.cached = usage["prompt_tokens_details"]["cached_tokens"]
            self._counted += usage["completion_tokens"]
        for choice in chunk.get("choices", ()):
            self._seen += bool(choice["delta"].get("content") or choice["delta"].get("reasoning_content"))
            self._choices[choice["index"]].take(choice, self._stop)
        return self._cancelled() or (bool(self._stop) and self.finished)

    @property
    def completion(self) -> int:
        """Generated tokens; as many as there were pieces where we cut the stream before llama.cpp counted them."""
        return self._counted or self._seen

    @property
    def finished(self) -> bool:
        """Whether every reply has its end."""
        return all(choice.finish is not None for choice in self._choices)

    def replies(self, logprobs: bool) -> list[Reply]:
        """What was read."""
        return [
            Reply(
                text=choice.text,
                reasoning=choice.reasoning or None,
                finish_reason=choice.finish or "stop",
                token_logprobs=tuple(choice.tokens) if logprobs else None,
            )
            for choice in self._choices
        ]


def _request(turns: list[dict[str, str]], sampling: Sampling, n: int, first: int) -> dict[str, Any]:
    request: dict[str, Any] = {
        "messages": turns,
        "n": n,
        "max_tokens": sampling.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "cache_prompt": True,
    }
    if sampling.temperature == 0:
        request |= {"temperature": 0.0, "samplers": ["top_k"], "top_k": 1}
    else:
        # Only what was asked for: llama.cpp's own defaults add top-k and min-p.
        request |= {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "samplers": ["temperature", "top_p"],
        }
    if sampling.seed is not None:
        request["seed"] = _spread(sampling.seed, first)
    if sampling.logprobs:
        request |= {"logprobs": True, "top_logprobs": 1}
    elif sampling.stop:
        request["stop"] = list(sampling.stop)
    return request


def _spread(seed: int, first: int) -> int:
    """llama.cpp gives the replies of a call consecutive seeds, so calls with neighbouring seeds would share most
    replies."""
    digest = hashlib.blake2b(f"{seed}:{first}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1

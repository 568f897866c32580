"""`gguf`: a GGUF file run in this process by llama.cpp, many calls at once (extra [local]).

`gguf/<alias>`, `gguf/<path>` or `gguf/<org>/<repo>:<file>`; see `reground.models.pull` for the aliases.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.core.concurrency import being_cancelled, in_daemon
from reground.core.errors import ConfigurationError, ContextLengthExceeded, DataError, MissingExtra, ModelError
from reground.core.language import Message, Reply, Sampling, TokenLogprob, Usage
from reground.core.untrusted import neutralise
from reground.hub import Progress
from reground.models import pull
from reground.models.options import Listing, ModelOptions, local_identity

if TYPE_CHECKING:
    from reground.models._llama import Engine


SLOTS = 4
CONTEXT = 4096  # tokens per slot, unless the user sets another number or the model has less


def create(model: str, options: ModelOptions) -> GgufModel:
    """The model behind an alias, a path or a file of a hub. Its weights are downloaded and loaded at the first call.

    Raises ConfigurationError for an unknown name or adapter, MissingExtra if llama.cpp is not installed.
    """
    adapter = options.adapter
    if adapter is not None and not adapter.is_file():
        raise ConfigurationError(
            f"there is no adapter file {adapter}: gguf/ takes a GGUF file, which "
            "reground train export FOLDER --adapter --like BASE --out FILE.gguf makes of a folder"
        )
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
        why = (
            f"pulled ({_size(weights)}); {_run(options)}" if pulled else f"not pulled yet: reground models pull {alias}"
        )
        listings.append(Listing(f"gguf/{alias}", pulled and not missing, _needs_extra() if missing else why))
    files = await asyncio.to_thread(pull.other_files)
    return listings + [
        Listing(f"gguf/{path.name}", not missing, _needs_extra() if missing else f"in {path.parent}; {_run(options)}")
        for path in files
    ]


def _run(options: ModelOptions) -> str:
    """How it would run here."""
    from reground.models._llama import threads_of

    decode, read = threads_of(options.threads)
    return f"{options.slots or SLOTS} calls at once, decoding threads: {decode}, reading threads: {read}"


def _needs_extra() -> str:
    return str(MissingExtra("it", "local"))


def _size(weights: pull.Weights) -> str:
    return f"{weights.size / 1e6:.0f} MB" if weights.size else weights.licence


class GgufModel:
    """A language model in this process.

    `slots` calls decode together and share the weights; further calls wait. Instances with the same file and options
    share one engine. `progress` is called while weights are downloaded. A cancelled call frees its slot at the next
    token. Log-probabilities are the model's before temperature and top-p. Several tokens that form one character are
    merged, with the last one's log-probability.
    """

    def __init__(self, model: str, options: ModelOptions, *, progress: Progress | None = None) -> None:
        self.name = f"gguf/{model}"
        self.progress = progress
        self._model = model
        self._options = options
        self.price = options.price
        self._engine: Engine | None = None
        self._special: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Tells this model from one of the same name with other weights, another adapter or other settings."""
        return local_identity(self.name, self._options)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """Return `sampling.n` replies. Raises ContextLengthExceeded, CapabilityError and ModelError."""
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
        """Release the engine; the last release frees its memory. A later call loads it again.

        In a task that is being cancelled, as by Ctrl-C, it does not wait: the engine first ends the batch that it
        reads, which takes seconds with a large model, and nothing can stop it.
        """
        engines, self._engine = [self._engine], None
        if being_cancelled():
            from reground.models._llama import THREADS

            threading.Thread(target=engines.clear, name=THREADS, daemon=True).start()
        else:
            await asyncio.to_thread(engines.clear)  # in another thread, because ending an engine may wait for a batch

    async def _open(self) -> Engine:
        path = await pull.pulled(self._model, progress=self.progress)
        from reground.models._llama import THREADS

        engine, self._special = await in_daemon(partial(self._load, path), name=THREADS)
        self._engine = engine
        return engine

    def _load(self, path: Path) -> tuple[Engine, tuple[str, ...]]:
        from reground.models._llama import Settings, shared

        header, options = read_header(path), self._options
        settings = Settings(
            path,
            slots=options.slots or SLOTS,
            context=options.context or min(header.context or CONTEXT, CONTEXT),
            threads=options.threads,
            adapter=options.adapter,
        )
        return shared(settings), header.special

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        """The messages with control tokens broken, which llama.cpp would otherwise read as such."""
        return [{"role": m.role, "content": neutralise(m.content, extra=self._special)} for m in messages]


@dataclass
class _Choice:
    """One reply while it is being written."""

    text: str = ""
    reasoning: str = ""
    tokens: list[TokenLogprob] = field(default_factory=list)
    finish: str | None = None

    def take(self, choice: Mapping[str, Any], stop: tuple[str, ...]) -> None:
        """Add a chunk."""
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
    """One call in the engine's threads: one streamed request for every `slots` replies."""

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
        """Generate. The prompt counts once for all replies."""
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
        # llama.cpp loses the log-probabilities of tokens that may begin a stop string, so with log-probabilities
        # stop strings are searched here.
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
    """Gathers a stream's chunks. Returns whether to stop reading."""

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
        """Generated tokens; the number of pieces if the stream was cut before llama.cpp counted those of each reply."""
        return max(self._counted, self._seen)

    @property
    def finished(self) -> bool:
        """Whether every reply has ended."""
        return all(choice.finish is not None for choice in self._choices)

    def replies(self, logprobs: bool) -> list[Reply]:
        """The replies read."""
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
        # Name the samplers, because llama.cpp's defaults add top-k and min-p.
        request |= {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "samplers": ["temperature", "top_p"],
        }
    if sampling.seed is not None:
        request["seed"] = _spread(sampling.seed, first)
    if sampling.grammar is not None:
        request["grammar"] = sampling.grammar.gbnf
    if sampling.logprobs:
        request |= {"logprobs": True, "top_logprobs": 1}
    elif sampling.stop:
        request["stop"] = list(sampling.stop)
    return request


def _spread(seed: int, first: int) -> int:
    """Spread seeds apart: llama.cpp gives a call's replies consecutive seeds, so neighbouring seeds share replies."""
    digest = hashlib.blake2b(f"{seed}:{first}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1


_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4  # token types
_WHOLE = "BbHhIiQq"
_ARCHITECTURE, _NAME, _CONTEXT = "general.architecture", "general.name", ".context_length"
_TOKENS, _TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
# Several times today's largest, so that a damaged file cannot use up memory or time.
_MOST_BYTES = 64 << 20
_MOST_ITEMS = 4 << 20


@dataclass(frozen=True)
class Header:
    """architecture: the model's family. name: the maker's name for it. context: tokens that it was trained for.

    special: texts that its tokenizer reads as one control or markup token.
    """

    architecture: str
    name: str
    context: int
    special: tuple[str, ...]


def read_header(path: Path) -> Header:
    """Read a model's description. Raises DataError for a damaged file, or one that is not GGUF."""
    try:
        with path.open("rb") as source, mmap(source.fileno(), 0, access=ACCESS_READ) as data:
            pairs = _Reader(data).pairs()
    except OSError as error:
        raise DataError(f"cannot read the model: {error.strerror or error}", path=path) from error
    except (struct.error, ValueError) as error:
        raise DataError(f"not a GGUF file, or a damaged one: {error}", path=path) from error
    architecture = pairs.get(_ARCHITECTURE, "")
    return Header(
        architecture=architecture,
        name=pairs.get(_NAME, path.stem),
        context=pairs.get(architecture + _CONTEXT, 0),
        special=_special(pairs.get(_TOKENS, ()), pairs.get(_TYPES, ())),
    )


def _special(tokens: tuple[str, ...], types: tuple[int, ...]) -> tuple[str, ...]:
    """Control tokens, and user-defined tokens that look like markup.

    Other user-defined tokens (runs of newlines or spaces in some vocabularies) are ordinary text.
    """
    return tuple(
        token
        for token, kind in zip(tokens, types, strict=False)
        if kind == _CONTROL or (kind == _USER_DEFINED and token[:1] in "<[" and token[-1:] in ">]" and len(token) > 2)
    )


class _Reader:
    """Reads a header once, from its beginning. Raises ValueError or struct.error if it is damaged."""

    def __init__(self, data: mmap) -> None:
        self._data = data
        self._end = min(len(data), _MOST_BYTES)
        self._at = 0

    def pairs(self) -> dict[str, Any]:
        """The needed values, with their types checked."""
        if self._data[self._step(4) : 4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        version = self._scalar("I")
        if version not in (2, 3):
            raise ValueError(f"version {version} of the format is unknown")
        _tensors, count = self._scalar("Q"), self._scalar("Q")
        found = {}
        for _ in range(count):
            key, kind = self._string(), self._scalar("I")
            if key in (_ARCHITECTURE, _NAME):
                found[key] = self._string() if kind == _STRING else self._wrong(key)
            elif key.endswith(_CONTEXT):
                code = _SCALARS.get(kind, "")
                found[key] = self._scalar(code) if code and code in _WHOLE else self._wrong(key)
            elif key in (_TOKENS, _TYPES):
                found[key] = self._list(key) if kind == _ARRAY else self._wrong(key)
            else:
                self._pass(kind)
        return found

    def _wrong(self, key: str) -> Any:
        raise ValueError(f"the value of {key} has the wrong type")

    def _step(self, size: int) -> int:
        """Skip this many bytes. Returns their start."""
        start, self._at = self._at, self._at + size
        if self._at > self._end:
            raise ValueError("it ends too early, or its header is too long")
        return start

    def _scalar(self, code: str) -> Any:
        return struct.unpack_from("<" + code, self._data, self._step(struct.calcsize("<" + code)))[0]

    def _string(self) -> str:
        start = self._step(self._scalar("Q"))
        return self._data[start : self._at].decode("utf-8", errors="replace")

    def _items(self) -> tuple[int, int]:
        """The type of an array's items and their number."""
        of, length = self._scalar("I"), self._scalar("Q")
        if length > _MOST_ITEMS:
            raise ValueError(f"an array of {length} items")
        return of, length

    def _list(self, key: str) -> tuple[str | int, ...]:
        of, length = self._items()
        if key == _TOKENS and of == _STRING:
            return tuple(self._string() for _ in range(length))
        code = _SCALARS.get(of, "")
        if key == _TOKENS or not code or code not in _WHOLE:
            self._wrong(key)
        layout = f"<{length}{code}"
        return struct.unpack_from(layout, self._data, self._step(struct.calcsize(layout)))

    def _pass(self, kind: int) -> None:
        """Skip an unneeded value. Arrays of arrays, which no model has, are refused."""
        length = 1
        if kind == _ARRAY:
            kind, length = self._items()
        if kind == _STRING:
            for _ in range(length):
                self._step(self._scalar("Q"))
        elif kind in _SCALARS:
            self._step(length * struct.calcsize("<" + _SCALARS[kind]))
        else:
            raise ValueError(f"a value of the unknown type {kind}")

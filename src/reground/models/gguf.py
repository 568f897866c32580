"""`gguf`: a GGUF file run in this process by llama.cpp, many calls at once (extra [local]).

`gguf/<alias>`, `gguf/<path>` or `gguf/<org>/<repo>:<file>`; see `reground.models.pull` for the aliases.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import hashlib
import importlib.util
import os
import secrets
import signal
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from reground.core.concurrency import being_cancelled, in_daemon
from reground.core.errors import (
    CapabilityError,
    ConfigurationError,
    ContextLengthExceeded,
    DataError,
    MissingExtra,
    ModelError,
)
from reground.core.language import Message, Reply, Sampling, Usage, hearing
from reground.core.reasoning import ended_at
from reground.core.untrusted import neutralise
from reground.downloads import is_pulled
from reground.models import pull
from reground.models._openai_protocol import Joining, grammar_parameter, reply_of
from reground.models.options import Listing, ModelOptions, local_identity, priced

THREADS = "llama"
"""What the names of an engine's threads begin with. A process that is interrupted ends without waiting for them."""
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
    weights = pull.ALIASES.get(model.lower())
    return GgufModel(model, options if weights is None or adapter else replace(options, adapter=weights.adapter))


async def available(options: ModelOptions) -> list[Listing]:
    """The aliases and the files in the models folder."""
    missing = str(MissingExtra("it", "local")) if importlib.util.find_spec("xllamacpp") is None else None
    decode, read = threads_of(options.threads)
    run = f"{options.slots or SLOTS} calls at once, decoding threads: {decode}, reading threads: {read}"
    listings = []
    for alias, weights in pull.ALIASES.items():
        pulled = is_pulled(weights)
        status = f"pulled ({weights.size / 1e6:.0f} MB); {run}"
        why = status if pulled else f"not pulled yet: reground models pull {alias}"
        listings.append(Listing(f"gguf/{alias}", pulled and not missing, missing or why))
    files = await asyncio.to_thread(pull.other_files)
    return listings + [
        Listing(f"gguf/{path.name}", not missing, missing or f"in {path.parent}; {run}") for path in files
    ]


class GgufModel:
    """A language model in this process.

    `slots` calls decode together and share the weights; further calls wait. Instances with the same file and options
    share one engine. A cancelled call frees its slot at the next token. Log-probabilities are the model's before
    temperature and top-p. Several tokens that form one character are merged, with the last one's log-probability.
    """

    def __init__(self, model: str, options: ModelOptions) -> None:
        self.name = f"gguf/{model}"
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
        if sampling.logprobs and self._options.lookup:  # llama.cpp does not tell those of the words that were guessed
            raise CapabilityError(f"{self.name} gives no log-probabilities with lookup: leave lookup out")
        engine = self._engine or await self._open()
        cancelled = threading.Event()
        # Control tokens are broken, which llama.cpp would otherwise read as such.
        turns = [{"role": m.role, "content": neutralise(m.content, extra=self._special)} for m in messages]
        try:
            work = partial(copy_context().run, self._decode, engine, turns, sampling, cancelled)
            replies = await asyncio.wrap_future(engine.threads.submit(work))
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return priced(replies, self.price)

    async def aclose(self) -> None:
        """Release the engine; the last release frees its memory. A later call loads it again.

        In a task that is being cancelled, as by Ctrl-C, it does not wait: the engine first ends the batch that it
        reads, which takes seconds with a large model, and nothing can stop it.
        """
        engines, self._engine = [self._engine], None
        if being_cancelled():
            threading.Thread(target=engines.clear, name=THREADS, daemon=True).start()
        else:
            await asyncio.to_thread(engines.clear)  # in another thread, because ending an engine may wait for a batch

    async def _open(self) -> Engine:
        path = await pull.pulled(self._model)
        engine, self._special = await in_daemon(partial(self._load, path), name=THREADS)
        self._engine = engine
        return engine

    def _load(self, path: Path) -> tuple[Engine, tuple[str, ...]]:
        header, options = read_header(path), self._options
        settings = EngineSettings(
            path,
            slots=options.slots or SLOTS,
            context=options.context or min(header.context or CONTEXT, CONTEXT),
            threads=options.threads,
            adapter=options.adapter,
            lookup=options.lookup,
        )
        return shared(settings), header.special

    def _decode(
        self, engine: Engine, turns: list[dict[str, str]], sampling: Sampling, cancelled: threading.Event
    ) -> list[Reply]:
        """The replies of one call, in one of the engine's threads: a streamed request for every `slots` replies.

        The prompt counts once for all replies.
        """
        replies: list[Reply] = []
        usage = Usage(calls=1)
        while len(replies) < sampling.n:
            number = min(engine.slots, sampling.n - len(replies))
            # llama.cpp loses the log-probabilities of tokens that may begin a stop string, so with log-probabilities
            # stop strings are searched here.
            stream = _Stream(number, sampling.stop if sampling.logprobs else (), cancelled.is_set)
            engine.chat(_request(turns, sampling, number, first=len(replies)), stream)
            if cancelled.is_set():
                raise ModelError("the call was cancelled")
            if (error := stream.error) is not None:
                if error.get("type") != "exceed_context_size_error":
                    raise ModelError(f"{self.name}: {error.get('message', error)}")
                raise ContextLengthExceeded(
                    f"the prompt has {error.get('n_prompt_tokens')} tokens and {self.name} has room for "
                    f"{error.get('n_ctx')} in each of its {engine.slots} slots: retrieve fewer or shorter passages, or "
                    "set a larger context"
                )
            if not stream.finished:
                raise ModelError(f"{self.name}: llama.cpp stopped before the reply was complete")
            if not replies:
                usage += Usage(prompt=stream.prompt, cached=stream.cached)
            usage += Usage(completion=max(stream.counted, stream.seen))
            replies += stream.replies(logprobs=sampling.logprobs)
        return [replies[0].model_copy(update={"usage": usage}), *replies[1:]]


class _Stream:
    """Gathers a stream's chunks into replies. Called with a chunk, it returns whether to stop reading."""

    def __init__(self, number: int, stop: tuple[str, ...], cancelled: Callable[[], bool]) -> None:
        self._number, self._stop, self._cancelled = number, stop, cancelled
        self._joining = Joining(hearing.get())
        self.counted = self.seen = 0  # tokens, and pieces: the stream may be cut before llama.cpp counts all replies
        self.prompt = self.cached = 0
        self.error: Mapping[str, Any] | None = None

    def __call__(self, chunk: Mapping[str, Any]) -> bool:
        self._joining.add(chunk)
        self.error = self._joining.whole.get("error")
        if progress := chunk.get("prompt_progress"):
            self.prompt, self.cached = progress["total"], progress["cache"]
        if usage := chunk.get("usage"):
            self.prompt, self.cached = usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
            self.counted += usage["completion_tokens"]
        for part in chunk.get("choices", ()):
            content = part["delta"].get("content") or ""
            self.seen += bool(content or part["delta"].get("reasoning_content"))
            choice = self._joining.choices[part["index"]]
            end = choice["message"].get("content") or ""
            if any(stop in end[-len(stop) - len(content) :] for stop in self._stop):
                choice["finish_reason"] = "stop"
        return self._cancelled() or (bool(self._stop) and self.finished)

    @property
    def finished(self) -> bool:
        """Whether every reply has ended."""
        ended = (bool(choice.get("finish_reason")) for choice in self._joining.choices.values())
        return sum(ended) == self._number

    def replies(self, *, logprobs: bool) -> list[Reply]:
        """The replies, without what came behind a stop string."""
        replies = [ended_at(reply_of(choice), self._stop) for _, choice in sorted(self._joining.choices.items())]
        if logprobs:
            replies = [each.model_copy(update={"token_logprobs": each.token_logprobs or ()}) for each in replies]
        return replies


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
        request |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "samplers": ["temperature", "top_p"]}
    if sampling.seed is not None:
        # llama.cpp gives a call's replies consecutive seeds, so seeds are spread, or neighbouring ones share replies.
        digest = hashlib.blake2b(f"{sampling.seed}:{first}".encode(), digest_size=4).digest()
        request["seed"] = int.from_bytes(digest, "little") >> 1
    if sampling.grammar is not None:
        request |= grammar_parameter("grammar", sampling.grammar)
    if sampling.logprobs:
        request |= {"logprobs": True, "top_logprobs": 1}
    elif sampling.stop:
        request["stop"] = list(sampling.stop)
    return request


_BATCH, _BATCH_OF_A_CARD = 128, 512
"""Prompt tokens that are read between two looks whether the call was cancelled, and two reports of how far it is. A
processor reads 128 at once as fast as 512, and needs one to four seconds for them."""
_LOOKED_UP, _GUESSED = 3, 5
"""Lookup: the last three tokens are looked for in the text so far, and the five that followed there are guessed."""


@dataclass(frozen=True)
class EngineSettings:
    """What is loaded and how.

    path: a GGUF file. slots: calls that decode together. context: tokens a slot. threads: None leaves the choice.
    adapter: a LoRA adapter, a GGUF file. lookup: guess the next tokens from the text so far, and check several at once.
    """

    path: Path
    slots: int
    context: int
    threads: int | None = None
    adapter: Path | None = None
    lookup: bool = False


_engines: WeakValueDictionary[EngineSettings, Engine] = WeakValueDictionary()
_loading = threading.Lock()


class Engine:
    """A loaded model. Calls block and may come from any thread; up to `slots` of them decode together."""

    def __init__(self, settings: EngineSettings) -> None:
        self.slots = settings.slots
        self._server: Any = _start(settings)
        # More threads than slots, so that the next prompts are tokenized while all slots are busy.
        self.threads = ThreadPoolExecutor(max_workers=2 * settings.slots, thread_name_prefix=THREADS)

    def chat(self, request: dict[str, Any], on_chunk: Callable[[Mapping[str, Any]], bool]) -> None:
        """Stream one chat completion into `on_chunk` until it ends or `on_chunk` returns True."""
        server = self._server
        if server is None:
            raise ModelError("the engine was closed")
        try:
            server.handle_chat_completions(request, on_chunk)
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"llama.cpp refused the call: {error}") from error

    def close(self) -> None:
        """Free the memory, after the running calls have ended."""
        self.threads.shutdown(wait=True, cancel_futures=True)
        self._server = None


def shared(settings: EngineSettings) -> Engine:
    """The process's engine with these settings. Blocks while it loads."""
    adapter = settings.adapter and settings.adapter.resolve()
    settings = replace(settings, path=settings.path.resolve(), adapter=adapter)
    with _loading:
        engine = _engines.get(settings)
        if engine is None:
            engine = _engines[settings] = Engine(settings)
        return engine


def threads_of(threads: int | None) -> tuple[int, int]:
    """The threads that decode and those that read prompts. threads: the user's number, else as many as are best.

    Decoding threads wait for each other after every layer, so if one lacks a core, all wait: one core is left for
    everything else. Prompts are read hundreds of tokens at a time, so a wait matters little there.
    """
    cores = physical_cores()
    return threads or max(1, cores - 1), threads or cores


def physical_cores() -> int:
    """Cores that this process may use; hyper-threads of one core count once, and a container's quota holds."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    siblings = {_read(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list") for number in allowed}
    cores = len(allowed) if "" in siblings else len(siblings)
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = min(cores, -(-int(quota) // int(period)))
    return max(1, cores)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start(settings: EngineSettings) -> Any:
    xllamacpp = library()
    parameters = parameters_of(settings)
    # The engine also listens on a loopback port, which is not needed: a secret key closes it.
    parameters.api_keys = [secrets.token_hex(32)]
    parameters.n_threads_http = 1
    try:
        with _signals_kept():
            server = xllamacpp.Server(parameters)
        # Wait until the engine's loop runs: a loop that is ended before it has begun never ends.
        server.handle_completions({"prompt": ".", "max_tokens": 1})
        return server
    except RuntimeError as error:
        raise ModelError(
            f"llama.cpp could not load {settings.path}: the file is damaged, of a family that it does not know, or too "
            f"large for the memory ({settings.slots} slots of {settings.context} tokens)"
            + ("" if settings.adapter is None else f"; or the adapter {settings.adapter} is not of this model")
        ) from error


def parameters_of(settings: EngineSettings) -> Any:
    """llama.cpp's own settings for these."""
    xllamacpp = library()
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(settings.path)
    if settings.adapter is not None:
        parameters.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(settings.adapter), 1.0)]
    parameters.n_parallel = settings.slots
    parameters.n_ctx = settings.slots * settings.context
    has_card = any("GPU" in device["type"].name for device in xllamacpp.get_device_info())
    parameters.n_batch = _BATCH_OF_A_CARD if has_card else _BATCH
    # The cache of prompts that lost their slot: after a cancelled call it can give one prompt the state of another.
    parameters.cache_ram_mib = 0
    parameters.cpuparams.n_threads, parameters.cpuparams_batch.n_threads = threads_of(settings.threads)
    if settings.lookup:
        guess = parameters.speculative
        guess.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        guess.ngram_simple.size_n, guess.ngram_simple.size_m = _LOOKED_UP, _GUESSED
    parameters.warmup = False
    parameters.verbosity = -1
    parameters.ui = False
    return parameters


def library() -> Any:
    """Import llama.cpp with OpenMP threads that sleep while they wait, unless the user chose otherwise.

    Spinning threads, OpenMP's default, are a little faster alone, and ten times slower once anything else wants a core.
    OpenMP reads the variable only when it is loaded, so it is removed again afterwards.
    """
    unset = not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
    if unset:
        os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        import xllamacpp
    finally:
        if unset:
            del os.environ["OMP_WAIT_POLICY"]
    return xllamacpp


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the handlers of SIGINT and SIGTERM: with the engine's own, Ctrl-C would never reach Python.

    Python can only set handlers from its main thread, and only its own, so the C library does it.
    """
    libc = ctypes.CDLL(None)
    handlers = {number: ctypes.create_string_buffer(512) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, action in handlers.items():
        libc.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in handlers.items():
            libc.sigaction(int(number), action, None)


@atexit.register
def _close_all() -> None:
    """Let engines finish what they do and close those that are open, before the interpreter ends their threads."""
    for thread in threading.enumerate():
        if thread.name == THREADS:  # it loads an engine or ends one, for a task that was cancelled
            thread.join()
    for engine in list(_engines.values()):
        engine.close()


_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4  # token types
_TOKENS, _TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
_CONTEXT = ".context_length"  # behind the name of the architecture
# Several times today's largest, so that a damaged file cannot use up memory or time.
_MOST_BYTES = 64 << 20
_MOST_ITEMS = 4 << 20


@dataclass(frozen=True)
class Header:
    """context: tokens that the model was trained for. special: texts that its tokenizer reads as one control token."""

    context: int
    special: tuple[str, ...]


def read_header(path: Path) -> Header:
    """Read a GGUF file's description of its model, without the weights. Raises DataError for a damaged or other file.

    The format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): a header of magic, version and two counts,
    then key-value pairs; strings and arrays begin with their lengths. The format's own library takes tens of seconds
    for a large vocabulary and never returns on some damaged files, so the three values needed are read here.
    """
    try:
        with path.open("rb") as source, mmap(source.fileno(), 0, access=ACCESS_READ) as data:
            return _HeaderReader(data).header()
    except OSError as error:
        raise DataError(f"cannot read the model: {error.strerror or error}", path=path) from error
    except (struct.error, ValueError) as error:
        raise DataError(f"not a GGUF file, or a damaged one: {error}", path=path) from error


class _HeaderReader:
    """Reads a header once, from its beginning. Raises ValueError or struct.error if it is damaged."""

    def __init__(self, data: mmap) -> None:
        self._data = data
        self._end = min(len(data), _MOST_BYTES)
        self._at = 0

    def header(self) -> Header:
        """The needed values, with their types checked."""
        if self._data[self._step(4) : 4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        if (version := self._scalar("I")) not in (2, 3):
            raise ValueError(f"version {version} of the format is unknown")
        _tensors, count = self._scalar("Q"), self._scalar("Q")
        values: dict[str, Any] = {_CONTEXT: 0, _TOKENS: (), _TYPES: ()}
        for _ in range(count):
            key = self._string()
            name = _CONTEXT if key.endswith(_CONTEXT) else key
            value = self._value(keep=name in values)
            if name in values:
                values[name] = value
        context, tokens, types = values.values()
        strange = not isinstance(context, int) or not isinstance(tokens, tuple) or not isinstance(types, tuple)
        if strange or not all(isinstance(each, str) for each in tokens) or not all(isinstance(n, int) for n in types):
            raise ValueError("its context, its tokens or their types are of the wrong type")
        # User-defined tokens that do not look like markup (runs of newlines or spaces) are ordinary text.
        special = tuple(
            token
            for token, kind in zip(tokens, types, strict=False)
            if kind == _CONTROL
            or (kind == _USER_DEFINED and token[:1] in "<[" and token[-1:] in ">]" and len(token) > 2)
        )
        return Header(context, special)

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

    def _value(self, *, keep: bool) -> Any:
        """The next value, an array as a tuple; None if it is not to be kept. Arrays of arrays, which no model has, are
        refused."""
        kind, length = self._scalar("I"), 1
        is_array = kind == _ARRAY
        if is_array:
            kind, length = self._scalar("I"), self._scalar("Q")
        if length > _MOST_ITEMS:
            raise ValueError(f"an array of {length} items")
        values: tuple[Any, ...] = ()
        if kind == _STRING and keep:
            values = tuple(self._string() for _ in range(length))
        elif kind == _STRING:
            for _ in range(length):
                self._step(self._scalar("Q"))
        elif kind in _SCALARS:
            layout = f"<{length}{_SCALARS[kind]}"
            start = self._step(struct.calcsize(layout))
            values = struct.unpack_from(layout, self._data, start) if keep else ()
        else:
            raise ValueError(f"a value of the unknown type {kind}")
        if not keep:
            return None
        return values if is_array else values[0]

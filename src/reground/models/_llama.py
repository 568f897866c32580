"""One llama.cpp engine in this process: a model's weights, its slots, and the threads that wait for them."""

from __future__ import annotations

import atexit
import ctypes
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from reground.core.errors import ModelError

T = TypeVar("T")
Chunk = Mapping[str, Any]

_BATCH = 512  # prompt tokens between two checks for cancellation
_CACHE_MIB = 512  # memory for prompts that lost their slot

THREADS = "llama"
"""What the names of an engine's threads begin with. A process that is interrupted ends without waiting for them."""


@dataclass(frozen=True)
class Settings:
    """What is loaded and how.

    path: a GGUF file. slots: calls that decode together. context: tokens a slot. threads: None leaves the choice.
    adapter: a LoRA adapter, a GGUF file.
    """

    path: Path
    slots: int
    context: int
    threads: int | None = None
    adapter: Path | None = None


_engines: WeakValueDictionary[Settings, Engine] = WeakValueDictionary()
_loading = threading.Lock()


class Engine:
    """A loaded model. Calls block and may come from any thread; up to `slots` of them decode together."""

    def __init__(self, settings: Settings) -> None:
        self.slots = settings.slots
        self.context = settings.context
        self._server: Any = _start(settings)
        # More threads than slots, so that the next prompts are tokenized while all slots are busy.
        self._pool = ThreadPoolExecutor(max_workers=2 * settings.slots, thread_name_prefix=THREADS)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run something that calls `chat` in one of the engine's threads."""
        return self._pool.submit(work)

    def chat(self, request: dict[str, Any], on_chunk: Callable[[Chunk], bool]) -> None:
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
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._server = None


def shared(settings: Settings) -> Engine:
    """The process's engine with these settings. Blocks while it loads."""
    adapter = settings.adapter and settings.adapter.resolve()
    settings = replace(settings, path=settings.path.resolve(), adapter=adapter)
    with _loading:
        engine = _engines.get(settings)
        if engine is None:
            engine = _engines[settings] = Engine(settings)
        return engine


def decoding_threads() -> int:
    """All cores but one, which is left for everything else.

    Decoding threads wait for each other after every layer, so if one lacks a core, all wait. Prompts are read hundreds
    of tokens at a time, so a wait matters little there, and all cores are used.
    """
    return max(1, physical_cores() - 1)


def threads_of(threads: int | None) -> tuple[int, int]:
    """The threads that decode and those that read prompts. threads: the user's number; None leaves the choice."""
    return threads or decoding_threads(), threads or physical_cores()


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


def _start(settings: Settings) -> Any:
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


def parameters_of(settings: Settings) -> Any:
    """llama.cpp's own settings for these."""
    xllamacpp = library()
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(settings.path)
    if settings.adapter is not None:
        parameters.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(settings.adapter), 1.0)]
    parameters.n_parallel = settings.slots
    parameters.n_ctx = settings.slots * settings.context
    parameters.n_batch = _BATCH
    parameters.cache_ram_mib = _CACHE_MIB
    parameters.cpuparams.n_threads, parameters.cpuparams_batch.n_threads = threads_of(settings.threads)
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
    if sys.platform == "win32":  # pragma: no cover
        yield
        return
    libc = ctypes.CDLL(None)
    kept = {number: ctypes.create_string_buffer(512) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, action in kept.items():
        libc.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            libc.sigaction(int(number), action, None)


@atexit.register
def _close_all() -> None:
    """Let engines finish what they do and close those that are open, before the interpreter ends their threads."""
    for thread in threading.enumerate():
        if thread.name == THREADS:  # it loads an engine or ends one, for a task that was cancelled
            thread.join()
    for engine in list(_engines.values()):
        engine.close()

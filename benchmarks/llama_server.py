"""A llama.cpp server in a process of its own, with nothing in its cache: the wheel's (extra [local]) or a binary.

As a process, with its address as the first line of output:

    python -m benchmarks.llama_server FILE.gguf [--slots 16] [--context 4096] [--threads N]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from reground.core.errors import ConfigurationError, MissingExtra
from reground.downloads import is_pulled
from reground.models import pull

START_SECONDS = 120.0


@dataclass(frozen=True)
class Settings:
    """How the server runs.

    model: a GGUF file. context: tokens a slot. threads: None is the server's own choice. binary: a llama-server, with
    its own defaults for everything else; None is the wheel, with the settings of `gguf/` models.
    """

    model: Path
    slots: int = 16
    context: int = 4096
    threads: int | None = None
    binary: str | None = None


@dataclass(frozen=True)
class Served:
    """A server that runs. url: its base URL. cpu_s: the processor seconds that it has taken, if that can be told."""

    url: str
    cpu_s: Callable[[], float | None] = lambda: None


def weights(model: str, *, binary: str | None) -> Path:
    """The file of a model. Raises MissingExtra or ConfigurationError where it cannot run here; nothing is fetched."""
    if binary is None and importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtra("llama.cpp's server", "local")
    known = pull.ALIASES.get(model.lower())
    if known is not None and not is_pulled(known):
        raise ConfigurationError(f"{model} is not here yet: reground models pull {model}")
    if known is None and not Path(model).is_file():
        raise ConfigurationError(f"there is no file {model}")
    return pull.pull(model)


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[Served]:
    """A server until the end of the block. Raises RuntimeError if it does not start."""
    command, url = _own(settings) if settings.binary is None else _foreign(settings, settings.binary)
    output = subprocess.PIPE if settings.binary is None else subprocess.DEVNULL
    with subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            url = url or (process.stdout.readline().strip() if process.stdout is not None else "")
            _await_health(url, process)
            yield Served(f"{url}/v1", lambda: sum(psutil.Process(process.pid).cpu_times()[:2]))
        finally:
            process.kill()


def _own(settings: Settings) -> tuple[list[str], str]:
    command = [sys.executable, "-m", "benchmarks.llama_server", str(settings.model)]
    command += ["--slots", str(settings.slots), "--context", str(settings.context)]
    return command + ([] if settings.threads is None else ["--threads", str(settings.threads)]), ""


def _foreign(settings: Settings, binary: str) -> tuple[list[str], str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [binary, "-m", str(settings.model), "--host", "127.0.0.1", "--port", str(port), "--no-webui"]
    command += ["-np", str(settings.slots), "-c", str(settings.slots * settings.context)]
    if settings.threads is not None:
        command += ["-t", str(settings.threads), "-tb", str(settings.threads)]
    return command, f"http://127.0.0.1:{port}"


def _await_health(url: str, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + START_SECONDS
    while url and process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(f"{url}/health", timeout=9):
            return
        time.sleep(0.05)
    raise RuntimeError("llama.cpp's server did not start")


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until killed, with the settings of `gguf/` models."""
    parser = argparse.ArgumentParser(description="llama.cpp's server of the extra [local], for benchmarks")
    parser.add_argument("model", type=Path)
    parser.add_argument("--slots", type=int, default=Settings.slots)
    parser.add_argument("--context", type=int, default=Settings.context)
    parser.add_argument("--threads", type=int)
    asked = parser.parse_args(arguments)
    from reground.models import gguf

    engine = gguf.EngineSettings(asked.model, asked.slots, asked.context, asked.threads)
    server = gguf.library().Server(gguf.parameters_of(engine))
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()

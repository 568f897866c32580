"""Files: JSON lines that are written whole or not at all, fingerprints, and damaged weights.

A line is one JSON object that any JSON reader can read. Its last field, "sum", is the CRC-32 (eight hexadecimal digits)
of the line's UTF-8 bytes without that field and without the line end: of `{"id":"a"}` for
`{"id":"a","sum":"9aa4e643"}`. A line of another program has no such field and is read unchecked. Fingerprints tell
whether weights, or code, are still those that were used before.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType, MethodType

from reground.core.errors import DataError, StorageError

_SUM = re.compile(rb',"sum":"([0-9a-f]{8})"\}\Z')


def with_sum(text: str) -> bytes:
    """A JSON object's text as a line, with its checksum and its line end."""
    data = text.encode()
    return b'%s,"sum":"%08x"}\n' % (data[:-1], zlib.crc32(data))


def without_sum(line: bytes) -> bytes:
    """A line's JSON object without its checksum. Raises ValueError if the checksum does not match."""
    data = line.strip()
    found = _SUM.search(data, max(0, len(data) - 18))
    if found is None:
        return data
    data = data[: found.start()] + b"}"
    if zlib.crc32(data) != int(found[1], 16):
        raise ValueError("its checksum does not match, so the line is damaged")
    return data


def append_line(path: Path, text: str) -> None:
    """Add one JSON object to a file of lines, whole or not at all. Raises StorageError if there is no room.

    If a crash left the last line without a line end, the new line still begins on its own.
    """
    line = with_sum(text)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _lock(handle)
            end = os.fstat(handle).st_size
            if end and os.pread(handle, 1, end - 1) != b"\n":
                line = b"\n" + line
            _write_whole(handle, line, end)
        finally:
            os.close(handle)


def _write_whole(handle: int, data: bytes, end: int) -> None:
    """Write everything, or undo a partial write."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(handle, left) :]
    except BaseException:
        with suppress(OSError):
            os.ftruncate(handle, end)
        raise


def _lock(handle: int) -> None:
    """Lock the file, because several processes may add to it. Closing the handle unlocks it."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    with suppress(OSError):  # some network file systems have none
        fcntl.flock(handle, fcntl.LOCK_EX)


def replace_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Replace a file by these lines: a reader sees the old file or the new one. Raises StorageError."""
    part = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")  # another process has its own
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
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


def read_lines(path: Path, what: str) -> Iterator[tuple[int, bytes]]:
    """A file's non-blank lines with their numbers. Raises DataError if the file cannot be opened."""
    try:
        lines = path.open("rb")
    except OSError as error:
        raise DataError(f"cannot read {what}: {error.strerror}", path=path) from error
    with lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line


def set_aside(path: Path, check: Callable[[bytes], object]) -> list[str]:
    """Move unreadable lines to a file beside this one. Returns a message for the user for each.

    check: reads a line without a checksum, and raises ValueError if it is damaged. A whole last line without a line end
    gets one; a last line that was cut short is dropped.
    """
    broken, ended = _broken(path, check)
    if not broken and ended:
        return []
    aside = path.with_name(path.name + ".damaged")
    notices = []
    for number, line in broken.items():
        if line.endswith(b"\n"):
            with writing(aside), aside.open("ab") as out:
                out.write(line)
            what = f"the line cannot be read and has been set aside in {aside.name}"
        else:
            what = "the last line was cut short and has been taken off"
        notices.append(f"{path}:{number}: {what}; its question is run again")
    good = (line for number, line in read_lines(path, "lines") if number not in broken)
    replace_lines(path, (line if line.endswith(b"\n") else line + b"\n" for line in good))
    return notices


def _broken(path: Path, check: Callable[[bytes], object]) -> tuple[dict[int, bytes], bool]:
    """The lines that cannot be read, by number, and whether the last line has its end."""
    broken: dict[int, bytes] = {}
    line = b"\n"
    for number, line in read_lines(path, "lines"):
        try:
            data = without_sum(line)
            if len(data) == len(line.strip()):
                check(data)
        except ValueError:
            broken[number] = line
    return broken, line.endswith(b"\n")


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
        digest.update(f"{name}\0{size}\0".encode())
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
    told = repr(_told(function))
    return hashlib.blake2b(told.encode(errors="backslashreplace"), digest_size=4).hexdigest()


_DEEPEST = 6
"""Objects within objects that a fingerprint of a function looks into."""


def _told(value: object, *, depth: int = 0) -> object:
    """A value as nested tuples whose repr is the same in every process."""
    if value is None or value is Ellipsis or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    name = getattr(value, "__qualname__", type(value).__qualname__)
    if depth > _DEEPEST:
        return name
    parts = _parts_of(value)
    if parts is None and depth > 1:  # neither the object that is called nor the one whose method is
        return name
    if parts is None:
        own = getattr(type(value).__call__, "__code__", None) if callable(value) else None
        parts = (name, own, getattr(value, "__dict__", None))
    told = [_told(part, depth=depth + 1) for part in parts]
    return tuple(sorted(told, key=repr) if isinstance(value, (Mapping, AbstractSet)) else told)


def _parts_of(value: object) -> Iterable[object] | None:
    """What a function or a collection consists of; None for another object."""
    match value:
        case CodeType():
            return value.co_code, value.co_names, value.co_consts
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
            return value.__code__, value.__defaults__, value.__kwdefaults__, cells
        case partial():
            return "partial", value.func, value.args, value.keywords
        case MethodType():
            return value.__func__, value.__self__
        case Mapping():
            return value.items()
        case AbstractSet() | list() | tuple():
            return value
    return None


def _is_filled(cell: object) -> bool:
    try:
        _ = cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:
        return False
    return True


_LONGEST = 300
"""The most characters of another library's message."""
_HEADER = 100_000_000
"""The most bytes of a safetensors header, as its library has it."""


def trouble(error: Exception, *places: str | Path | None) -> str:
    """What went wrong, in one line: the damaged safetensors file below the folders, else what the error says."""
    for place in places:
        for file in sorted(Path(place).rglob("*.safetensors")) if place is not None else ():
            if not _is_whole(file):
                return f"{file} is damaged or was not written whole"
    return " ".join(str(error).split())[:_LONGEST] or type(error).__name__


def _is_whole(file: Path) -> bool:
    """Whether a file's header can be read and its tensors end where the file ends."""
    size = file.stat().st_size
    with file.open("rb") as data:
        length = int.from_bytes(data.read(8), "little")
        if not 2 <= length <= min(size - 8, _HEADER):
            return False
        try:
            header = json.loads(data.read(length))
            ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return False
    return 8 + length + max(ends, default=0) == size

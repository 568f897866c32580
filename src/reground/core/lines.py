"""JSON lines on disk: written whole or not at all, each with a checksum.

A line is one JSON object that any JSON reader can read. Its last field, "sum", is the CRC-32 (eight hexadecimal digits)
of the line's UTF-8 bytes without that field and without the line end: of `{"id":"a"}` for
`{"id":"a","sum":"9aa4e643"}`. A line of another program has no such field and is read unchecked.
"""

from __future__ import annotations

import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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

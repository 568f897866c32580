"""Makes the standard streams robust: closed ones, a reader that has left (`| head`), encodings that lack characters."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Unread(io.FileIO):
    """Writes to a descriptor, and to nowhere once its reader has left, so that the command keeps its own exit code."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write as much as the system accepts, and return the number of bytes."""
        try:
            return super().write(data)
        except BrokenPipeError:
            to_nowhere(self.fileno())
            return memoryview(data).nbytes


def to_nowhere(descriptor: int) -> None:
    """Redirect a descriptor to the null device."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    if nowhere != descriptor:
        os.close(nowhere)


def steady_streams() -> None:
    """Replace the standard streams of the process. A stream that a caller has replaced stays unchanged."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # closed; otherwise the next open file, say a journal, gets this number and all that is printed
            to_nowhere(descriptor)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    if sys.stdout is sys.__stdout__:
        sys.stdout = _steady(sys.stdout, 1)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _steady(sys.stderr, 2)


def _steady(stream: TextIO | None, descriptor: int) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(_Unread(descriptor, "w", closefd=False)),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=descriptor == 2 or os.isatty(descriptor),
    )

"""Standard streams as a user's shell gives them: closed, left by their reader (`| head`), or of an encoding that lacks characters."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Unread(io.FileIO):
    """Writes to a descriptor; when its reader has left, to nowhere, so that the command ends with its own exit code."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write as much as the system takes."""
        try:
            return super().write(data)
        except BrokenPipeError:
            to_nowhere(self.fileno())
            return memoryview(data).nbytes


def to_nowhere(descriptor: int) -> None:
    """Let a descriptor lead to the null device."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    if nowhere != descriptor:
        os.close(nowhere)


def steady_streams() -> None:
    """Replace the process's standard streams. Those that a caller has put in their place stay as they are."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: else the next file would get this number, a journal say, and what is printed with it
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

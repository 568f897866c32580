"""A file of JSON lines that another process may still be writing: what is new in it, and any line again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reground.core.errors import DataError


class Replaced(Exception):
    """The file is another one now, or shorter: what was read of it no longer counts."""


class Line(NamedTuple):
    """A line and its place. number: from 1. start: its first byte in the file. ended: whether it has its line end."""

    number: int
    start: int
    data: bytes
    ended: bool


@dataclass
class Growing:
    """A file of lines; it need not exist yet."""

    path: Path
    _end: int = 0
    _lines: int = 0
    _file: tuple[int, int] | None = field(default=None)

    def new(self) -> Iterator[Line]:
        """The lines that were not given before. A last line without its end is given, and given again until `keep`.

        Raises Replaced, and DataError if the file cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                self._check(os.fstat(file.fileno()))
                file.seek(self._end)
                for data in file:
                    line = Line(self._lines + 1, self._end, data, data.endswith(b"\n"))
                    if line.ended:
                        self.keep(line)
                    yield line
        except FileNotFoundError:
            if self._file is not None:
                raise Replaced from None
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path=self.path) from None

    def keep(self, line: Line) -> None:
        """Count a line as given: it is whole."""
        self._end, self._lines = line.start + len(line.data), line.number

    def line(self, start: int, length: int) -> bytes:
        """A line again. Raises DataError."""
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                return file.read(length)
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path=self.path) from None

    def _check(self, found: os.stat_result) -> None:
        file = (found.st_dev, found.st_ino)
        if self._file is not None and (file != self._file or found.st_size < self._end):
            raise Replaced
        self._file = file

"""Runs a program that reads a file, within a bound in time, so that what the tick raises ends it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

_WAIT_SECONDS = 0.05
_QUIET = subprocess.DEVNULL


class TooSlow(Exception):
    """A program took longer than it may."""


def run(
    command: Sequence[str],
    tick: Callable[[], None],
    *,
    seconds: float,
    stdin: IO[bytes] | int = _QUIET,
    stdout: IO[bytes] | int = _QUIET,
    env: Mapping[str, str] | None = None,
) -> int:
    """Run a program to its end, and return its exit status. env: what is added to its environment. Raises TooSlow, and
    what the tick raises; the program is killed then."""
    ends = time.monotonic() + seconds
    one = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # tesseract's threads wait for each other more than they help
    one |= env or {}
    with subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=_QUIET, env=one) as program:
        try:
            while True:
                try:
                    return program.wait(_WAIT_SECONDS)
                except subprocess.TimeoutExpired:
                    tick()
                if time.monotonic() > ends:
                    raise TooSlow
        except BaseException:
            program.kill()
            raise

"""Command lines with bad values of every kind. Nothing is uncaught.

Every attempt runs in a worker, a process of its own, with a time bound and a limit on memory: an attempt that hangs or
kills its process is a promise that fell, and the next one gets a new worker.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import IO

from pydantic import TypeAdapter

from tests.campaign import fuzz_commands
from tests.campaign.runner import Part, Trial

ROOT = Path(__file__).resolve().parents[2]
_TRIALS = TypeAdapter(list[Trial])


SECONDS = 60
"""What one attempt may take. It takes well below one second; a machine that is busy with other work needs room."""
MEMORY = 6 << 30
"""Bytes of address space; what asks for more gets a MemoryError."""


class Worker:
    """One worker process, started when it is needed and again when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = TemporaryFile()  # noqa: SIM115  (the worker writes to it for as long as it lives)

    def attempt(self, number: int) -> list[Trial]:
        """The trials of one attempt; one that fell where the worker did not come back."""
        if self._process is None:
            self._said = TemporaryFile()  # noqa: SIM115
            command = [sys.executable, "-X", "faulthandler", "-m", "tests.campaign.fuzz"]
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{number}\n".encode())
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        return _TRIALS.validate_json(line) if line.endswith(b"\n") else [self._died(number)]

    def _died(self, number: int) -> Trial:
        assert self._process is not None
        code = self._process.wait()
        self._process = None
        self._said.seek(0)
        why = self._said.read()[-3000:].decode("utf-8", "replace")
        return Trial("A command that ends the process or hangs", False, f"number {number}: exit {code}: {why}")


_WORKER = Worker()


async def attempt(number: int) -> Sequence[Trial]:
    """One command line."""
    return await asyncio.to_thread(_WORKER.attempt, number)


PART = Part(
    name="fuzz",
    promise="No command line ends in a stack trace, an internal error or a hang",
    short=16,
    long=4_000,
    attempt=attempt,
)


def main() -> None:
    """The worker: answer each number on a line of standard input with the attempt's trials as one line of JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an attempt prints is no answer
    for line in sys.stdin:
        folder = Path(mkdtemp(prefix="reground-fuzz-"))
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            trials = fuzz_commands.attempt(int(line), folder)
        finally:
            faulthandler.cancel_dump_traceback_later()
            shutil.rmtree(folder, ignore_errors=True)
        trials = [replace(each, what=each.what.encode("utf-8", "backslashreplace").decode()) for each in trials]
        answers.write(_TRIALS.dump_json(trials) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()

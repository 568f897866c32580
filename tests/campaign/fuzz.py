"""Bad input of every kind: command lines, data files, files read back, documents, replies. Nothing is uncaught.

Every attempt runs in a worker, a process of its own, with a time bound and a limit on memory: an attempt that hangs or
kills its process is a promise that fell, and the next one gets a new worker.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from pydantic import TypeAdapter

from tests.campaign.trial import Part, Trial

ROOT = Path(__file__).resolve().parents[2]
_TRIALS = TypeAdapter(list[Trial])


class Worker:
    """One worker process, started when it is needed and again when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = TemporaryFile()  # noqa: SIM115  (the worker writes to it for as long as it lives)

    def attempt(self, area: str, number: int) -> list[Trial]:
        """The trials of one attempt; one that fell where the worker did not come back."""
        if self._process is None:
            self._said = TemporaryFile()  # noqa: SIM115
            command = [sys.executable, "-X", "faulthandler", "-m", "tests.campaign.fuzz_worker"]
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{area} {number}\n".encode())
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        return _TRIALS.validate_json(line) if line.endswith(b"\n") else [self._died(area, number)]

    def _died(self, area: str, number: int) -> Trial:
        assert self._process is not None
        code = self._process.wait()
        self._process = None
        self._said.seek(0)
        why = self._said.read()[-3000:].decode("utf-8", "replace")
        return Trial(f"{area} that ends the process or hangs", False, f"number {number}: exit {code}: {why}")


_WORKER = Worker()


async def _attempt(area: str, number: int) -> Sequence[Trial]:
    return await asyncio.to_thread(_WORKER.attempt, area, number)


def part(area: str, promise: str, *, short: int, long: int) -> Part:
    """The part of one area; `fuzz_worker` has its attempts."""
    return Part(f"fuzz-{area}", promise, short, long, partial(_attempt, area))


PARTS = (
    part("commands", "No command line ends in a stack trace, an internal error or a hang", short=16, long=4_000),
    part("data", "A benchmark file is read, or a line names its error", short=120, long=8_000),
    part(
        "files",
        "A file of reground that something else changed is read, or refused with its name",
        short=32,
        long=4_000,
    ),
    part("documents", "A document is read or skipped, whatever its bytes", short=10, long=1_500),
    part("replies", "A parser reads or refuses every reply of a model, in bounded time", short=150, long=8_000),
)

"""Command lines with bad values of every kind. Nothing is uncaught.

Every attempt runs in a worker, a process of its own, with a time bound and a limit on memory: an attempt that hangs or
kills its process is a promise that fell, and the next one gets a new worker. The worker's stack is then on standard
error.
"""

from __future__ import annotations

import asyncio
import faulthandler
import multiprocessing
import os
import resource
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

from tests.campaign import fuzz_commands
from tests.campaign.runner import Part, Trial

SECONDS = 60
"""What one attempt may take. It takes well below one second; a machine that is busy with other work needs room."""
MEMORY = 6 << 30
"""Bytes of address space; what asks for more gets a MemoryError."""
_workers: list[ProcessPoolExecutor] = []


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)


def _tried(number: int) -> list[Trial]:
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        with tempfile.TemporaryDirectory(prefix="reground-fuzz-", ignore_cleanup_errors=True) as folder:
            trials = fuzz_commands.attempt(number, Path(folder))
    finally:
        faulthandler.cancel_dump_traceback_later()
    return [replace(trial, what=trial.what.encode("utf-8", "backslashreplace").decode()) for trial in trials]


async def attempt(number: int) -> Sequence[Trial]:
    """One command line; one trial that fell where its worker did not come back."""
    if not _workers:
        spawning = multiprocessing.get_context("spawn")
        _workers.append(ProcessPoolExecutor(1, mp_context=spawning, initializer=_limit))
    try:
        return await asyncio.wrap_future(_workers[0].submit(_tried, number))
    except BrokenProcessPool as error:
        _workers.pop().shutdown()
        return [Trial("A command that ends the process or hangs", False, f"number {number}: {error}")]


PART = Part(
    name="fuzz",
    promise="No command line ends in a stack trace, an internal error or a hang",
    short=16,
    long=4_000,
    attempt=attempt,
)

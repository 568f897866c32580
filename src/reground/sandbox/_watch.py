"""Watches what per-process limits cannot bound: processes together, memory together, files together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from reground.core.programs import Verdict

SHARED_MIB = 64
SHARED_FILES = 2000
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Watch:
    """Samples a process tree and a shared folder, more and more seldom, until cancelled."""

    def __init__(self, pid: int, memory_mib: int, processes: int, shared: Path | None) -> None:
        self.peak_mib = 0.0
        self._pid, self._memory, self._processes, self._shared = pid, memory_mib, processes, shared

    async def follow(self, stop: Callable[[Verdict, str], None]) -> None:
        """Sample until cancelled; `stop` is called once a limit is passed."""
        pause = 0.02
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.1)
            found = self.sample()
            if found is not None:
                stop(*found)
                return

    def sample(self) -> tuple[Verdict, str] | None:
        """One look; the verdict and the reason when a limit is passed."""
        pids = descendants(self._pid, most=self._processes + 200)
        memory = sum(map(resident_mib, pids))
        if memory > self._memory:
            memory = sum(map(proportional_mib, pids))
        self.peak_mib = max(self.peak_mib, memory)
        if memory > self._memory + 32:
            return Verdict.MEMORY, f"used more than {self._memory} MiB"
        if len(pids) > self._processes + 4:
            return Verdict.EXCEPTION, f"started more than {self._processes} processes"
        if self._shared is not None and overfull(self._shared):
            return Verdict.OUTPUT_LIMIT, f"wrote more than {SHARED_MIB} MiB or {SHARED_FILES} files"
        return None


def descendants(pid: int, *, most: int) -> list[int]:
    """A process's descendants, at most about `most` of them."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < most:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        return [int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()]
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def resident_mib(pid: int) -> float:
    """A process's resident anonymous memory; shared pages count for every process that has them."""
    fields = _read(f"/proc/{pid}/statm").split()
    return (int(fields[1]) - int(fields[2])) * _PAGE_MIB if len(fields) > 2 else 0.0


def proportional_mib(pid: int) -> float:
    """A process's memory with shared pages divided among those that share them."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return resident_mib(pid)


def overfull(folder: Path) -> bool:
    """Whether a folder holds more than a program may leave in it, or something that cannot be looked at."""
    size = count = 0
    waiting = [str(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            return True
        for entry in entries:
            count += 1
            size += entry.stat(follow_symlinks=False).st_blocks * 512 if not _gone(entry) else 0
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
        if count > SHARED_FILES or size > SHARED_MIB * 2**20:
            return True
    return False


def _gone(entry: os.DirEntry[str]) -> bool:
    try:
        entry.stat(follow_symlinks=False)
    except OSError:
        return True
    return False

"""Watches the memory, processes, files and sockets of a whole process tree, which per-process limits cannot limit."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from reground.core.programs import Verdict
from reground.sandbox._folders import SHARED_FILES, SHARED_MIB

MOST_SOCKETS = 64
_SCRATCH = ("tmp", "home", "dev/shm", "box")
_MIB = 2**20


class Watch:
    """Samples a process tree and a shared folder at growing intervals, until cancelled."""

    def __init__(self, pid: int, memory_mib: int, processes: int, shared: Path | None) -> None:
        self.peak_mib = 0.0
        self._pid, self._memory, self._processes, self._shared = pid, memory_mib, processes, shared

    async def follow(self, stop: Callable[[Verdict, str], None]) -> None:
        """Sample until cancelled. Calls `stop` once a limit is exceeded or cannot be checked."""
        pause = 0.02
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.05)
            found = self._checked()
            if found is not None:
                stop(*found)
                return

    def _checked(self) -> tuple[Verdict, str] | None:
        try:
            return self.sample()
        except Exception as error:
            # A program that is not watched has no limits.
            return Verdict.EXCEPTION, f"was stopped because it could not be watched: {type(error).__name__}"

    def sample(self) -> tuple[Verdict, str] | None:
        """Sample once. Returns the verdict and the reason if a limit is exceeded."""
        pids = descendants(self._pid, most=self._processes + 200)
        files_mib, files = in_memory(pids)
        memory = sum(map(resident_mib, pids)) + files_mib
        if memory > self._memory:
            memory = sum(map(proportional_mib, pids)) + files_mib
        self.peak_mib = max(self.peak_mib, memory)
        if memory > self._memory + 32:
            return Verdict.MEMORY, f"used more than {self._memory} MiB"
        if len(pids) > self._processes + 4:
            return Verdict.EXCEPTION, f"started more than {self._processes} processes"
        if pids and sockets(pids[0]) > MOST_SOCKETS:
            return Verdict.OUTPUT_LIMIT, f"opened more than {MOST_SOCKETS} sockets"
        if files > 2 * SHARED_FILES or (self._shared is not None and overfull(self._shared, pids)):
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


def _read(path: str) -> bytes:
    """A file of /proc. It is not decoded: the names that programs choose stand in it, and need not be text."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _sum_mib(path: str, fields: tuple[bytes, ...]) -> float | None:
    """The sum of the named lines, in kB, of a file of /proc; None if it has none."""
    # Of what may end a line, the kernel keeps only \n out of a process's name.
    found = [int(line.split()[1]) for line in _read(path).split(b"\n") if line.startswith(fields)]
    return sum(found) / 1024 if found else None


def resident_mib(pid: int) -> float:
    """A process's resident memory without files. Shared pages count fully for each process."""
    return _sum_mib(f"/proc/{pid}/status", (b"RssAnon:", b"RssShmem:")) or 0.0


def proportional_mib(pid: int) -> float:
    """A process's memory without files. Shared pages are divided among the processes."""
    found = _sum_mib(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))
    return resident_mib(pid) if found is None else found


def in_memory(pids: Iterable[int]) -> tuple[float, int]:
    """MiB and number of files in the sandbox's in-memory folders, including deleted files that are still open."""
    for pid in pids:
        root = f"/proc/{pid}/root"
        # Before the isolation is complete, a process may still see the host's folders.
        if not os.path.exists(f"{root}/harness/inside"):  # noqa: PTH110
            continue
        found = [_usage(f"{root}/{place}") for place in _SCRATCH]
        return sum(mib for mib, _ in found), sum(files for _, files in found)
    return 0.0, 0


def _usage(path: str) -> tuple[float, int]:
    try:
        system = os.statvfs(path)
        # On a disk the numbers would include all other files.
        if not os.path.ismount(path):
            return 0.0, 0
    except OSError:
        return 0.0, 0
    return (system.f_blocks - system.f_bfree) * system.f_frsize / _MIB, system.f_files - system.f_ffree


def sockets(pid: int) -> int:
    """The sockets of a process's network namespace, including those that no process holds any more."""
    return max(0, _read(f"/proc/{pid}/net/unix").count(b"\n") - 1)


def overfull(folder: Path, pids: Iterable[int] = ()) -> bool:
    """Whether a folder exceeds its limits, or cannot be read."""
    if folder.is_mount():
        return False  # the mount limits its size
    seen: dict[int, int] = {}
    waiting = [str(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            return True
        for entry in entries:
            _count(seen, entry.path)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
        if _too_much(seen):
            return True
    device = folder.stat().st_dev
    for pid in pids:
        for name in _deleted(pid):
            _count(seen, name, device)
    return _too_much(seen)


def _too_much(seen: dict[int, int]) -> bool:
    return len(seen) > SHARED_FILES or sum(seen.values()) > SHARED_MIB * _MIB


def _count(seen: dict[int, int], path: str, device: int | None = None) -> None:
    """Add a file to those seen. With a device, only a deleted file on that device."""
    try:
        found = Path(path).stat(follow_symlinks=device is not None)
    except OSError:
        return
    if device is None or (found.st_dev == device and found.st_nlink == 0 and stat.S_ISREG(found.st_mode)):
        seen[found.st_ino] = found.st_blocks * 512


def _deleted(pid: int) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(f"/proc/{pid}/fd")]
    except OSError:
        return []

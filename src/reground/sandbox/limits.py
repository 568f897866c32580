"""Limits of a whole process tree, which per-process limits cannot set, and the folders of an execution.

A control group limits the memory where this process may make one. A watch limits processes, files and sockets, and the
memory where there is no control group; it looks from time to time, so a program can be over a limit for a moment.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import fcntl
import functools
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reground.core.programs import Verdict

PREFIX = "reground-sandbox-"
SHARED_MIB = 64
SHARED_FILES = 2000
_LOCK = "lock"
_ABANDONED_SECONDS = 3600.0
_DETACH = 2
MOST_SOCKETS = 64
_SCRATCH = ("tmp", "home", "dev/shm", "box")
_MIB = 2**20
_SLACK_MIB = 32
"""Memory beyond the limit: of the isolation and the interpreter."""


@dataclass(frozen=True)
class MemoryGroup:
    """A control group of the kernel, version 1 or 2, for one process and its descendants."""

    folder: Path

    def enter(self, command: Sequence[str]) -> list[str]:
        """A command that puts itself into the group, and then becomes the given one."""
        return ["/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def exceeded(self) -> bool:
        """Whether the kernel killed a process because the group had used up its memory."""
        lines = [line for name in ("memory.events", "memory.oom_control") for line in _lines(self.folder / name)]
        return any(line.startswith(b"oom_kill ") and int(line.split()[1]) > 0 for line in lines)

    async def remove(self) -> None:
        """Remove the group once its last process has gone. What remains is for the next sweep."""
        for _ in range(100):
            try:
                self.folder.rmdir()
            except OSError:
                await asyncio.sleep(0.01)
            else:
                return


def make_memory_group(mib: int) -> MemoryGroup | None:
    """A group that may use this much memory, and a little more; None where this process may not make one."""
    parent = find_group_parent()
    if parent is not None:
        with contextlib.suppress(OSError):
            return _make_group(parent, mib)
    return None


def _make_group(parent: Path, mib: int) -> MemoryGroup:
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))
    limit = str((mib + _SLACK_MIB) * _MIB)
    version_1 = (folder / "memory.limit_in_bytes").exists()
    needed = {"memory.limit_in_bytes" if version_1 else "memory.max": limit}
    # Without swap, and all processes at once; kernels that have no such file have no such thing.
    optional = {"memory.memsw.limit_in_bytes": limit, "memory.swap.max": "0", "memory.oom.group": "1"}
    try:
        for name, value in {**needed, **optional}.items():
            if name in needed or (folder / name).exists():
                with (folder / name).open("r+") as file:  # which the kernel has made, or it cannot be limited
                    file.write(value)
    except OSError:
        folder.rmdir()
        raise
    return MemoryGroup(folder)


@functools.cache
def find_group_parent() -> Path | None:
    """The control group below which this process may limit memory: its own, or the one above it."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, place = line.decode().split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup")
        own = root / place.strip("/")
        for parent in (own, own.parent) if own != root else (own,):
            with contextlib.suppress(OSError):
                group = _make_group(parent, _SLACK_MIB)
                entered = subprocess.run(group.enter(["/bin/true"]), capture_output=True, check=False)
                group.folder.rmdir()
                if entered.returncode == 0:
                    return parent
    return None


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
            try:
                excess = self.sample()
            except Exception as error:
                # A program that is not watched has no limits.
                excess = Verdict.EXCEPTION, f"was stopped because it could not be watched: {type(error).__name__}"
            if excess is not None:
                stop(*excess)
                return

    def sample(self) -> tuple[Verdict, str] | None:
        """Sample once. Returns the verdict and the reason if a limit is exceeded."""
        pids = descendants(self._pid, most=self._processes + 200)
        files_mib, files = in_memory(pids)
        memory = sum(map(resident_mib, pids)) + files_mib
        if memory > self._memory:  # shared pages counted once for each process; now they are divided among them
            shares = (_sum_mib(f"/proc/{pid}/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:") for pid in pids)
            memory = sum(share or resident_mib(pid) for pid, share in zip(pids, shares, strict=True)) + files_mib
        self.peak_mib = max(self.peak_mib, memory)
        if memory > self._memory + _SLACK_MIB:
            return Verdict.MEMORY, f"used more than {self._memory} MiB"
        if len(pids) > self._processes + 4:
            return Verdict.EXCEPTION, f"started more than {self._processes} processes"
        # All of the network's, including those that no process holds any more, and a line of headings.
        if pids and len(_lines(f"/proc/{pids[0]}/net/unix")) > MOST_SOCKETS + 1:
            return Verdict.OUTPUT_LIMIT, f"opened more than {MOST_SOCKETS} sockets"
        if files > 2 * SHARED_FILES or (self._shared is not None and overfull(self._shared, pids)):
            return Verdict.OUTPUT_LIMIT, f"wrote more than {SHARED_MIB} MiB or {SHARED_FILES} files"
        return None


def descendants(pid: int, *, most: int) -> list[int]:
    """A process's descendants, at most about `most` of them."""
    pids: list[int] = []
    waiting = [pid]
    while waiting and len(pids) < most:
        with contextlib.suppress(OSError):  # it may end meanwhile
            for thread in Path(f"/proc/{waiting.pop()}/task").iterdir():
                children = [int(child) for child in _read(thread / "children").split()]
                pids += children
                waiting += children
    return pids


def _read(path: str | Path) -> bytes:
    """A file of the kernel. It is not decoded: the names that programs choose stand in it, and need not be text."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _lines(path: str | Path) -> list[bytes]:
    """The lines of such a file. Of what may end a line, the kernel keeps only \\n out of a process's name."""
    return [line for line in _read(path).split(b"\n") if line]


def _sum_mib(path: str, *fields: bytes) -> float:
    """The sum of the named lines, in kB, of a file of /proc; 0 if it has none."""
    return sum(int(line.split()[1]) for line in _lines(path) if line.startswith(fields)) / 1024


def resident_mib(pid: int) -> float:
    """A process's resident memory without files. Shared pages count fully for each process."""
    return _sum_mib(f"/proc/{pid}/status", b"RssAnon:", b"RssShmem:")


def in_memory(pids: Iterable[int]) -> tuple[float, int]:
    """MiB and number of files in the sandbox's in-memory folders, including deleted files that are still open."""
    # Before the isolation is complete, a process may still see the host's folders.
    roots = (f"/proc/{pid}/root" for pid in pids)
    root = next((root for root in roots if os.path.exists(f"{root}/reground/harness")), None)  # noqa: PTH110
    mib, files = 0.0, 0
    for folder in _SCRATCH if root is not None else ():
        with contextlib.suppress(OSError):
            system = os.statvfs(f"{root}/{folder}")
            # On a disk the numbers would include all other files.
            if os.path.ismount(f"{root}/{folder}"):
                mib += (system.f_blocks - system.f_bfree) * system.f_frsize / _MIB
                files += system.f_files - system.f_ffree
    return mib, files


def overfull(folder: Path, pids: Iterable[int] = ()) -> bool:
    """Whether a folder exceeds its limits, or cannot be read. Deleted files that a process holds open count, too."""
    if folder.is_mount():
        return False  # the mount limits its size
    sizes: dict[int, int] = {}
    waiting = [str(folder)]
    while waiting and len(sizes) <= SHARED_FILES:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            return True
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                sizes[status.st_ino] = status.st_blocks * 512
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    device = folder.stat().st_dev
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    status = entry.stat()
                    if status.st_dev == device and status.st_nlink == 0 and stat.S_ISREG(status.st_mode):
                        sizes[status.st_ino] = status.st_blocks * 512
    return len(sizes) > SHARED_FILES or sum(sizes.values()) > SHARED_MIB * _MIB


def make_workspace() -> Path:
    """A folder for one execution. Its two processes may write to `shared` in it."""
    folder = Path(tempfile.mkdtemp(dir=_home(os.getpid())))
    shared = folder / "shared"
    shared.mkdir()
    if os.geteuid() == 0:  # only root can limit the folder's size and files; otherwise the watch counts them
        options = f"size={SHARED_MIB}m,nr_inodes={SHARED_FILES},mode=1777".encode()
        flags = ctypes.c_ulong(2 | 4)  # MS_NOSUID, MS_NODEV
        _libc().mount(b"reground", os.fsencode(shared), b"tmpfs", flags, options)
    shared.chmod(0o1777)
    return folder


@functools.cache
def _home(pid: int) -> Path:
    """The folder of this process, locked for as long as it lives."""
    home = Path(tempfile.mkdtemp(prefix=PREFIX))
    home.chmod(0o711)
    # Lock the file before it gets its name, so that no other process regards this one as dead.
    lock = os.open(home / "unlocked", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (home / "unlocked").rename(home / _LOCK)
    atexit.register(lambda: remove(home) if os.getpid() == pid else None)
    return home


def sweep() -> None:
    """Remove this user's folders, and control groups, whose owners have died."""
    parent = find_group_parent()
    for folder in parent.glob(f"{PREFIX}*") if parent is not None else ():
        if not Path(f"/proc/{folder.name.removeprefix(PREFIX).split('-')[0]}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
    for home in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = home.lstat()
            if home.is_dir() and not home.is_symlink() and status.st_uid == os.geteuid() and _is_dead(home):
                remove(home)


def _is_dead(home: Path) -> bool:
    try:
        lock = os.open(home / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - home.lstat().st_mtime > _ABANDONED_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def remove(folder: Path) -> None:
    """Remove a workspace, or a home with its workspaces. Takes some ms, because unmounting waits."""
    for shared in [folder / "shared", *folder.glob("*/shared")]:
        if shared.is_mount():
            _libc().umount2(os.fsencode(shared), _DETACH)
    shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

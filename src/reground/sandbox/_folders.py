"""The folders of an execution: limited in size if the kernel allows it, and removed after their owner has died."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import functools
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "reground-sandbox-"
SHARED_MIB = 64
SHARED_FILES = 2000
_LOCK = "lock"
_ABANDONED_SECONDS = 3600.0
_DETACH = 2


def make_workspace() -> Path:
    """A folder for one execution. Its two processes may write to `shared` in it."""
    folder = Path(tempfile.mkdtemp(dir=_home(os.getpid())))
    shared = folder / "shared"
    shared.mkdir()
    _mount(shared)
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
    """Remove this user's folders whose owners have died."""
    for home in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            found = home.lstat()
            if home.is_dir() and not home.is_symlink() and found.st_uid == os.geteuid() and _is_dead(home):
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


def _mount(shared: Path) -> None:
    """Limit the folder's size and number of files. Only root can do this; otherwise the watch counts them."""
    if os.geteuid() == 0:
        options = f"size={SHARED_MIB}m,nr_inodes={SHARED_FILES},mode=1777".encode()
        # MS_NOSUID, MS_NODEV
        _libc().mount(b"reground", os.fsencode(shared), b"tmpfs", ctypes.c_ulong(2 | 4), options)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

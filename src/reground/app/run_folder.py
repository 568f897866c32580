"""The folder of one question's run: held while the question runs, and removed only while nobody holds it.

The lock is on the folder itself and ends with its process, so it holds between processes and survives none.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path

GONE = ".gone-"
"""How the name of a folder begins that is being removed."""

LOCK = ".lock"
_PAUSE = 0.05
"""Seconds between two looks at a lock that another holds."""

Hold = Callable[[Path], AbstractContextManager[object]]
"""Such as `in_use`: holds a run's folder for a block."""


@contextmanager
def in_use(folder: Path) -> Iterator[bool]:
    """Make the folder and hold it for the block. Gives whether it is new.

    Where it cannot be made or opened nothing is held; whoever writes into it says why.
    """
    is_new = not folder.exists()
    handle = _held(folder)
    try:
        yield is_new
    finally:
        if handle is not None:
            os.close(handle)


def _held(folder: Path) -> int | None:
    import fcntl

    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = _opened(folder)
        except FileNotFoundError:
            continue  # removed in between
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)  # whoever removes it has it for a moment only
            if os.path.samestat(os.fstat(handle), folder.stat()):
                return handle
        except FileNotFoundError:
            pass
        except OSError:
            return handle  # a file system without locks, where nothing is ever removed
        os.close(handle)


@asynccontextmanager
async def alone(folder: Path) -> AsyncIterator[None]:
    """Hold a run by oneself for the block. Who asks the same question meanwhile waits, and then finds it answered.

    On a file system without locks nothing is held.
    """
    import fcntl

    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield  # whoever writes into it says why
        return
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(_PAUSE)
                continue
            except OSError:
                pass
            break
        yield
    finally:
        os.close(handle)


def removed(folder: Path, *, wanted: Callable[[], bool]) -> bool:
    """Remove a folder that nobody holds, with its content. wanted: asked while nobody else can begin to hold it.

    False, and no change, where somebody holds it, where it is not wanted any more, and where it cannot be removed.
    """
    import fcntl

    try:
        handle = _opened(folder)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not wanted():
            return False
        gone = folder.with_name(f"{GONE}{secrets.token_hex(8)}")
        folder.rename(gone)  # at once, so that nobody waits for the lock until all files are gone
    except OSError:
        return False
    finally:
        os.close(handle)
    shutil.rmtree(gone, ignore_errors=True)
    return True


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

"""The lock of a folder or a file: one process at a time works there."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from reground.core.errors import ConfigurationError


def locked(file: Path, work: str, place: Path) -> IO[str]:
    """Lock a file for this process; closing the handle, or the end of the process, gives the lock back.

    work: what is done in the place, as in "training in". Raises ConfigurationError where another process does it.
    """
    import fcntl

    handle = file.open("a")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise ConfigurationError(f"another process is {work} {place}: wait for it or stop it") from error
    return handle

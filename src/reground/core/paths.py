"""Where models, indexes, caches, runs and keys lie, and the lock of a folder.

They lie in REGROUND_HOME if it is set, otherwise in the XDG base directories. Nothing here creates a folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from reground.core.errors import ConfigurationError


def models_dir() -> Path:
    """Downloaded weights."""
    return _place("XDG_CACHE_HOME", ".cache", "models")


def indexes_dir() -> Path:
    """Indexes built without a given folder."""
    return _place("XDG_CACHE_HOME", ".cache", "indexes")


def cache_dir() -> Path:
    """Files that can be made again, such as the shared cache of model calls."""
    return _place("XDG_CACHE_HOME", ".cache", "cache")


def runs_dir() -> Path:
    """Journals and trajectories of runs; losing them loses paid work."""
    return _place("XDG_STATE_HOME", ".local/state", "runs")


def conversations_dir() -> Path:
    """Conversations of `reground chat`, a file each."""
    return _place("XDG_STATE_HOME", ".local/state", "conversations")


def keys_file() -> Path:
    """The API keys that `reground serve` asks for."""
    return _place("XDG_CONFIG_HOME", ".config", "keys.jsonl")


def expanded(path: str | Path) -> Path:
    """A path with `~` expanded. Raises ConfigurationError if there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigurationError(f"{path} begins with the home of a user who is not known here") from None


def _place(variable: str, fallback: str, name: str) -> Path:
    if home := os.environ.get("REGROUND_HOME"):
        return expanded(home) / name
    base = Path(os.environ.get(variable, ""))
    if not base.is_absolute():  # the XDG specification says that a relative path is invalid and to be ignored
        base = expanded("~") / fallback
    return base / "reground" / name


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

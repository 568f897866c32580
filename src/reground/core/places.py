"""The places of models, indexes, caches, runs and keys: in REGROUND_HOME if set, otherwise in the XDG base directories.

These functions create no folder.
"""

from __future__ import annotations

import os
from pathlib import Path

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
    home = os.environ.get("REGROUND_HOME")
    if home:
        return expanded(home) / name
    given = os.environ.get(variable, "")
    # The XDG specification says that a relative path is invalid and to be ignored.
    base = Path(given) if Path(given).is_absolute() else expanded("~") / fallback
    return base / "reground" / name

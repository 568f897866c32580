"""Where things live on disk. REGROUND_HOME moves everything; else the XDG base directories hold.

Nothing here creates a folder; whoever writes does.
"""

from __future__ import annotations

import os
from pathlib import Path

from reground.core.errors import ConfigurationError


def models_dir() -> Path:
    """Weights that were pulled."""
    return _place("XDG_CACHE_HOME", ".cache", "models")


def indexes_dir() -> Path:
    """Indexes that were built without saying where to."""
    return _place("XDG_CACHE_HOME", ".cache", "indexes")


def cache_dir() -> Path:
    """What can be deleted and made again, such as the shared cache of model calls."""
    return _place("XDG_CACHE_HOME", ".cache", "cache")


def runs_dir() -> Path:
    """Journals and trajectories of runs; losing them loses paid work."""
    return _place("XDG_STATE_HOME", ".local/state", "runs")


def expanded(path: str | Path) -> Path:
    """A path with `~` as the user's home. Raises ConfigurationError where there is no such user."""
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

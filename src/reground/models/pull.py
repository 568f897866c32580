"""Brings language models once, by a short name, a name on a hub or a path; see `reground.downloads`."""

from __future__ import annotations

import asyncio
import difflib
import re
import threading
from functools import partial
from pathlib import Path

from reground.core.concurrency import in_daemon
from reground.core.errors import ConfigurationError
from reground.core.files import expanded, models_dir
from reground.downloads import Progress, PullError, Weights, bring, known_weights, place, silent

ALIASES = known_weights("models")


def pull(alias: str, *, progress: Progress = silent) -> Path:
    """Return the path of a model's file, downloading it first if it is not here yet.

    alias: a name in `ALIASES`, `org/repo:file.gguf` on a model hub, a file's name in the models folder, or the path of
    a file, which is returned unchanged. Blocks. Of several processes one downloads. Raises ConfigurationError for an
    unknown name, PullError if the download fails.
    """
    check(alias)
    weights = ALIASES.get(alias.lower())  # before a file of this name in the current folder, which anybody may have put
    here = None if weights else _existing(alias)
    if here is not None:
        weights = next((each for each in ALIASES.values() if place(each) == here), None)
        return bring(weights, progress=progress) if weights else here
    return bring(weights or Weights(hub=alias), progress=progress)


async def pulled(alias: str, *, progress: Progress = silent) -> Path:
    """`pull` in a thread. If cancelled, it returns at once, and the download ends at its next step."""
    cancelled = threading.Event()

    def step(what: str, done: int, total: int | None) -> None:
        if cancelled.is_set():
            raise PullError("the call was cancelled")
        progress(what, done, total)

    try:
        return await in_daemon(partial(pull, alias, progress=step), name="reground-pull")
    except asyncio.CancelledError:
        cancelled.set()
        raise


def check(alias: str) -> None:
    """Raise ConfigurationError for a name that `pull` cannot resolve, before anything is downloaded."""
    is_of_a_hub = re.fullmatch(r"\A[\w.-]++/[\w.-]++:(?!/)[\w./-]+\.gguf", alias) and ".." not in alias
    if is_of_a_hub or alias.lower() in ALIASES or _existing(alias) is not None:
        return
    near = difflib.get_close_matches(alias.lower(), ALIASES, n=1, cutoff=0.4)
    guess = f"did you mean {near[0]!r}? " if near else ""
    names = ", ".join(ALIASES)
    if alias.endswith(".gguf") or alias.startswith((".", "/", "~")):
        raise ConfigurationError(f"there is no file {alias}; {guess}known aliases: {names}")
    raise ConfigurationError(
        f"unknown model {alias!r}: {guess}give {names}, org/repo:file.gguf, or the path of a GGUF file"
    )


def other_files() -> list[Path]:
    """GGUF files in the models folder without an alias."""
    names = {weights.file for weights in ALIASES.values()}
    return sorted(path for path in models_dir().glob("*.gguf") if path.name not in names)


def _existing(name: str) -> Path | None:
    """A file given by its path, or by its name in the models folder."""
    inside = [models_dir() / name] if ".." not in Path(name).parts else []
    return next((path for path in (expanded(name), *inside) if path.is_file()), None)

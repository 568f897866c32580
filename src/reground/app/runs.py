"""A run: what identifies it, and its folder.

Two runs are the same where all that shapes them is equal. Questions, evaluations and tree collections all use this
identity. The folder of a question's run is held while the question is in work, and removed only while nobody holds it.
The lock is on the folder itself and ends with its process, so it holds between processes and survives none.
"""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reground.app.catalogue import PARTS
from reground.app.options import field_names
from reground.core.files import files_fingerprint, function_fingerprint
from reground.core.journal import fingerprint
from reground.models.options import weights_of

if TYPE_CHECKING:
    from pydantic import JsonValue

    from reground.core.evidence import Retriever
    from reground.core.language import LanguageModel
    from reground.core.method import Method
    from reground.models.options import ModelOptions

_OPENAI = "https://api.openai.com/v1"
GONE = ".gone-"
"""How the name of a folder begins that is being removed."""
_NOTHING = -1
_PAUSE = 0.05
"""Seconds between two looks at a folder that another holds."""

Hold = Callable[[Path], AbstractAsyncContextManager[object]]
"""Such as `held`: holds a run's folder for a block."""


def identity(
    name: str,
    method: Method,
    model: LanguageModel,
    options: ModelOptions,
    *,
    retriever: Retriever | None = None,
    rewriter: LanguageModel | None = None,
    judge: str | None = None,
) -> dict[str, Any]:
    """What identifies a run, apart from its questions: the parts and settings of the method called `name`.

    The keys are fields of `EvalSettings`. A part that the method does not use is left out, and `model_settings` leaves
    out default values. A user's own method file has a fingerprint, because a changed file is a different method.
    """
    places = field_names(type(method))
    rewriting = rewriter.name if rewriter is not None and "rewriter" in places else None
    helpers = {
        "judge": judge,
        "judge_weights": weights_of(judge or ""),
        "rewriter": rewriting,
        "rewriter_weights": weights_of(rewriting or ""),
    }
    file = {"file": files_fingerprint(Path(name))} if name.endswith(".py") else {}
    return {
        "method": name,
        "model": model.name,
        "retriever": retriever.name if retriever is not None and "retriever" in places else None,
        "method_settings": resolved(method) | file,
        "model_settings": model_settings(options, model) | {role: who for role, who in helpers.items() if who},
    }


def resolved(method: Method) -> dict[str, JsonValue]:
    """All settings that a method's answers depend on, as plain data, including defaults.

    Prompts and demonstrations are fingerprints.
    """
    settings: dict[str, JsonValue] = {}
    for name in sorted(field_names(type(method))):
        value = getattr(method, name)
        if name in {"prompts", "demonstrations"}:
            settings[name] = fingerprint(name, repr(value))
        elif name not in PARTS:
            settings[name] = json.loads(json.dumps(value, default=_plain))
    return settings


def _plain(value: object) -> object:
    """JSON data for a value: of a part, such as a model, its name; of any other object its fields."""
    if isinstance(name := getattr(value, "name", None), str):
        return name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    model_dump = getattr(value, "model_dump", None)
    if model_dump is not None:
        return model_dump(mode="json")
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return f"{name}-{function_fingerprint(value)}" if callable(value) and not isinstance(value, type) else name


def model_settings(options: ModelOptions, model: object = None) -> dict[str, str]:
    """The options that change a model's replies, without those at their defaults.

    The place of the API key is left out, and so are the user, password and query of a base URL.
    """
    settings = {
        "base_url": getattr(model, "served_at", None) or _without_secrets(options.base_url),
        "adapter": options.adapter,
        "adapter_files": None if options.adapter is None else files_fingerprint(options.adapter),
        "weights": weights_of(getattr(model, "name", "")),
        "context": options.context,
        "dtype": None if options.dtype == "auto" else options.dtype,
    }
    if options.base_url is None and settings["base_url"] == _OPENAI:
        del settings["base_url"]
    return {name: str(value) for name, value in settings.items() if value is not None}


def _without_secrets(url: str | None) -> str | None:
    """A URL without its possibly secret parts: user, password and query."""
    if url is None:
        return None
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}".rstrip("/")


@asynccontextmanager
async def held(folder: Path) -> AsyncIterator[bool]:
    """Make the folder and hold it by oneself for the block. Gives whether it is new.

    Who asks the same question meanwhile waits, and then finds it answered. Where it cannot be made, opened or locked
    nothing is held; whoever writes into it says why.
    """
    handle, is_new = _locked(folder)
    while handle is None:
        await asyncio.sleep(_PAUSE)
        handle, made = _locked(folder)
        is_new = is_new or made
    try:
        yield is_new
    finally:
        if handle != _NOTHING:
            os.close(handle)


def _locked(folder: Path) -> tuple[int | None, bool]:
    """What holds the folder, None while another has it or where it was removed in between; and whether it is new."""
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = _opened(folder)
    except FileNotFoundError:
        return None, is_new
    except OSError:
        return _NOTHING, is_new
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), folder.stat()):
            return handle, is_new
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        return handle, is_new  # a file system without locks, where nothing is ever removed
    os.close(handle)
    return None, is_new


def removed(folder: Path, *, wanted: Callable[[], bool]) -> bool:
    """Remove a folder that nobody holds, with its content. wanted: asked while nobody else can begin to hold it.

    False, and no change, where somebody holds it, where it is not wanted any more, and where it cannot be removed.
    """
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

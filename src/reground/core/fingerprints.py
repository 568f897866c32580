"""Fingerprints of files and of functions: whether weights, or code, are still those that were used before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType, MethodType

_SAMPLES, _SAMPLE = 64, 1 << 16
"""For the fingerprint of a large file: the number of pieces that are read, and the bytes of each."""


def files_fingerprint(path: Path, *inside: str) -> str | None:
    """A 128-bit hash of the names, sizes and contents of a file or of a folder's files; None if there are none.

    inside: patterns of the names of folders in it whose files count too. A file above 4 MiB is sampled in evenly spread
    pieces, which is enough to notice that weights were trained further.
    """
    files = _files_of(path, inside) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        size = file.stat().st_size
        name = file.relative_to(path).as_posix() if file != path else file.name
        digest.update(f"{name}\0{size}\0".encode())
        with file.open("rb") as content:
            if size <= _SAMPLES * _SAMPLE:
                digest.update(content.read())
                continue
            for number in range(_SAMPLES):
                content.seek(number * (size - _SAMPLE) // (_SAMPLES - 1))
                digest.update(content.read(_SAMPLE))
    return digest.hexdigest()


def _files_of(folder: Path, inside: Sequence[str]) -> list[Path]:
    below = (file for pattern in inside for part in folder.glob(pattern) for file in part.rglob("*"))
    return sorted({file for file in chain(folder.iterdir(), below) if file.is_file()})


def function_fingerprint(function: object) -> str:
    """A 32-bit hash of a function's code, and of what it holds: defaults, what it closes over, a partial's arguments, a
    method's or a callable object's attributes. What it calls is left out.

    It is the same in every process. Of any other object that it holds, such as a client, its type alone counts.
    """
    told = repr(_told(function))
    return hashlib.blake2b(told.encode(errors="backslashreplace"), digest_size=4).hexdigest()


_DEEPEST = 6
"""Objects within objects that a fingerprint of a function looks into."""


def _told(value: object, *, depth: int = 0) -> object:
    """A value as nested tuples whose repr is the same in every process."""
    if value is None or value is Ellipsis or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    name = getattr(value, "__qualname__", type(value).__qualname__)
    if depth > _DEEPEST:
        return name
    parts = _parts_of(value)
    if parts is None and depth > 1:  # neither the object that is called nor the one whose method is
        return name
    if parts is None:
        own = getattr(type(value).__call__, "__code__", None) if callable(value) else None
        parts = (name, own, getattr(value, "__dict__", None))
    told = [_told(part, depth=depth + 1) for part in parts]
    return tuple(sorted(told, key=repr) if isinstance(value, (Mapping, AbstractSet)) else told)


def _parts_of(value: object) -> Iterable[object] | None:
    """What a function or a collection consists of; None for another object."""
    match value:
        case CodeType():
            return value.co_code, value.co_names, value.co_consts
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
            return value.__code__, value.__defaults__, value.__kwdefaults__, cells
        case partial():
            return "partial", value.func, value.args, value.keywords
        case MethodType():
            return value.__func__, value.__self__
        case Mapping():
            return value.items()
        case AbstractSet() | list() | tuple():
            return value
    return None


def _is_filled(cell: object) -> bool:
    try:
        _ = cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:
        return False
    return True

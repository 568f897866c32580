"""Fingerprints of files: whether weights are still those that were used before."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

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

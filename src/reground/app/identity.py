"""What makes a run another run, besides the names: where a model is served, which files it is made of, its context."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from reground.core.places import expanded

if TYPE_CHECKING:
    from reground.models.options import ModelOptions

_OPENAI = "https://api.openai.com/v1"
_SAMPLES, _SAMPLE = 64, 1 << 16
"""How many pieces of a large file are read for its fingerprint, and their bytes."""


def model_settings(options: ModelOptions, model: object = None) -> dict[str, str]:
    """What changes a model's replies besides its name, without what was left at its default.

    Where the key is kept is nobody's business, and a base URL's user, password and query are left out.
    """
    found = {
        "base_url": getattr(model, "served_at", None) or _shown(options.base_url),
        "adapter": options.adapter,
        "adapter_files": None if options.adapter is None else files_fingerprint(options.adapter),
        "weights": weights_of(getattr(model, "name", "")),
        "context": options.context,
    }
    if options.base_url is None and found["base_url"] == _OPENAI:
        del found["base_url"]
    return {name: str(value) for name, value in found.items() if value is not None}


def _shown(url: str | None) -> str | None:
    """A URL without what may be secret in it."""
    if url is None:
        return None
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}".rstrip("/")


def weights_of(name: str) -> str | None:
    """The fingerprint of the file or folder that a model's name leads to; None where it is an alias or on a server."""
    provider, _, place = name.partition("/")
    if provider not in {"gguf", "hf"} or not place:
        return None
    return files_fingerprint(expanded(place))


def files_fingerprint(path: Path) -> str | None:
    """128 bits over the names, sizes and contents of a file or of a folder's files; None where there are none.

    Of files above four megabytes pieces spread over the whole are read: enough to notice that weights were trained on.
    """
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        with file.open("rb") as content:
            if size <= _SAMPLES * _SAMPLE:
                digest.update(content.read())
                continue
            for number in range(_SAMPLES):
                content.seek(number * (size - _SAMPLE) // (_SAMPLES - 1))
                digest.update(content.read(_SAMPLE))
    return digest.hexdigest()

"""Why a model's weights could not be loaded."""

from __future__ import annotations

import json
from pathlib import Path

_LONGEST = 300
"""The most characters of another library's message."""
_HEADER = 100_000_000
"""The most bytes of a safetensors header, as its library has it."""


def trouble(error: Exception, *places: str | Path | None) -> str:
    """What went wrong, in one line: the damaged safetensors file below the folders, else what the error says."""
    for place in places:
        for file in sorted(Path(place).rglob("*.safetensors")) if place is not None else ():
            if not _is_whole(file):
                return f"{file} is damaged or was not written whole"
    return " ".join(str(error).split())[:_LONGEST] or type(error).__name__


def _is_whole(file: Path) -> bool:
    """Whether a file's header can be read and its tensors end where the file ends."""
    size = file.stat().st_size
    with file.open("rb") as data:
        length = int.from_bytes(data.read(8), "little")
        if not 2 <= length <= min(size - 8, _HEADER):
            return False
        try:
            header = json.loads(data.read(length))
            ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return False
    return 8 + length + max(ends, default=0) == size

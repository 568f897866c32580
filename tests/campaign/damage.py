"""Ways to damage a file that a run has left."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

_OUT_OF_PLACE = (".lock", ".png", ".svg", ".md", ".shm")


def files_of(folder: Path) -> list[Path]:
    """What commands keep below a folder and read again."""
    kept = [path for name in ("out", "home", "idx") for path in (folder / name).rglob("*")]
    kept += [*folder.glob("cache.db*"), *folder.glob("trace.jsonl")]
    return sorted(path for path in kept if path.is_file() and path.suffix not in _OUT_OF_PLACE and path.name != "lock")


def _flip(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _flip_many(data: bytes, chance: random.Random) -> bytes:
    for _ in range(50):
        data = _flip(data, chance)
    return data


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def _append(data: bytes, chance: random.Random) -> bytes:
    return data + chance.choice((b"\x00" * 100, b"garbage", b'{"half": ', b"\n\n\n", b"\xff\xfe\n", b"{}\n", b"null\n"))


def _zeros(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + b"\x00" * (len(data) - at)


def _surrogate(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.choice((b"\xed\xa0\x80", b"\\ud800", b"\xf8\x88")) + data[at:]


def _deep(data: bytes, chance: random.Random) -> bytes:
    return chance.choice((b"[" * 100_000, b'{"a":' * 100_000)) + chance.choice((b"", b"\n" + data))


def _odd_number(data: bytes, chance: random.Random) -> bytes:
    numbers = list(re.finditer(rb"(?<=: )\d+|(?<=:)\d+", data))
    if not numbers:
        return _append(data, chance)
    found = chance.choice(numbers)
    odd = chance.choice((b"NaN", b"-Infinity", b"1e400", b"null", b'"x"', b"-1", b"9" * 5000))
    return data[: found.start()] + odd + data[found.end() :]


def _nothing(data: bytes, chance: random.Random) -> bytes:
    return b""


def _noise(data: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(max(1, len(data)))


WAYS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "a bit flipped": _flip,
    "many bits flipped": _flip_many,
    "cut": _cut,
    "garbage appended": _append,
    "zeros from somewhere on": _zeros,
    "half a surrogate pair": _surrogate,
    "nested deeply": _deep,
    "a number that is none": _odd_number,
    "emptied": _nothing,
    "noise": _noise,
}

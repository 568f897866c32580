"""Reads a GGUF file's description of its model, without the weights.

The format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): a header of magic, version and two counts, then
key-value pairs; strings and arrays begin with their lengths. The format's own library takes tens of seconds for a large
vocabulary and never returns on some damaged files, so the five values needed are read here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from reground.core.errors import DataError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4  # token types
_WHOLE = "BbHhIiQq"
_ARCHITECTURE, _NAME, _CONTEXT = "general.architecture", "general.name", ".context_length"
_TOKENS, _TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
# Several times today's largest, so that a damaged file cannot use up memory or time.
_MOST_BYTES = 64 << 20
_MOST_ITEMS = 4 << 20


@dataclass(frozen=True)
class Header:
    """architecture: the model's family. name: the maker's name for it. context: tokens that it was trained for.

    special: texts that its tokenizer reads as one control or markup token.
    """

    architecture: str
    name: str
    context: int
    special: tuple[str, ...]


def read_header(path: Path) -> Header:
    """Read a model's description. Raises DataError for a damaged file, or one that is not GGUF."""
    try:
        with path.open("rb") as source, mmap(source.fileno(), 0, access=ACCESS_READ) as data:
            pairs = _Reader(data).pairs()
    except OSError as error:
        raise DataError(f"cannot read the model: {error.strerror or error}", path=path) from error
    except (struct.error, ValueError) as error:
        raise DataError(f"not a GGUF file, or a damaged one: {error}", path=path) from error
    architecture = pairs.get(_ARCHITECTURE, "")
    return Header(
        architecture=architecture,
        name=pairs.get(_NAME, path.stem),
        context=pairs.get(architecture + _CONTEXT, 0),
        special=_special(pairs.get(_TOKENS, ()), pairs.get(_TYPES, ())),
    )


def _special(tokens: tuple[str, ...], types: tuple[int, ...]) -> tuple[str, ...]:
    """Control tokens, and user-defined tokens that look like markup.

    Other user-defined tokens (runs of newlines or spaces in some vocabularies) are ordinary text.
    """
    return tuple(
        token
        for token, kind in zip(tokens, types, strict=False)
        if kind == _CONTROL or (kind == _USER_DEFINED and token[:1] in "<[" and token[-1:] in ">]" and len(token) > 2)
    )


class _Reader:
    """Reads a header once, from its beginning. Raises ValueError or struct.error if it is damaged."""

    def __init__(self, data: mmap) -> None:
        self._data = data
        self._end = min(len(data), _MOST_BYTES)
        self._at = 0

    def pairs(self) -> dict[str, Any]:
        """The needed values, with their types checked."""
        if self._data[self._step(4) : 4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        version = self._scalar("I")
        if version not in (2, 3):
            raise ValueError(f"version {version} of the format is unknown")
        _tensors, count = self._scalar("Q"), self._scalar("Q")
        found = {}
        for _ in range(count):
            key, kind = self._string(), self._scalar("I")
            if key in (_ARCHITECTURE, _NAME):
                found[key] = self._string() if kind == _STRING else self._wrong(key)
            elif key.endswith(_CONTEXT):
                code = _SCALARS.get(kind, "")
                found[key] = self._scalar(code) if code and code in _WHOLE else self._wrong(key)
            elif key in (_TOKENS, _TYPES):
                found[key] = self._list(key) if kind == _ARRAY else self._wrong(key)
            else:
                self._pass(kind)
        return found

    def _wrong(self, key: str) -> Any:
        raise ValueError(f"the value of {key} has the wrong type")

    def _step(self, size: int) -> int:
        """Skip this many bytes. Returns their start."""
        start, self._at = self._at, self._at + size
        if self._at > self._end:
            raise ValueError("it ends too early, or its header is too long")
        return start

    def _scalar(self, code: str) -> Any:
        return struct.unpack_from("<" + code, self._data, self._step(struct.calcsize("<" + code)))[0]

    def _string(self) -> str:
        start = self._step(self._scalar("Q"))
        return self._data[start : self._at].decode("utf-8", errors="replace")

    def _items(self) -> tuple[int, int]:
        """The type of an array's items and their number."""
        of, length = self._scalar("I"), self._scalar("Q")
        if length > _MOST_ITEMS:
            raise ValueError(f"an array of {length} items")
        return of, length

    def _list(self, key: str) -> tuple[str | int, ...]:
        of, length = self._items()
        if key == _TOKENS and of == _STRING:
            return tuple(self._string() for _ in range(length))
        code = _SCALARS.get(of, "")
        if key == _TOKENS or not code or code not in _WHOLE:
            self._wrong(key)
        layout = f"<{length}{code}"
        return struct.unpack_from(layout, self._data, self._step(struct.calcsize(layout)))

    def _pass(self, kind: int) -> None:
        """Skip an unneeded value. Arrays of arrays, which no model has, are refused."""
        length = 1
        if kind == _ARRAY:
            kind, length = self._items()
        if kind == _STRING:
            for _ in range(length):
                self._step(self._scalar("Q"))
        elif kind in _SCALARS:
            self._step(length * struct.calcsize("<" + _SCALARS[kind]))
        else:
            raise ValueError(f"a value of the unknown type {kind}")

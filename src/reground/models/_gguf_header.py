"""Reads what a GGUF file says about its model, without its weights.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A header of magic, version and two counts,
then key-value pairs; strings and arrays carry their lengths in front.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from reground.core.errors import DataError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4  # token types
_LONGEST = 1 << 27  # no honest string or array of a header is longer; keeps a damaged file from eating the memory


@dataclass(frozen=True)
class Header:
    """architecture: the model's family. name: as its makers wrote it. context: tokens that it was trained for.

    special: texts that its tokenizer reads as one control or markup token.
    """

    architecture: str
    name: str
    context: int
    special: tuple[str, ...]


def read_header(path: Path) -> Header:
    """Read a model's own description. Raises DataError for what is no GGUF file or is damaged."""
    try:
        with path.open("rb") as source:
            pairs = _pairs(source)
    except OSError as error:
        raise DataError(f"cannot read the model: {error.strerror or error}", path=path) from error
    except (struct.error, ValueError, UnicodeDecodeError) as error:
        raise DataError(f"not a GGUF file, or a damaged one: {error}", path=path) from error
    architecture = str(pairs.get("general.architecture", ""))
    return Header(
        architecture=architecture,
        name=str(pairs.get("general.name", path.stem)),
        context=int(pairs.get(f"{architecture}.context_length", 0)),
        special=_special(pairs.get("tokenizer.ggml.tokens", ()), pairs.get("tokenizer.ggml.token_type", ())),
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


def _pairs(source: BufferedReader) -> dict[str, Any]:
    if source.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version = _scalar(source, "I")
    if version not in (2, 3):
        raise ValueError(f"version {version} of the format is unknown")
    _tensors, count = _scalar(source, "Q"), _scalar(source, "Q")
    return {_string(source): _value(source, _scalar(source, "I")) for _ in range(count)}


def _scalar(source: BufferedReader, code: str) -> Any:
    layout = "<" + code
    return struct.unpack(layout, source.read(struct.calcsize(layout)))[0]


def _length(source: BufferedReader) -> int:
    length: int = _scalar(source, "Q")
    if length > _LONGEST:
        raise ValueError(f"a length of {length}")
    return length


def _string(source: BufferedReader) -> str:
    length = _length(source)
    data = source.read(length)
    if len(data) < length:
        raise ValueError("it ends too early")
    return data.decode("utf-8", errors="replace")


def _value(source: BufferedReader, kind: int) -> Any:
    if kind == _STRING:
        return _string(source)
    if kind == _ARRAY:
        of, length = _scalar(source, "I"), _length(source)
        if of in _SCALARS:
            layout = f"<{length}{_SCALARS[of]}"
            return struct.unpack(layout, source.read(struct.calcsize(layout)))
        return tuple(_value(source, of) for _ in range(length))
    if kind in _SCALARS:
        return _scalar(source, _SCALARS[kind])
    raise ValueError(f"a value of the unknown type {kind}")

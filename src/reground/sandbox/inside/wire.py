"""Plain data between two processes that do not trust each other.

Frames are four bytes of length and JSON. Values are rebuilt as genuine builtin types on the other side; whatever is
not plain data stays where it is and crosses as a numbered reference. Nothing here unpickles or evaluates, so the worst
that a hostile sender can do is send odd values.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

MOST_BYTES = 64 * 1024 * 1024
_SAFE_INT = 1 << 62


class WireError(BaseException):
    """The other side has gone or does not keep to the protocol; no `except Exception` may swallow it."""


class Channel:
    """Whole frames over a pair of file descriptors."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write

    def send(self, message: dict[str, Any]) -> None:
        """Write one frame. Raises WireError when nobody reads any more or the message is too long."""
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > MOST_BYTES:
            raise WireError("a value is too large to cross")
        view = memoryview(len(data).to_bytes(4, "big") + data)
        try:
            while view:
                view = view[os.write(self._write, view) :]
        except OSError as error:
            raise WireError("the other side has gone") from error

    def receive(self) -> dict[str, Any]:
        """Read one frame. Raises WireError at the end of the stream and for what is no frame."""
        size = int.from_bytes(self._exactly(4), "big")
        if size > MOST_BYTES:
            raise WireError("a value is too large to cross")
        return parse(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = os.read(self._read, min(size, 1 << 20))
            except OSError as error:
                raise WireError("the other side has gone") from error
            if not part:
                raise WireError("the other side has gone")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def parse(data: bytes) -> dict[str, Any]:
    """A frame's message. Raises WireError."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError, MemoryError) as error:
        raise WireError("not a message") from error
    if not isinstance(message, dict):
        raise WireError("not a message")
    return message


Refer = Callable[[Any], Any]
Resolve = Callable[[dict[str, Any]], Any]


def encode(value: Any, refer: Refer) -> Any:
    """Plain data as JSON; `refer` makes a reference for anything else."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        return value if -_SAFE_INT < value < _SAFE_INT else {"t": "int", "v": hex(value)}
    if kind is list:
        return _items(value, refer)
    encoder = _ENCODERS.get(f"{kind.__module__}.{kind.__qualname__}")
    if encoder is not None:
        tag, body = encoder(value, refer)
        return {"t": tag, "v": body}
    return refer(value)


_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (complex, lambda value: complex.__add__(value, 0j)),
    (str, str.__str__),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (bytearray, lambda value: bytearray.__getitem__(value, slice(None))),
    (list, lambda value: list(list.__iter__(value))),
    (tuple, lambda value: tuple(tuple.__iter__(value))),
    (dict, lambda value: dict(dict.items(value))),
    (set, lambda value: set(set.__iter__(value))),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
)


def base_value(value: Any) -> Any:
    """A builtin container or scalar inside an instance of a subclass, else the value itself."""
    for base, plain in _BASES:
        if isinstance(value, base) and type(value) not in (base, bool):
            return plain(value)
    return value


def _pairs(value: Any, refer: Refer) -> list[Any]:
    return [[encode(k, refer), encode(v, refer)] for k, v in dict.items(value)]


_TEXTS = {str, bool, type(None)}
_NUMBERS = {int, float, bool}


def _items(value: Any, refer: Refer) -> list[Any]:
    kinds = set(map(type, value))
    # JSON has a form for all of them, so a long list of plain numbers or texts is not walked item by item.
    if kinds <= _TEXTS or (kinds <= _NUMBERS and min(value) > -_SAFE_INT and max(value) < _SAFE_INT):
        return list(value)
    return [encode(item, refer) for item in value]


def _array(value: Any, refer: Refer) -> tuple[str, Any]:
    if value.dtype.kind not in "biufc":
        return "tuple", [encode(value.tolist(), refer)]
    return "array", [value.dtype.str, encode(value.tolist(), refer)]


def _offset(moment: Any) -> str:
    if moment.tzinfo is not None and type(moment.tzinfo).__module__ != "datetime":
        moment = moment.replace(tzinfo=__import__("datetime").timezone(moment.utcoffset()))
    return str(moment.isoformat())


_ENCODERS: dict[str, Callable[[Any, Refer], tuple[str, Any]]] = {
    "builtins.tuple": lambda v, r: ("tuple", _items(v, r)),
    "builtins.set": lambda v, r: ("set", _items(v, r)),
    "builtins.frozenset": lambda v, r: ("frozenset", _items(v, r)),
    "builtins.dict": lambda v, r: ("dict", _pairs(v, r)),
    "collections.OrderedDict": lambda v, r: ("dict", _pairs(v, r)),
    "collections.defaultdict": lambda v, r: ("dict", _pairs(v, r)),
    "collections.Counter": lambda v, r: ("dict", _pairs(v, r)),
    "collections.deque": lambda v, r: ("deque", [_items(v, r), v.maxlen]),
    "builtins.bytes": lambda v, r: ("bytes", v.hex()),
    "builtins.bytearray": lambda v, r: ("bytearray", v.hex()),
    "builtins.complex": lambda v, r: ("complex", [v.real, v.imag]),
    "builtins.range": lambda v, r: ("range", [hex(v.start), hex(v.stop), hex(v.step)]),
    "builtins.ellipsis": lambda v, r: ("ellipsis", None),
    "builtins.type": lambda v, r: ("type", v.__name__) if _is_builtin(v) else ("", r(v)),
    "datetime.date": lambda v, r: ("date", v.isoformat()),
    "datetime.time": lambda v, r: ("time", v.isoformat()),
    "datetime.datetime": lambda v, r: ("datetime", _offset(v)),
    "datetime.timedelta": lambda v, r: ("timedelta", [v.days, v.seconds, v.microseconds]),
    "decimal.Decimal": lambda v, r: ("decimal", str(v)),
    "fractions.Fraction": lambda v, r: ("fraction", [hex(v.numerator), hex(v.denominator)]),
    "numpy.ndarray": _array,
    **{
        f"numpy.{name}": lambda v, r: ("", encode(v.item(), r))
        for name in [
            "bool",
            "bool_",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float16",
            "float32",
            "float64",
            "complex64",
            "complex128",
            "str_",
            "bytes_",
        ]
    },
}


def _is_builtin(kind: type) -> bool:
    return kind.__module__ == "builtins" and getattr(builtins, kind.__name__, None) is kind


def decode(data: Any, resolve: Resolve) -> Any:
    """Genuine values from JSON; `resolve` looks references up. Raises WireError for anything else."""
    try:
        return _decode(data, resolve)
    except Exception as error:
        raise WireError(f"not a value: {type(error).__name__}") from error


def _decode(data: Any, resolve: Resolve) -> Any:
    if not isinstance(data, list | dict):
        return data
    if isinstance(data, list):
        return _many(data, resolve)
    tag, body = data["t"], data.get("v")
    decoder = _DECODERS.get(tag)
    return resolve(data) if decoder is None else decoder(body, resolve)


def _decode_array(body: Any, resolve: Resolve) -> Any:
    kind, items = body
    if kind.lstrip("<>|=")[0] not in "biufc":
        raise ValueError("not a numeric array")
    numpy: Any = __import__("numpy")
    return numpy.array(_decode(items, resolve), dtype=kind)


def _decode_type(body: Any, resolve: Resolve) -> type:
    kind = getattr(builtins, body)
    if not isinstance(kind, type):
        raise ValueError("not a type")
    return kind


def _date(name: str) -> Callable[[Any, Resolve], Any]:
    return lambda body, resolve: getattr(__import__("datetime"), name).fromisoformat(body)


def _many(body: Any, resolve: Resolve) -> list[Any]:
    if not isinstance(body, list):
        raise ValueError("not a sequence")
    if not set(map(type, body)) & {list, dict}:
        return body
    return [_decode(item, resolve) for item in body]


_DECODERS: dict[str, Callable[[Any, Resolve], Any]] = {
    "": _decode,
    "int": lambda b, r: int(b, 16),
    "tuple": lambda b, r: tuple(_many(b, r)),
    "set": lambda b, r: set(_many(b, r)),
    "frozenset": lambda b, r: frozenset(_many(b, r)),
    "dict": lambda b, r: {_decode(k, r): _decode(v, r) for k, v in b},
    "deque": lambda b, r: deque(_many(b[0], r), b[1]),
    "bytes": lambda b, r: bytes.fromhex(b),
    "bytearray": lambda b, r: bytearray.fromhex(b),
    "complex": lambda b, r: complex(b[0], b[1]),
    "range": lambda b, r: range(*(int(part, 16) for part in b)),
    "ellipsis": lambda b, r: ...,
    "type": _decode_type,
    "date": _date("date"),
    "time": _date("time"),
    "datetime": _date("datetime"),
    "timedelta": lambda b, r: __import__("datetime").timedelta(*b),
    "decimal": lambda b, r: __import__("decimal").Decimal(b),
    "fraction": lambda b, r: __import__("fractions").Fraction(int(b[0], 16), int(b[1], 16)),
    "array": _decode_array,
}

_MUTABLE = (list, dict, set, bytearray, deque)


def is_mutable(value: Any) -> bool:
    """Whether plain data can be changed in place."""
    return isinstance(value, _MUTABLE)


def overwrite(old: Any, new: Any) -> None:
    """Give a container the contents of another of its kind, in place, nested containers too where they match."""
    if isinstance(old, list) and isinstance(new, list):
        old[:] = [_merged(a, b) for a, b in zip(old, new, strict=False)] + new[len(old) :]
    elif isinstance(old, dict) and isinstance(new, dict):
        merged = {key: _merged(old[key], value) if key in old else value for key, value in new.items()}
        old.clear()
        old.update(merged)
    elif isinstance(old, set) and isinstance(new, set):
        old.clear()
        old.update(new)
    elif isinstance(old, bytearray):
        old[:] = new
    elif is_mutable(old):
        old.clear()
        old.extend(new)


def _merged(old: Any, new: Any) -> Any:
    if type(old) is type(new) and is_mutable(old):
        overwrite(old, new)
        return old
    return new


def describe(error: BaseException, file: str = "") -> dict[str, Any]:
    """An exception as data: its name, its builtin ancestors, its message and its plain arguments."""
    kind = type(error)
    known = [c.__name__ for c in kind.__mro__ if _is_builtin(c)]
    try:
        text, args = str(error)[:4000], [encode(arg, lambda value: str(value)[:1000]) for arg in error.args]
    except BaseException:
        text, args = "", []
    return {
        "type": kind.__name__,
        "module": kind.__module__,
        "mro": known,
        "text": text,
        "args": args,
        "line": line_of(error, file),
    }


def line_of(error: BaseException, file: str) -> int:
    """The last line of the named file that an exception passed through; 0 when it passed through none."""
    found, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


def flush() -> None:
    """Push out what a program has printed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue

"""The conversation between a program and its tests, which do not trust each other.

A frame is four bytes of length, and a JSON list. A request is an operation and its operands; a reply is `ok` or `err`
and what came of it. While one side waits for a reply it serves the other's requests, so callbacks nest.

What crosses is plain data, rebuilt as builtins: numbers, texts, dates, and containers and arrays of them. Anything else
stays where it is and crosses as a number: "ref" is one of the sender's objects, "yours" one of the receiver's. Names,
types and calls do not cross. The sizes of what may cross are limited here, before they are parsed or rebuilt.
"""

from __future__ import annotations

import builtins
import json
import os
import re
from collections import deque
from collections.abc import Callable
from typing import Any

MOST_BYTES = 32 * 1024 * 1024
MOST_NODES = 2_000_000
MOST_DEPTH = 200
MOST_BITS = 1 << 24
MOST_EXPONENT = 100_000
MOST_STEPS = 1 << 22
MOST_MIRRORS = 256
_SAFE_INT = 1 << 62
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_NUMERIC = re.compile(r"[<>|=]?[biufc][0-9]{1,2}")

Message = list[Any]
Refer = Callable[[Any], Any]
Resolve = Callable[[dict[str, Any]], Any]


class WireError(BaseException):
    """The other side has gone or violates the protocol. It is no Exception, so that `except Exception` misses it."""


# --- frames


def write_frame(descriptor: int, message: Message) -> None:
    """Write a message. Raises WireError if the reader has gone or the message is too long."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MOST_BYTES:
        raise WireError("a value is too large to cross")
    view = memoryview(len(data).to_bytes(4, "big") + data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError as error:
        raise WireError("the other side has gone") from error


def read_frame(descriptor: int) -> Message:
    """Read a message. Raises WireError at the end of the stream and for an invalid frame."""
    size = int.from_bytes(_exactly(descriptor, 4), "big")
    if size > MOST_BYTES:
        raise WireError("a value is too large to cross")
    return parse(_exactly(descriptor, size))


def _exactly(descriptor: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            part = os.read(descriptor, min(size - len(data), 1 << 20))
        except OSError as error:
            raise WireError("the other side has gone") from error
        if not part:
            raise WireError("the other side has gone")
        data += part
    return bytes(data)


def parse(data: bytes) -> Message:
    """A frame's message, whose number of values is limited before it is parsed. Raises WireError."""
    # Commas within texts are only excluded if the limit is exceeded.
    if len(data) > MOST_NODES and _marks(data) > MOST_NODES and _marks(_TEXT.sub(b"", data)) > MOST_NODES:
        raise WireError("a value has too many parts to cross")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError, MemoryError) as error:
        raise WireError("not a message") from error
    if not isinstance(message, list) or not message or type(message[0]) is not str:
        raise WireError("not a message")
    return message


def _marks(data: bytes) -> int:
    """At least the number of values in a frame."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


# --- plain data


def encode(value: Any, refer: Refer) -> Any:
    """Plain data as JSON; `refer` gives the JSON of anything else."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int and -_SAFE_INT < value < _SAFE_INT:
        return value
    if kind is list:
        return _items(value, refer)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name in _NUMPY_SCALARS:
        return encode(value.item(), refer)
    tag = _TAGS.get(name)
    if tag is None:
        return refer(value)
    if tag == "array" and value.dtype.kind not in "biufc":
        return encode((value.tolist(),), refer)
    return {"t": tag, "v": encode(_KINDS[tag][1](value), refer)}


def _items(value: list[Any], refer: Refer) -> list[Any]:
    kinds = set(map(type, value))
    # A list of only plain numbers or texts is JSON already, and need not be walked item by item.
    if kinds <= _TEXTS or (kinds <= _NUMBERS and min(value) > -_SAFE_INT and max(value) < _SAFE_INT):
        return list(value)
    return [encode(item, refer) for item in value]


def decode(data: Any, resolve: Resolve) -> Any:
    """Values from JSON; `resolve` looks references up. Raises WireError for anything else."""
    try:
        return _decode(data, resolve, 0)
    except Exception as error:
        raise WireError(f"not a value: {type(error).__name__}") from error


def _decode(data: Any, resolve: Resolve, depth: int) -> Any:
    if depth > MOST_DEPTH:
        raise ValueError("too deep")
    if type(data) is list:
        if set(map(type, data)) & {list, dict}:
            return [_decode(item, resolve, depth + 1) for item in data]
        return data
    if type(data) is not dict:
        return data
    tag = data["t"]
    if tag not in _KINDS:
        return resolve(data)
    parts = _decode(data["v"], resolve, depth + 1)
    if type(parts) not in (list, str):
        raise ValueError("not the parts of a value")
    return _KINDS[tag][2](parts)


def _make_int(digits: str) -> int:
    if len(digits) > MOST_BITS // 4:
        raise ValueError("too many digits")
    return int(digits, 16)


def _make_range(parts: list[Any]) -> range:
    numbers = range(*parts)
    if numbers and abs(numbers[-1] - numbers[0]) // abs(numbers.step) > MOST_STEPS:
        raise ValueError("too many steps")
    return numbers


def _make_decimal(digits: str) -> Any:
    number = __import__("decimal").Decimal(digits)
    if len(digits) > MOST_EXPONENT or (number.is_finite() and abs(number.adjusted()) > MOST_EXPONENT):
        raise ValueError("too many digits")
    return number


def _isoformat(moment: Any) -> str:
    zone = getattr(moment, "tzinfo", None)
    if zone is not None and type(zone).__module__ != "datetime":
        moment = moment.replace(tzinfo=__import__("datetime").timezone(moment.utcoffset()))
    return str(moment.isoformat())


def _make_array(parts: list[Any]) -> Any:
    kind, data, *shape = parts
    if not _NUMERIC.fullmatch(kind):
        raise ValueError("not a numeric array")
    numpy: Any = __import__("numpy")
    array = numpy.frombuffer(bytes.fromhex(data), dtype=kind).reshape(shape)
    if array.size == 0:
        return array.view(_empty(numpy))
    # Normalise booleans: bytes other than 0 and 1 would equal neither.
    return array.view("u1") != 0 if array.dtype.kind == "b" else array.copy()


def _empty(numpy: Any) -> type:
    """Empty arrays that numpy does not broadcast to other shapes, because every comparison of nothing is true."""

    class Empty(numpy.ndarray):  # type: ignore[misc]
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            if any(numpy.ndim(other) and numpy.size(other) for other in inputs):
                raise ValueError("an empty array has no counterpart in one that is not")
            return getattr(ufunc, method)(*(numpy.array(other, subok=False) for other in inputs), **kwargs)

    return Empty


_KINDS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tuple": ("builtins.tuple", list, tuple),
    "set": ("builtins.set", list, set),
    "frozenset": ("builtins.frozenset", list, frozenset),
    "dict": (
        "builtins.dict collections.OrderedDict collections.defaultdict collections.Counter",
        lambda value: [part for pair in dict.items(value) for part in pair],
        lambda parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    ),
    "deque": ("collections.deque", lambda value: [value.maxlen, *value], lambda parts: deque(parts[1:], parts[0])),
    "int": ("builtins.int", hex, _make_int),
    "bytes": ("builtins.bytes", bytes.hex, bytes.fromhex),
    "bytearray": ("builtins.bytearray", bytearray.hex, bytearray.fromhex),
    "complex": ("builtins.complex", lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    "range": ("builtins.range", lambda value: [value.start, value.stop, value.step], _make_range),
    "ellipsis": ("builtins.ellipsis", lambda value: [], lambda parts: ...),
    "date": ("datetime.date", _isoformat, lambda text: __import__("datetime").date.fromisoformat(text)),
    "time": ("datetime.time", _isoformat, lambda text: __import__("datetime").time.fromisoformat(text)),
    "datetime": ("datetime.datetime", _isoformat, lambda text: __import__("datetime").datetime.fromisoformat(text)),
    "timedelta": (
        "datetime.timedelta",
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: __import__("datetime").timedelta(*parts),
    ),
    "decimal": ("decimal.Decimal", str, _make_decimal),
    "fraction": (
        "fractions.Fraction",
        lambda value: [value.numerator, value.denominator],
        lambda parts: __import__("fractions").Fraction(*parts),
    ),
    "array": ("numpy.ndarray", lambda value: [value.dtype.str, value.tobytes().hex(), *value.shape], _make_array),
}
"""Each kind of plain data that JSON does not have: the types that cross as it, their parts, and the value of parts.

Parts are a list or a text, so nothing that is rebuilt iterates over an object of the other side.
"""
_TAGS = {name: tag for tag, (names, _, _) in _KINDS.items() for name in names.split()}
_NUMPY_SCALARS = {
    *("numpy.bool", "numpy.bool_", "numpy.int8", "numpy.int16", "numpy.int32", "numpy.int64"),
    *("numpy.uint8", "numpy.uint16", "numpy.uint32", "numpy.uint64", "numpy.float16", "numpy.float32"),
    *("numpy.float64", "numpy.complex64", "numpy.complex128", "numpy.str_", "numpy.bytes_"),
}
_TEXTS = {str, bool, type(None)}
_NUMBERS = {int, float, bool}

_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (complex, lambda value: complex.__add__(value, 0j)),
    (str, str.__str__),
    (dict, lambda value: dict(dict.items(value))),
    *(
        (kind, lambda value, kind=kind: kind(kind.__iter__(value)))
        for kind in (bytes, bytearray, list, deque, tuple, set, frozenset)
    ),
)


def base_value(value: Any) -> Any:
    """A builtin container or scalar inside an instance of a subclass, else the value itself."""
    for base, plain in _BASES:
        if isinstance(value, base) and type(value) not in (base, bool):
            return plain(value)
    return value


# --- containers of which both sides have a copy


def is_mutable(value: Any) -> bool:
    """Whether plain data can be changed in place."""
    return isinstance(value, list | dict | set | bytearray | deque)


def overwrite(old: Any, new: Any) -> None:
    """Give a container the content of another of its kind in place, including matching nested containers."""
    if not is_mutable(new):
        raise TypeError("not a container")
    if isinstance(old, dict):
        new = {key: _merged(old.get(key), value) for key, value in new.items()}
    elif isinstance(old, list):
        new = [*map(_merged, old, new), *new[len(old) :]]
    old.clear()
    if isinstance(old, dict | set):
        old.update(new)
    else:
        old.extend(new)


def _merged(old: Any, new: Any) -> Any:
    if type(old) is type(new) and is_mutable(old):
        overwrite(old, new)
        return old
    return new


# --- errors


def is_builtin(value: Any) -> bool:
    """Whether a type or a function is Python's builtin of that name."""
    return getattr(builtins, getattr(value, "__name__", ""), None) is value


def ancestry(kind: type[BaseException]) -> list[Any]:
    """An exception's class as data: its name, its module, and its builtin ancestors."""
    return [kind.__name__, kind.__module__, [base.__name__ for base in kind.__mro__ if is_builtin(base)]]


def describe(error: BaseException, file: str = "") -> list[Any]:
    """An exception as data: its class as in `ancestry`, its message, its plain arguments, its line in the file."""
    try:
        text, args = str(error)[:4000], [encode(arg, lambda value: str(value)[:1000]) for arg in error.args]
    except BaseException:
        text, args = "", []
    return [*ancestry(type(error)), text, args, line_of(error, file)]


def line_of(error: BaseException, file: str) -> int:
    """The last line of the file that an exception passed through; 0 if there is none."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


# --- the conversation


class Session:
    """One side: its requests, its replies, and the tables of the objects that messages name.

    Of some containers each side has a copy: a mirror is such a container, and its content as the other side knows it.
    """

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._objects: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._next = 0
        self._peers: dict[int, Any] = {}
        self._mirrors: dict[int, list[Any]] = {}

    def request(self, *message: Any) -> Message:
        """Ask, and serve the other side until it replies."""
        write_frame(self._write, list(message))
        while (reply := read_frame(self._read))[0] not in ("ok", "err"):
            write_frame(self._write, self.answer(*reply))
        return reply

    def answer(self, op: str, *operands: Any) -> Message:
        """The reply to a request; an error is a reply, too."""
        raise NotImplementedError

    def encode(self, value: Any) -> Any:
        """JSON for a value; a reference for an object that stays here."""
        try:
            return encode(value, self.refer)
        except RecursionError:
            return self.export(value)

    def decode(self, data: Any) -> Any:
        """A value from JSON."""
        return decode(data, self.resolve)

    def refer(self, value: Any) -> Any:
        """JSON for a value that is not plain data."""
        return self.export(value)

    def export(self, value: Any) -> Any:
        """Number one of this side's objects."""
        number = self._numbers.setdefault(id(value), self._next)
        self._next += number == self._next
        self._objects[number] = value
        return {"t": "ref", "v": number}

    def forget(self, first: int) -> None:
        """Take back the numbers from `first` on."""
        for number in [number for number in self._objects if number >= first]:
            del self._numbers[id(self._objects.pop(number))]

    def adopt(self, number: int) -> Any:
        """A stand-in for one of the other side's objects."""
        raise NotImplementedError

    def resolve(self, data: dict[str, Any]) -> Any:
        """The object that a reference names."""
        number = data["v"]
        if data["t"] == "yours":
            return self._objects[number]
        if data["t"] != "ref" or type(number) is not int:
            raise ValueError("not a reference")
        if number not in self._peers:
            self._peers[number] = self.adopt(number)
        return self._peers[number]

    def changes(self) -> list[list[Any]]:
        """The mirrors that have changed since the other side last knew, by their places."""
        changed = []
        for place, mirror in self._mirrors.items():
            content = self.encode(mirror[0])
            if content != mirror[1]:
                mirror[1] = content
                changed.append([place, content])
        return changed

    def apply(self, changes: list[list[Any]]) -> None:
        """Take over what the other side changed."""
        for place, content in changes:
            if place in self._mirrors:
                mirror = self._mirrors[place]
                overwrite(mirror[0], content)
                mirror[1] = self.encode(mirror[0])

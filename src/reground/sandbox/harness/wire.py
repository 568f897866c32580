"""The conversation between a program and its tests, which do not trust each other.

A frame is four bytes of length, and JSON. Its bytes and its number of values are limited before it is parsed. What
crosses is plain data, of limited size: numbers, texts, dates, and containers and arrays of them, rebuilt as builtins.
Names, types and calls are not plain data. Anything else crosses as a numbered reference, which the receiver resolves.
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
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
MOST_DEPTH = 200
MOST_BITS = 1 << 24
MOST_EXPONENT = 100_000
MOST_STEPS = 1 << 22
_SAFE_INT = 1 << 62

Message = dict[str, Any]
Refer = Callable[[Any], Any]
Resolve = Callable[[dict[str, Any]], Any]


class WireError(BaseException):
    """The other side has gone or violates the protocol. It is no Exception, so that `except Exception` misses it."""


class Channel:
    """Whole frames over a pair of file descriptors."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write

    def send(self, message: dict[str, Any]) -> None:
        """Write one frame. Raises WireError if the reader has gone or the message is too long."""
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
        """Read one frame. Raises WireError at the end of the stream and for an invalid frame."""
        size = int.from_bytes(self._exactly(4), "big")
        if size > MOST_BYTES:
            raise WireError("a value is too large to cross")
        return parse(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = os.read(self._read, min(size - len(data), 1 << 20))
            except OSError as error:
                raise WireError("the other side has gone") from error
            if not part:
                raise WireError("the other side has gone")
            data += part
        return bytes(data)


def parse(data: bytes) -> dict[str, Any]:
    """A frame's message. Raises WireError."""
    if len(data) > MOST_NODES and _nodes(data) > MOST_NODES:
        raise WireError("a value has too many parts to cross")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError, MemoryError) as error:
        raise WireError("not a message") from error
    if not isinstance(message, dict):
        raise WireError("not a message")
    return message


def _nodes(data: bytes) -> int:
    """At least the number of values in a frame. Commas within texts are only excluded if the limit is exceeded."""
    if (most := _marks(data)) <= MOST_NODES:
        return most
    return _marks(_TEXT.sub(b"", data))


def _marks(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


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
    # A list of only plain numbers or texts is JSON already, and need not be walked item by item.
    if kinds <= _TEXTS or (kinds <= _NUMBERS and min(value) > -_SAFE_INT and max(value) < _SAFE_INT):
        return list(value)
    return [encode(item, refer) for item in value]


def _array(value: Any, refer: Refer) -> tuple[str, Any]:
    if value.dtype.kind not in "biufc":
        return "tuple", [encode(value.tolist(), refer)]
    return "array", [value.dtype.str, list(value.shape), value.tobytes().hex()]


def _offset(moment: Any) -> str:
    if moment.tzinfo is not None and type(moment.tzinfo).__module__ != "datetime":
        moment = moment.replace(tzinfo=__import__("datetime").timezone(moment.utcoffset()))
    return str(moment.isoformat())


_NUMPY_SCALARS = (
    "bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 str_ "
    "bytes_"
)
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
    "datetime.date": lambda v, r: ("date", v.isoformat()),
    "datetime.time": lambda v, r: ("time", v.isoformat()),
    "datetime.datetime": lambda v, r: ("datetime", _offset(v)),
    "datetime.timedelta": lambda v, r: ("timedelta", [v.days, v.seconds, v.microseconds]),
    "decimal.Decimal": lambda v, r: ("decimal", str(v)),
    "fractions.Fraction": lambda v, r: ("fraction", [hex(v.numerator), hex(v.denominator)]),
    "numpy.ndarray": _array,
    **{f"numpy.{name}": lambda v, r: ("", encode(v.item(), r)) for name in _NUMPY_SCALARS.split()},
}


def decode(data: Any, resolve: Resolve) -> Any:
    """Values from JSON; `resolve` looks up references. Raises WireError for anything else."""
    try:
        return _decode(data, resolve, 0)
    except Exception as error:
        raise WireError(f"not a value: {type(error).__name__}") from error


def _decode(data: Any, resolve: Resolve, depth: int) -> Any:
    if isinstance(data, list):
        return _many(data, resolve, depth)
    if not isinstance(data, dict):
        return data
    if depth > MOST_DEPTH:
        raise ValueError("too deep")
    tag, body = data["t"], data.get("v")
    if tag in _NESTED:
        return _NESTED[tag](body, resolve, depth + 1)
    return _FLAT[tag](body) if tag in _FLAT else resolve(data)


def _many(body: Any, resolve: Resolve, depth: int) -> list[Any]:
    if not isinstance(body, list) or depth > MOST_DEPTH:
        raise ValueError("not a sequence, or too deep")
    if not set(map(type, body)) & {list, dict}:
        return body
    return [_decode(item, resolve, depth + 1) for item in body]


def _decode_int(body: Any) -> int:
    if len(body) > MOST_BITS // 4:
        raise ValueError("too many digits")
    return int(body, 16)


def _decode_decimal(body: Any) -> Any:
    number = __import__("decimal").Decimal(body)
    if len(body) > MOST_EXPONENT or (number.is_finite() and abs(number.adjusted()) > MOST_EXPONENT):
        raise ValueError("too many digits")
    return number


def _decode_range(body: Any) -> range:
    numbers = range(*map(_decode_int, body))
    if numbers and abs(numbers[-1] - numbers[0]) // abs(numbers.step) > MOST_STEPS:
        raise ValueError("too many steps")
    return numbers


_NUMERIC = re.compile(r"[<>|=]?[biufc][0-9]{1,2}")


def _decode_array(body: Any) -> Any:
    kind, shape, data = body
    if not _NUMERIC.fullmatch(kind):
        raise ValueError("not a numeric array")
    numpy: Any = __import__("numpy")
    array = numpy.frombuffer(bytes.fromhex(data), dtype=kind).reshape([int(size) for size in shape])
    if array.size == 0:
        return array.view(_empty(numpy))
    # Normalise booleans: bytes other than 0 and 1 would equal neither.
    return array.view("u1") != 0 if array.dtype.kind == "b" else array.copy()


def _empty(numpy: Any) -> type:
    """Empty arrays that numpy does not broadcast to other shapes, because every comparison of nothing is true."""

    class Empty(numpy.ndarray):  # type: ignore[misc]
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
            if any(numpy.ndim(other) and numpy.size(other) for other in inputs):
                raise ValueError("an empty array has no counterpart in one that is not")
            return getattr(ufunc, method)(*(numpy.array(other, subok=False) for other in inputs), **named)

    return Empty


def _date(name: str) -> Callable[[Any], Any]:
    return lambda body: getattr(__import__("datetime"), name).fromisoformat(body)


_FLAT: dict[str, Callable[[Any], Any]] = {
    "int": _decode_int,
    "bytes": lambda b: bytes.fromhex(b),
    "bytearray": lambda b: bytearray.fromhex(b),
    "complex": lambda b: complex(b[0], b[1]),
    "range": _decode_range,
    "ellipsis": lambda b: ...,
    "date": _date("date"),
    "time": _date("time"),
    "datetime": _date("datetime"),
    "timedelta": lambda b: __import__("datetime").timedelta(*b),
    "decimal": _decode_decimal,
    "fraction": lambda b: __import__("fractions").Fraction(_decode_int(b[0]), _decode_int(b[1])),
    "array": _decode_array,
}
_NESTED: dict[str, Callable[[Any, Resolve, int], Any]] = {
    "": _decode,
    "tuple": lambda b, r, d: tuple(_many(b, r, d)),
    "set": lambda b, r, d: set(_many(b, r, d)),
    "frozenset": lambda b, r, d: frozenset(_many(b, r, d)),
    "dict": lambda b, r, d: {_decode(k, r, d): _decode(v, r, d) for k, v in b},
    "deque": lambda b, r, d: deque(_many(b[0], r, d), b[1]),
}

_MUTABLE = (list, dict, set, bytearray, deque)


def is_mutable(value: Any) -> bool:
    """Whether plain data can be changed in place."""
    return isinstance(value, _MUTABLE)


def overwrite(old: Any, new: Any) -> None:
    """Give a container the content of another of its kind in place, including matching nested containers."""
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


def is_builtin(value: Any) -> bool:
    """Whether a type or a function is Python's builtin of that name."""
    return getattr(builtins, getattr(value, "__name__", ""), None) is value


def describe(error: BaseException, file: str = "") -> dict[str, Any]:
    """An exception as data: its name, its builtin ancestors, its message and its plain arguments."""
    kind = type(error)
    known = [c.__name__ for c in kind.__mro__ if is_builtin(c)]
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
    """The last line of the file that an exception passed through; 0 if there is none."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


class Session:
    """Requests, replies, and the tables of objects that they name.

    While one side waits for a reply it serves the other's requests, so callbacks nest.
    `broken` says why the conversation ended; nothing mends it, so a test cannot pass over it.
    """

    def __init__(self, channel: Channel) -> None:
        self.broken = ""
        self._channel = channel
        self._own: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._next = 0
        self._peers: dict[int, Any] = {}

    def request(self, op: str, *operands: Any, **more: Any) -> Message:
        """Ask, and serve the other side until it answers."""
        self.send({"op": op, "a": [self.encode(operand) for operand in operands], **more})
        while True:
            message = self.receive()
            if "op" not in message:
                return message
            self.send(self.answer(message))

    def answer(self, message: Message) -> Message:
        """The reply to a request; an error is a reply, too."""
        raise NotImplementedError

    def send(self, message: Message) -> None:
        """Send a frame, unless the conversation is over."""
        self.guard(lambda: self._channel.send(message))

    def receive(self) -> Message:
        """Receive a frame, unless the conversation is over."""
        message: Message = self.guard(self._channel.receive)
        return message

    def encode(self, value: Any) -> Any:
        """JSON for a value; a reference for an object that stays here."""
        try:
            return encode(value, self.refer)
        except RecursionError:
            return self.export(value)

    def decode(self, data: Any) -> Any:
        """A value from JSON."""
        return self.guard(lambda: decode(data, self.resolve))

    def refer(self, value: Any) -> Message:
        """A reference to a value that is not plain data."""
        return self.export(value)

    def export(self, value: Any) -> Message:
        """Number one of this side's objects."""
        number = self._numbers.setdefault(id(value), self._next)
        self._next += number == self._next
        self._own[number] = value
        return {"t": "ref", "v": number}

    def forget(self, first: int) -> None:
        """Take back the numbers from `first` on."""
        for number in [number for number in self._own if number >= first]:
            del self._numbers[id(self._own.pop(number))]

    def adopt(self, number: int, data: Message) -> Any:
        """A stand-in for one of the other side's objects."""
        raise NotImplementedError

    def resolve(self, data: Message) -> Any:
        """The object that a reference names."""
        number = data["v"]
        if type(number) is not int:
            raise WireError("not a reference")
        if data["t"] == "yours":
            return self._own[number]
        if data["t"] != "ref":
            raise WireError("not a value: unknown kind")
        if number not in self._peers:
            self._peers[number] = self.adopt(number, data)
        return self._peers[number]

    def guard(self, act: Any) -> Any:
        """Run work that may end the conversation, unless it is over."""
        if self.broken:
            raise WireError(self.broken)
        try:
            return act()
        except WireError as error:
            self.broken = str(error)
            raise

"""The tests' side: trusted code that sees the program's objects only through handles."""

from __future__ import annotations

import builtins
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from .wire import (
    MOST_NODES,
    Channel,
    Message,
    Session,
    WireError,
    decode,
    describe,
    encode,
    is_builtin,
    is_mutable,
    line_of,
    overwrite,
)

FILE = "tests.py"
_TRUSTED_ERRORS = ("sqlite3", "json.decoder", "decimal", "zipfile", "binascii", "xml.etree.ElementTree", "re")
MOST_MIRRORS = 256
_READABLE = {"__name__", "__qualname__", "__doc__", "__dict__", "__annotations__", "__module__"}


class ProgramEnded(BaseException):
    """The program asked to exit. Not an Exception, so that `assertRaises(Exception)` does not accept it."""


class Handle:
    """One of the program's objects. Its answers are data; its equality with plain data is decided here.

    It has no arithmetic and no order, so that no object can pretend to be a number.
    """

    __slots__ = ("_number", "_session")
    _number: int
    _session: TestsSession

    def __init__(self, session: TestsSession, number: int) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_number", number)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the object in the program."""
        return self._session.call(self, list(args), named, sys._getframe(1))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in _READABLE:
            raise AttributeError(name)
        return self._session.get(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._session.place("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._session.ask("delete", self, name)

    def __getitem__(self, key: Any) -> Any:
        return self._session.ask("item", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._session.place("set_item", self, key, value)

    def __delitem__(self, key: Any) -> None:
        self._session.ask("delete_item", self, key)

    def __len__(self) -> int:
        return int(self._session.ask("len", self))

    def __iter__(self) -> Iterator[Any]:
        items = self._session.ask("iter", self)
        done, count = False, 0
        while not done:
            some, done = self._session.ask("take", items, 64)
            count += len(some)
            if type(some) is not list or count > MOST_NODES:
                raise ValueError("an iterator without end")
            yield from some

    def __next__(self) -> Any:
        return self._session.ask("next", self)

    def __contains__(self, item: Any) -> bool:
        return any(each == item for each in self)

    def __str__(self) -> str:
        return str(self._session.ask("str", self))

    def __repr__(self) -> str:
        return str(self._session.ask("repr", self))

    def __bool__(self) -> bool:
        return self._session.ask("bool", self) is True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Handle):
            return other is self or self._session.ask("eq", self, other) is True
        if isinstance(other, type):
            return is_builtin(other) and self._session.ask("builtin", self) == other.__name__
        holds, plain = self._session.ask("plain", self)
        return holds is True and bool(plain == other)

    def __hash__(self) -> int:
        return id(self)

    # numpy must not treat an object of the program as an array.
    __array_ufunc__ = None

    def __array__(self, *args: Any, **named: Any) -> Any:
        raise TypeError("an object of the program is no array")

    def __enter__(self) -> Any:
        return self._session.call(self._session.get(self, "__enter__"), [], {}, sys._getframe())

    def __exit__(self, *error: object) -> bool:
        return self._session.call(self._session.get(self, "__exit__"), [None, None, None], {}, sys._getframe()) is True

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, Handle) and self._session.ask("isinstance", value, self) is True


class TestsSession(Session):
    """Asks the program, and lets it call only the functions that the running call passed to it.

    failed: the first assertion of the tests that failed within such a call; the program cannot hide it.
    """

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.failed: AssertionError | None = None
        self._mirrors: dict[int, list[Any]] = {}
        self._loading = False

    def load(self, exports: list[str]) -> dict[str, Any]:
        """The program's objects with these names."""
        self._loading = True
        try:
            values = self.ask("load", exports)
        finally:
            self._loading = False
        if type(values) is not list or len(values) != len(exports):
            raise self._odd()
        return dict(zip(exports, values, strict=True))

    def ask(self, op: str, *operands: Any) -> Any:
        """The program's answer. Its exception is raised here."""
        first = self._next
        try:
            return self.decode(self._exchange(op, *operands)["ok"])
        finally:
            self.forget(first)

    def place(self, op: str, *operands: Any) -> None:
        """Set an attribute or an item. A function of the tests set there can be called later, too."""
        self._exchange(op, *operands)

    def get(self, handle: Handle, name: str) -> Any:
        """An attribute. A container is a copy that is synchronised with the original in both directions."""
        reply = self._exchange("get", handle, name)
        value = self.decode(reply["ok"])
        place = reply.get("mirror")
        if type(place) is not int or not 0 <= place < MOST_MIRRORS or not is_mutable(value):
            return value
        known = self._mirrors.get(place)
        if known is not None and type(known[0]) is type(value):
            overwrite(known[0], value)
            value = known[0]
        self._mirrors[place] = [value, self.encode(value)]
        return value

    def call(self, handle: Handle, args: list[Any], named: dict[str, Any], caller: types.FrameType) -> Any:
        """Call a function. Changes of its arguments only count if its answer is None or unused.

        Otherwise a program could change the value with which the tests compare its answer.
        """
        first = self._next
        try:
            reply = self._exchange("call", handle, args, dict(named))
            answer = self.decode(reply["ok"])
            changes = self._changes(reply)
            if changes and (answer is None or _discards(caller)):
                for place, data in changes:
                    if is_mutable(args[place]):
                        overwrite(args[place], self.decode(data))
            return answer
        finally:
            self.forget(first)

    def refer(self, value: Any) -> Message:
        """Refer to the program's objects by number, to Python's by name, and export others as callables."""
        if isinstance(value, Handle):
            return {"t": "yours", "v": value._number}  # noqa: SLF001
        if isinstance(value, type | types.BuiltinFunctionType) and is_builtin(value):
            return {"t": "builtin", "v": value.__name__}
        return self.export(value)

    def adopt(self, number: int, data: Message) -> Any:
        """A handle or, for an exception class that the tests name, a class on this side."""
        return _error_class(data["x"]) if self._loading and "x" in data else Handle(self, number)

    def answer(self, message: Message) -> Message:
        """Let the program call a function that was passed to it, with plain data only; other results become None."""
        function, args, named = self._borrowed(message)
        try:
            return {"ok": encode(function(*args, **named), lambda part: None)}
        except AssertionError as error:
            self.failed = self.failed or error
            return {"err": describe(error)}
        except WireError:
            raise
        except BaseException as error:
            return {"err": describe(error)}

    def _borrowed(self, message: Message) -> tuple[Any, list[Any], dict[str, Any]]:
        try:
            reference, args, named = message["a"]
            number = reference["v"]
            args, named = self.guard(lambda: (decode(args, _refuse), decode(named, _refuse)))
            if message["op"] != "call" or reference["t"] != "yours" or type(number) is not int:
                raise self._odd()
            if type(args) is not list or type(named) is not dict or not all(type(name) is str for name in named):
                raise self._odd()
        except (LookupError, TypeError, ValueError, AttributeError) as odd:
            raise self._odd() from odd
        return self._own.get(number, _returned), args, named

    def _odd(self) -> WireError:
        self.broken = self.broken or "the program does not keep to the protocol"
        return WireError(self.broken)

    def _changes(self, reply: Message) -> list[Any]:
        changes = reply.get("args", [])
        if type(changes) is list and all(type(change) is list and len(change) == 2 for change in changes):
            return changes
        raise self._odd()

    def _exchange(self, op: str, *operands: Any) -> Message:
        push = []
        for place, mirror in self._mirrors.items():
            new = self.encode(mirror[0])
            if new != mirror[1]:
                mirror[1] = new
                push.append([place, new])
        reply = self.request(op, *operands, **({"push": push} if push else {}))
        try:
            for place, data in reply.get("pull", ()):
                if place in self._mirrors:
                    overwrite(self._mirrors[place][0], self.decode(data))
                    self._mirrors[place][1] = self.encode(self._mirrors[place][0])
            if "err" not in reply:
                reply["ok"]
                return reply
            error = _rebuild(reply["err"])
        except (LookupError, TypeError, ValueError, AttributeError) as odd:
            raise self._odd() from odd
        if isinstance(error, StopIteration | StopAsyncIteration | GeneratorExit) and op != "next":
            # Within a `zip` or a generator of the tests it would end these instead of failing them.
            attributes = error.__dict__
            error = _derived(type(error).__name__, RuntimeError)(*error.args)
            error.__dict__.update(attributes)
        raise error


def _discards(caller: types.FrameType) -> bool:
    """Whether the calling code discards the result, as a call that is a statement does."""
    import dis

    after = (step for step in dis.get_instructions(caller.f_code) if step.offset > caller.f_lasti)
    return next(after).opname == "POP_TOP"


def _refuse(data: Any) -> Any:
    raise TypeError("only plain data crosses here")


def _returned(*args: Any, **named: Any) -> Any:
    raise TypeError("the call that this function was passed to is over")


def _error_class(data: Message) -> type[BaseException]:
    name, known = str(data["type"]), [str(base) for base in data["mro"]]
    trusted = str(data.get("module", ""))
    if trusted in _TRUSTED_ERRORS and trusted in sys.modules:
        kind = getattr(sys.modules[trusted], name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind
    for base in known:
        kind = getattr(builtins, base, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind if kind.__name__ == name else _derived(name, kind)
    return ProgramEnded


_CLASSES: dict[tuple[str, type], type[BaseException]] = {}


def _derived(name: str, base: type[BaseException]) -> type[BaseException]:
    return _CLASSES.setdefault((name, base), type(name, (base,), {"__module__": "program"}))


def _rebuild(data: Message) -> BaseException:
    kind = _error_class(data)
    text, args = str(data["text"]), [arg for arg in data["args"] if not isinstance(arg, dict | list)]
    try:
        error = kind(*args)
    except Exception:
        error = _derived(kind.__name__, Exception)(text)
    where = f" (line {data['line']})" if data.get("line") else ""
    error.__dict__["from_program"] = f"{data['type']}: {text}{where}"
    error.__dict__["type_in_program"] = str(data["type"])
    return error


def main(job: Message) -> None:
    """Load the program, run the tests, and report on a pipe that the program does not have."""
    report = os.dup(2)
    session = TestsSession(Channel(os.dup(0), os.dup(1)))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    verdict, detail = judge(session, job)
    if session.broken:
        verdict, detail = "gone", session.broken
    result = json.dumps({"verdict": verdict, "detail": detail[:4000]})
    os.write(report, f"\n{job['nonce']}{result}\n".encode())
    os._exit(0)


def judge(session: TestsSession, job: Message) -> tuple[str, str]:
    """A verdict and its reason."""
    try:
        exports = session.load(list(job["exports"]))
    except BaseException as error:
        return _blame(error, loading=True)
    module = types.ModuleType("tests")
    module.__file__ = f"{os.getcwd()}/{FILE}"  # noqa: PTH109
    sys.modules["tests"] = module
    module.__dict__.update(exports)
    try:
        harden(job["tests"])
        exec(compile(job["tests"], FILE, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
        _run_cases(module)
        if session.failed is not None:
            raise session.failed
    except BaseException as error:
        return _blame(error, tests=job["tests"])
    return "passed", ""


def _run_cases(module: types.ModuleType) -> None:
    """Run the tests' unittest classes, if any, and raise the first failure."""
    unittest = sys.modules.get("unittest")
    if unittest is None:
        return
    kinds = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, unittest.TestCase)]
    load = unittest.TestLoader().loadTestsFromTestCase
    unittest.TestSuite(load(kind) for kind in kinds if kind.__module__ == "tests").debug()


def _blame(error: BaseException, *, tests: str = "", loading: bool = False) -> tuple[str, str]:
    message = getattr(error, "from_program", None)
    if message is not None:
        kind = error.__dict__["type_in_program"]
        if kind == "MemoryError":
            return "memory", message
        if loading and kind in ("SyntaxError", "IndentationError", "TabError"):
            return "syntax", message
        return "exception", message
    line = line_of(error, FILE)
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    source = tests.splitlines()[line - 1].strip()[:300] if 0 < line <= len(tests.splitlines()) else ""
    if isinstance(error, AssertionError):
        return "wrong answer", f"{message[:1500]} in: {source}" if source else message[:1500]
    return "exception", f"in the tests: {message[:1500]} in: {source}" if source else f"in the tests: {message[:1500]}"


def harden(tests: str) -> None:
    """Make numpy's tolerant comparisons check shapes, so that an empty array only equals an empty one."""
    if "numpy" not in tests:
        return
    numpy: Any = __import__("numpy")
    for name in ("allclose", "isclose"):
        setattr(numpy, name, _shaped(numpy, getattr(numpy, name)))
    if "testing" in tests:
        testing: Any = __import__("numpy.testing").testing
        for name in ("assert_allclose", "assert_almost_equal", "assert_array_almost_equal", "assert_array_equal"):
            setattr(testing, name, _asserted(numpy, getattr(testing, name)))


def _alike(numpy: Any, actual: Any, desired: Any) -> bool:
    """The same shape, or a single number against at least one."""
    shapes = [numpy.shape(actual), numpy.shape(desired)]
    return shapes[0] == shapes[1] or (() in shapes and 0 not in (numpy.size(actual), numpy.size(desired)))


def _shaped(numpy: Any, compare: Callable[..., Any]) -> Callable[..., Any]:
    def compared(a: Any, b: Any, *args: Any, **named: Any) -> Any:
        return compare(a, b, *args, **named) if _alike(numpy, a, b) else numpy.False_

    return compared


def _asserted(numpy: Any, check: Callable[..., Any]) -> Callable[..., Any]:
    def checked(actual: Any, desired: Any, *args: Any, **named: Any) -> None:
        if not _alike(numpy, actual, desired):
            raise AssertionError(f"shapes {numpy.shape(actual)} and {numpy.shape(desired)} do not match")
        check(actual, desired, *args, **named)

    return checked

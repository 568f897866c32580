"""The tests' side: trusted code that sees the program's objects only through handles."""

from __future__ import annotations

import builtins
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from . import wire

FILE = "tests.py"
_TRUSTED_ERRORS = ("sqlite3", "json.decoder", "decimal", "zipfile", "binascii", "xml.etree.ElementTree", "re")
_READABLE = {"__name__", "__qualname__", "__doc__", "__dict__", "__annotations__", "__module__"}
_VIEWS = {"items", "keys", "values", "issubset", "issuperset", "isdisjoint"}
_NO_PROTOCOL = "the program does not keep to the protocol"


class ProgramEnded(BaseException):
    """The program asked to exit. Not an Exception, so that `assertRaises(Exception)` does not accept it."""


def _asks(op: str) -> Callable[..., Any]:
    """A method that has the program perform an operation on the object."""

    def method(self: Handle, *operands: Any) -> Any:
        return self._session.ask(op, self, *operands)

    return method


def _sets(op: str) -> Callable[..., None]:
    """A method that sets something. A function of the tests that it sets can be called later, too."""

    def method(self: Handle, name: Any, value: Any) -> None:
        self._session.exchange(op, self, name, value)

    return method


class Handle:
    """One of the program's objects. Its answers are data; its equality with plain data is decided here.

    So are the length, the items and the truth of an instance of a plain container's subclass, whatever it overrides.
    It has no arithmetic and no order, so that no object can pretend to be a number.
    """

    __slots__ = ("_number", "_session")
    _number: int
    _session: TestsSession

    def __init__(self, session: TestsSession, number: int) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_number", number)

    __setattr__ = _sets("set")
    __delattr__ = _asks("delete")
    __setitem__ = _sets("set_item")
    __delitem__ = _asks("delete_item")
    __next__ = _asks("next")
    __str__ = _asks("str")
    __repr__ = _asks("repr")
    __hash__ = object.__hash__
    # numpy must not treat an object of the program as an array.
    __array_ufunc__ = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object in the program."""
        return self._session.call(self, list(args), kwargs, sys._getframe(1))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in _READABLE:
            raise AttributeError(name)
        if name in _VIEWS and hasattr(content := self._session.content(self), name):
            return getattr(content, name)
        return self._session.get(self, name)

    def __getitem__(self, key: Any) -> Any:
        # A subclass may know more than it holds, as by __missing__.
        with suppress(KeyError, TypeError):
            return self._session.content(self)[key]
        return self._session.ask("item", self, key)

    def __len__(self) -> int:
        content = self._session.content(self)
        return self._session.ask("len", self) if content is None else len(content)

    def __iter__(self) -> Iterator[Any]:
        if (content := self._session.content(self)) is not None:
            yield from content
            return
        batches = self._session.ask("batches", self)
        while True:
            try:
                batch = self._session.ask("next", batches)
            except StopIteration:
                return
            if type(batch) is not list:
                raise TypeError("not a batch of items")
            yield from batch

    def __bool__(self) -> bool:
        content = self._session.content(self)
        return self._session.ask("bool", self) is True if content is None else bool(content)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Handle):
            return other is self or self._session.ask("eq", self, other) is True
        if isinstance(other, type):
            return wire.is_builtin(other) and self._session.ask("builtin", self) == other.__name__
        content = self._session.content(self)
        return content is not None and bool(content == other)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("an object of the program is no array")

    def __enter__(self) -> Any:
        return self._session.call(self._session.get(self, "__enter__"), [], {}, sys._getframe())

    def __exit__(self, *error: object) -> bool:
        return self._session.call(self._session.get(self, "__exit__"), [None, None, None], {}, sys._getframe()) is True

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, Handle) and self._session.ask("isinstance", value, self) is True


class TestsSession(wire.Session):
    """Asks the program, and lets it call only the functions that the running call passed to it.

    broken: why the conversation ended; nothing mends it, so a test cannot pass over it.
    failed: the first assertion of the tests that failed within such a call; the program cannot hide it.
    """

    def __init__(self, read: int, write: int) -> None:
        super().__init__(read, write)
        self.broken = ""
        self.failed: AssertionError | None = None
        self._contents: dict[int, Any] = {}

    @contextmanager
    def _protocol(self) -> Iterator[None]:
        """Whatever goes wrong in the block ends the conversation for good. Raises WireError."""
        if self.broken:
            raise wire.WireError(self.broken)
        try:
            yield
        except wire.WireError as error:
            self.broken = self.broken or str(error)
            raise
        except Exception as error:
            self.broken = _NO_PROTOCOL
            raise wire.WireError(_NO_PROTOCOL) from error

    def load(self, exports: list[str]) -> dict[str, Any]:
        """The program's objects with these names."""
        values, classes = self.exchange("load", exports)
        with self._protocol():
            if type(values) is not list:
                raise TypeError
            pairs = zip(values, classes, strict=True)
            objects = [value if error is None else _error_class(*error) for value, error in pairs]
            return dict(zip(exports, objects, strict=True))

    def ask(self, op: str, *operands: Any) -> Any:
        """The program's answer. Its exception is raised here."""
        first = self._next
        try:
            return self.exchange(op, *operands)[0]
        finally:
            self.forget(first)

    def content(self, handle: Handle) -> Any:
        """What the instance of a plain container's subclass holds; None for any other object.

        The program says it once, until it runs again: it cannot have one length and other items.
        """
        number = handle._number  # noqa: SLF001
        if number not in self._contents:
            holds, plain = self.ask("plain", handle)
            self._contents[number] = plain if holds is True else None
        return self._contents[number]

    def get(self, handle: Handle, name: str) -> Any:
        """An attribute. A container is a copy that is synchronised with the original in both directions."""
        value, place = self.exchange("get", handle, name)
        if type(place) is not int or not 0 <= place < wire.MOST_MIRRORS or not wire.is_mutable(value):
            return value
        mirror = self._mirrors.get(place)
        if mirror is not None and type(mirror[0]) is type(value):
            wire.overwrite(mirror[0], value)
            value = mirror[0]
        self._mirrors[place] = [value, self.encode(value)]
        return value

    def call(self, handle: Handle, args: list[Any], kwargs: dict[str, Any], caller: types.FrameType) -> Any:
        """Call a function. Changes of its arguments only count if its answer is None or unused.

        Otherwise a program could change the value with which the tests compare its answer.
        """
        first = self._next
        try:
            answer, changes = self.exchange("call", handle, args, kwargs)
        finally:
            self.forget(first)
        if changes and (answer is None or _discards(caller)):
            with self._protocol():
                for place, content in changes:
                    if wire.is_mutable(args[place]):
                        wire.overwrite(args[place], content)
        return answer

    def exchange(self, op: str, *operands: Any) -> tuple[Any, Any]:
        """The program's answer, and what else the operation has to say. Its exception is raised here."""
        self._contents.clear()
        pushed = self.changes()
        data = [self.encode(operand) for operand in operands]
        with self._protocol():
            status, value, pulled, more = self.request(op, pushed, *data)
            self.apply(self.decode(pulled))
            if status == "ok":
                return self.decode(value), self.decode(more)
            error = _rebuild(value, ending=op == "next")
        raise error

    def refer(self, value: Any) -> Any:
        """Refer to the program's objects by number, to Python's by name, and export others as callables."""
        if isinstance(value, Handle):
            return {"t": "yours", "v": value._number}  # noqa: SLF001
        if isinstance(value, type | types.BuiltinFunctionType) and wire.is_builtin(value):
            return {"t": "builtin", "v": value.__name__}
        return self.export(value)

    def adopt(self, number: int) -> Any:
        """A handle."""
        return Handle(self, number)

    def answer(self, op: str, *operands: Any) -> wire.Message:
        """Let the program call a function that was passed to it, with plain data only; other results become None."""
        with self._protocol():
            number, args, kwargs = operands
            args, kwargs = wire.decode(args, _refuse), wire.decode(kwargs, _refuse)
            if op != "call" or type(args) is not list or type(kwargs) is not dict:
                raise TypeError(op)
            function = self._objects.get(number, _returned)
        try:
            return ["ok", wire.encode(function(*args, **kwargs), lambda part: None)]
        except AssertionError as error:
            self.failed = self.failed or error
            return ["err", wire.describe(error)]
        except wire.WireError:
            raise
        except BaseException as error:
            return ["err", wire.describe(error)]


def _discards(caller: types.FrameType) -> bool:
    """Whether the calling code discards the result, as a call that is a statement does."""
    import dis

    after = (step for step in dis.get_instructions(caller.f_code) if step.offset > caller.f_lasti)
    return next(after).opname == "POP_TOP"


def _refuse(data: Any) -> Any:
    raise TypeError("only plain data crosses here")


def _returned(*args: Any, **kwargs: Any) -> Any:
    raise TypeError("the call that this function was passed to is over")


def _error_class(name: str, module: str, ancestors: list[str]) -> type[BaseException]:
    """The class here that stands for a class of the program's exceptions."""
    if module in _TRUSTED_ERRORS and module in sys.modules:
        kind = getattr(sys.modules[module], name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind
    for ancestor in ancestors:
        kind = getattr(builtins, ancestor, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind if kind.__name__ == name else _derived(name, kind)
    return ProgramEnded


_CLASSES: dict[tuple[str, type], type[BaseException]] = {}


def _derived(name: str, base: type[BaseException]) -> type[BaseException]:
    return _CLASSES.setdefault((name, base), type(name, (base,), {"__module__": "program"}))


def _rebuild(description: list[Any], *, ending: bool) -> BaseException:
    """The program's exception. ending: whether it may be the end of an iteration.

    Elsewhere that would end a `zip` or a generator of the tests instead of failing them.
    """
    name, module, ancestors, text, args, line = description
    kind = _error_class(name, module, ancestors)
    if not ending and issubclass(kind, StopIteration | StopAsyncIteration):
        kind = _derived(kind.__name__, RuntimeError)
    try:
        error = kind(*(arg for arg in args if not isinstance(arg, dict | list)))
    except Exception:
        error = _derived(kind.__name__, Exception)(text)
    where = f" (line {line})" if line else ""
    error.__dict__.update(from_program=f"{name}: {text}{where}", type_in_program=name)
    return error


def main(job: dict[str, Any]) -> None:
    """Load the program, run the tests, and report on a pipe that the program does not have."""
    report = os.dup(2)
    session = TestsSession(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    verdict, detail = judge(session, job)
    if session.broken:
        verdict, detail = "gone", session.broken
    result = json.dumps({"verdict": verdict, "detail": detail[:4000]})
    os.write(report, f"\n{job['nonce']}{result}\n".encode())
    os._exit(0)


def judge(session: TestsSession, job: dict[str, Any]) -> tuple[str, str]:
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
        unittest = sys.modules.get("unittest")
        if unittest is not None:  # its first failure is raised
            kinds = [each for each in vars(module).values() if isinstance(each, type)]
            cases = [kind for kind in kinds if issubclass(kind, unittest.TestCase) and kind.__module__ == "tests"]
            unittest.TestSuite(map(unittest.TestLoader().loadTestsFromTestCase, cases)).debug()
        if session.failed is not None:
            raise session.failed
    except BaseException as error:
        return _blame(error, tests=job["tests"])
    return "passed", ""


def _blame(error: BaseException, *, tests: str = "", loading: bool = False) -> tuple[str, str]:
    message = getattr(error, "from_program", None)
    if message is not None:
        kind = error.__dict__["type_in_program"]
        if kind == "MemoryError":
            return "memory", message
        if loading and kind in ("SyntaxError", "IndentationError", "TabError"):
            return "syntax", message
        return "exception", message
    line, lines = wire.line_of(error, FILE), tests.splitlines()
    message = f"{type(error).__name__}: {error}"[:1500] if str(error) else type(error).__name__
    if 0 < line <= len(lines):
        message += f" in: {lines[line - 1].strip()[:300]}" if lines[line - 1].strip() else ""
    return ("wrong answer", message) if isinstance(error, AssertionError) else ("exception", f"in the tests: {message}")


def harden(tests: str) -> None:
    """Make numpy's tolerant comparisons check shapes, so that an empty array only equals an empty one."""
    if "numpy" not in tests:
        return
    numpy: Any = __import__("numpy")

    def shaped(compare: Callable[..., Any]) -> Callable[..., Any]:
        def compared(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
            return compare(a, b, *args, **kwargs) if _alike(numpy, a, b) else numpy.False_

        return compared

    def asserted(check: Callable[..., Any]) -> Callable[..., Any]:
        def checked(actual: Any, desired: Any, *args: Any, **kwargs: Any) -> None:
            if not _alike(numpy, actual, desired):
                raise AssertionError(f"shapes {numpy.shape(actual)} and {numpy.shape(desired)} do not match")
            check(actual, desired, *args, **kwargs)

        return checked

    for name in ("allclose", "isclose"):
        setattr(numpy, name, shaped(getattr(numpy, name)))
    if "testing" in tests:
        testing: Any = __import__("numpy.testing").testing
        for name in ("assert_allclose", "assert_almost_equal", "assert_array_almost_equal", "assert_array_equal"):
            setattr(testing, name, asserted(getattr(testing, name)))


def _alike(numpy: Any, *values: Any) -> bool:
    """Whether two values have the same shape, or one is a single number and the other has at least one."""
    shapes = [numpy.shape(value) for value in values]
    return shapes[0] == shapes[1] or (() in shapes and 0 not in map(numpy.size, values))

"""The program's side, which is not trusted."""

from __future__ import annotations

import builtins
import operator
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import wire

FILE = "program.py"
SYNTAX_EXIT = 65
BATCH = 64


class Peer:
    """A function of the tests, which can only be called."""

    def __init__(self, session: ProgramSession, number: int) -> None:
        self._session, self._number = session, number

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the tests' function with plain data, while the call that passed it is running."""
        data = wire.encode(list(args), _plain_only), wire.encode(kwargs, _plain_only)
        status, value = self._session.request("call", self._number, *data)
        if status == "ok":
            return self._session.decode(value)
        _, _, ancestors, text, *_ = value
        kinds = [getattr(builtins, name) for name in ancestors]
        raise next((kind for kind in kinds if issubclass(kind, Exception)), RuntimeError)(text)


def _plain_only(value: Any) -> Any:
    plain = wire.base_value(value)
    if plain is value:
        raise TypeError("a function of the tests takes plain data only")
    return wire.encode(plain, _plain_only)


class ProgramSession(wire.Session):
    """Serves the tests' requests on the program's objects.

    Its replies are the status, the value or the error, the changes of containers that the tests have copies of, and
    what else an operation has to say.
    """

    def __init__(self, read: int, write: int, source: str) -> None:
        super().__init__(read, write)
        self._source = source

    def serve(self) -> None:
        """Serve the tests until they have gone."""
        try:
            while True:
                wire.write_frame(self._write, self.answer(*wire.read_frame(self._read)))
        except wire.WireError:
            return

    def refer(self, value: Any) -> Any:
        """Subclasses of builtins that the program did not define cross as the builtin; other objects by reference."""
        if isinstance(value, Peer):
            return {"t": "yours", "v": value._number}  # noqa: SLF001
        if isinstance(value, bool | int | float | complex | str | bytes) or type(value).__module__ != "program":
            plain = wire.base_value(value)
            if plain is not value:
                return wire.encode(plain, self.refer)
        return self.export(value)

    def adopt(self, number: int) -> Any:
        """A function of the tests."""
        return Peer(self, number)

    def resolve(self, data: dict[str, Any]) -> Any:
        """Resolve Python's own types and functions by name, because the tests are trusted."""
        return getattr(builtins, data["v"]) if data["t"] == "builtin" else super().resolve(data)

    def answer(self, op: str, *operands: Any) -> wire.Message:
        """Perform a request, or describe its error. The first operand are the changes that the tests made to copies."""
        try:
            pushed, *values = map(self.decode, operands)
            self.apply(pushed)
            value, more = self._perform(op, values)
            return ["ok", value, self.changes(), more]
        except wire.WireError:
            raise
        except BaseException as error:
            return ["err", wire.describe(error, FILE), [], None]

    def _perform(self, op: str, operands: list[Any]) -> tuple[Any, Any]:
        if op == "load":
            return self._load(*operands)
        if op == "call":
            return self._call(*operands)
        value = _ACTS[op](*operands)
        return self.encode(value), self._mirror(value) if op == "get" else None

    def _load(self, exports: list[str]) -> tuple[Any, Any]:
        """Run the source. Returns what has the tests' names, and the classes of exceptions among it."""
        names = run_source(self._source, "program")
        missing = [name for name in exports if name not in names]
        if missing:
            raise NameError(f"the program does not define {', '.join(missing)}")
        values = [names[name] for name in exports]
        classes = [
            wire.ancestry(each) if isinstance(each, type) and issubclass(each, Exception) else None for each in values
        ]
        return [self.encode(each) for each in values], classes

    def _call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Call a function. Returns its answer, and the arguments that it changed by their places."""
        before = {place: self.encode(arg) for place, arg in enumerate(args) if wire.is_mutable(arg)}
        answer = self.encode(function(*args, **kwargs))
        after = [[place, self.encode(args[place])] for place in before]
        return answer, [[place, content] for place, content in after if content != before[place]]

    def _mirror(self, value: Any) -> int | None:
        """The number of a container of which the tests get a copy that follows it."""
        for place, mirror in self._mirrors.items():
            if mirror[0] is value:
                return place
        place = len(self._mirrors)
        if not wire.is_mutable(value) or place == wire.MOST_MIRRORS:
            return None
        self._mirrors[place] = [value, self.encode(value)]
        return place


def _batches(items: Any) -> Iterator[list[Any]]:
    """Items in lists, because each list takes a request. An error comes after the items before it."""
    batch = []
    try:
        for item in items:
            batch.append(item)
            if len(batch) == BATCH:
                yield batch
                batch = []
    except Exception:
        yield batch
        raise
    yield batch


def _plain(value: Any) -> list[Any]:
    """Whether the value is a builtin's subclass, and the builtin's value in it."""
    plain = wire.base_value(value)
    return [False, None] if plain is value else [True, plain]


_ACTS: dict[str, Callable[..., Any]] = {
    "get": getattr,
    "set": setattr,
    "delete": delattr,
    "item": operator.getitem,
    "set_item": operator.setitem,
    "delete_item": operator.delitem,
    "len": len,
    "batches": _batches,
    "next": next,
    "str": str,
    "repr": repr,
    "bool": bool,
    "eq": lambda value, other: bool(value == other),
    "plain": _plain,
    "builtin": lambda value: value.__name__ if isinstance(value, type) and wire.is_builtin(value) else None,
    "isinstance": isinstance,
}


def run_source(source: str, name: str) -> dict[str, Any]:
    """Execute a program as the module `name`; returns its names."""
    code = compile(source, FILE, "exec", dont_inherit=True)
    module = types.ModuleType(name)
    module.__file__ = FILE
    sys.modules[name] = module
    exec(code, module.__dict__)  # noqa: S102
    return module.__dict__


def main(job: dict[str, Any]) -> None:
    """Run the program: alone, for a value, or for tests."""
    for name in ("exit", "quit"):  # programs use them; Python has them from `site`, which is not loaded here
        setattr(builtins, name, sys.exit)
    if job["mode"] == "alone":
        _alone(job["source"])
    read, write = os.dup(0), os.dup(1)
    # Standard input has the program's text, and its output goes to standard error.
    text = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)  # noqa: S108
    os.write(text, job["stdin"].encode())
    os.lseek(text, 0, os.SEEK_SET)
    os.dup2(text, 0)
    os.close(text)
    os.dup2(2, 1)
    if job["mode"] == "value":
        wire.write_frame(write, _value(job))
    else:
        ProgramSession(read, write, job["source"]).serve()
    flush()
    os._exit(0)


def _alone(source: str) -> None:
    try:
        compile(source, FILE, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(SYNTAX_EXIT)
    try:
        run_source(source, "__main__")
    except Exception as error:
        flush()
        text = f"{type(error).__name__}: {error}"[:4000]
        if sys.__stderr__ is not None:
            sys.__stderr__.write(f"line {wire.line_of(error, FILE)}\n{text}\n")
        raise SystemExit(1) from None
    raise SystemExit(0)


def _value(job: dict[str, Any]) -> wire.Message:
    try:
        names = run_source(job["source"], "program")
        return ["ok", plain_json(eval(job["returns"], names))]  # noqa: S307
    except BaseException as error:
        return ["err", wire.describe(error, FILE)]


def plain_json(value: Any, depth: int = 0) -> Any:
    """The value as JSON data: other numbers as floats, other containers as lists, anything else as its repr."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() < 4096 else repr(value)[:4096]
    if isinstance(value, str):
        return str(value)
    if depth < 20 and isinstance(value, list | tuple | set | frozenset):
        return [plain_json(item, depth + 1) for item in value]
    if depth < 20 and isinstance(value, dict):
        return {str(key): plain_json(item, depth + 1) for key, item in value.items()}
    if hasattr(type(value), "__float__"):
        number = float(value)
        return number if number - number == 0 else repr(number)
    return repr(value)[:4096]


def flush() -> None:
    """Flush the program's output."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue

"""The program's side, which is not trusted."""

from __future__ import annotations

import builtins
import os
import sys
import types
from typing import Any

from .wire import (
    Channel,
    Message,
    Session,
    WireError,
    base_value,
    describe,
    encode,
    is_builtin,
    is_mutable,
    line_of,
    overwrite,
)

FILE = "program.py"
SYNTAX_EXIT = 65


class Peer:
    """A function of the tests, which can only be called."""

    def __init__(self, session: ProgramSession, number: int) -> None:
        self._session, self._number = session, number

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the tests' function with plain data, while the call that passed it is running."""
        reply = self._session.request("call", self, _plain_only(list(args)), _plain_only(dict(named)))
        if "err" in reply:
            raise _builtin_error(reply["err"])
        return self._session.decode(reply["ok"])


def _plain_only(value: Any) -> Any:
    def refuse(part: Any) -> Message:
        plain = base_value(part)
        if plain is part:
            raise TypeError("a function of the tests takes plain data only")
        return {"t": "", "v": encode(plain, refuse)}

    encode(value, refuse)
    return value


def _builtin_error(data: Message) -> BaseException:
    for name in data["mro"]:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind(data["text"])
    return RuntimeError(data["text"])


class ProgramSession(Session):
    """Serves the tests' requests on the program's objects."""

    def __init__(self, channel: Channel, source: str) -> None:
        super().__init__(channel)
        self._source = source
        self._mirrors: list[list[Any]] = []

    def refer(self, value: Any) -> Message:
        """Subclasses of builtins that the program did not define cross as the builtin; other objects by reference."""
        if isinstance(value, Peer):
            return {"t": "yours", "v": value._number}  # noqa: SLF001
        if isinstance(value, bool | int | float | complex | str | bytes) or type(value).__module__ != "program":
            plain = base_value(value)
            if plain is not value:
                return {"t": "", "v": encode(plain, self.refer)}
        return self.export(value)

    def export(self, value: Any) -> Message:
        """Exception classes carry their base classes, so that the tests can name them in `except`."""
        data = super().export(value)
        if isinstance(value, type) and issubclass(value, Exception):
            described = describe(value.__new__(value))
            data["x"] = {"type": described["type"], "mro": described["mro"]}
        return data

    def adopt(self, number: int, data: Message) -> Any:
        """A function of the tests."""
        return Peer(self, number)

    def resolve(self, data: Message) -> Any:
        """Resolve Python's own types and functions by name, because the tests are trusted."""
        if data["t"] == "builtin":
            return getattr(builtins, data["v"])
        return super().resolve(data)

    def answer(self, message: Message) -> Message:
        """Perform a request, and describe its error."""
        try:
            operands = [self.decode(operand) for operand in message["a"]]
            return self.perform(str(message["op"]), operands, message)
        except WireError:
            raise
        except BaseException as error:
            return {"err": describe(error, FILE)}

    def perform(self, op: str, operands: list[Any], message: Message) -> Message:
        """Perform a request, and report changes of the containers that the tests have copies of."""
        for place, data in message.get("push", ()):
            mirror = self._mirrors[place]
            overwrite(mirror[0], self.decode(data))
            mirror[1] = self.encode(mirror[0])
        reply = self._call(*operands) if op == "call" else {"ok": self.encode(_ACTS[op](self, *operands))}
        if op == "get":
            self._mirror(getattr(operands[0], operands[1]), reply)
        pull = [[place, new[0]] for place, mirror in enumerate(self._mirrors) if (new := self._changed(mirror))]
        if pull:
            reply["pull"] = pull
        return reply

    def load(self, exports: list[str]) -> list[Any]:
        """Run the source, and return the tests' names from it, in their order."""
        names = run_source(self._source, "program")
        missing = [name for name in exports if name not in names]
        if missing:
            raise NameError(f"the program does not define {', '.join(missing)}")
        return [names[name] for name in exports]

    def _mirror(self, value: Any, reply: Message) -> None:
        if not is_mutable(value):
            return
        for place, mirror in enumerate(self._mirrors):
            if mirror[0] is value:
                reply["mirror"] = place
                return
        if len(self._mirrors) < 256:
            reply["mirror"] = len(self._mirrors)
            self._mirrors.append([value, reply["ok"]])

    def _changed(self, mirror: list[Any]) -> list[Any]:
        new = self.encode(mirror[0])
        if new == mirror[1]:
            return []
        mirror[1] = new
        return [new]

    def _call(self, function: Any, args: list[Any], named: dict[str, Any]) -> Message:
        before = {place: self.encode(arg) for place, arg in enumerate(args) if is_mutable(arg)}
        reply = {"ok": self.encode(function(*args, **named))}
        changed = {place: self.encode(args[place]) for place in before}
        moved = [[place, new] for place, new in changed.items() if new != before[place]]
        if moved:
            reply["args"] = moved
        return reply


class _Taken:
    """An iterator that raises an error only after the items before it were taken."""

    def __init__(self, items: Any) -> None:
        self._items = iter(items)
        self._error: BaseException | None = None

    def take(self, count: int) -> list[Any]:
        """Up to `count` items, and whether that was all."""
        if self._error is not None:
            raise self._error
        items: list[Any] = []
        try:
            while len(items) < count:
                items.append(next(self._items))
        except StopIteration:
            return [items, True]
        except Exception as error:
            if not items:
                raise
            self._error = error
        return [items, False]


def _delete_item(session: ProgramSession, value: Any, key: Any) -> None:
    del value[key]


def _set_item(session: ProgramSession, value: Any, key: Any, item: Any) -> None:
    value[key] = item


_ACTS: dict[str, Any] = {
    "load": ProgramSession.load,
    "get": lambda s, value, name: getattr(value, name),
    "set": lambda s, value, name, item: setattr(value, name, item),
    "delete": lambda s, value, name: delattr(value, name),
    "item": lambda s, value, key: value[key],
    "set_item": _set_item,
    "delete_item": _delete_item,
    "len": lambda s, value: len(value),
    "iter": lambda s, value: _Taken(value),
    "take": lambda s, value, count: value.take(count),
    "next": lambda s, value: next(value),
    "str": lambda s, value: str(value),
    "repr": lambda s, value: repr(value),
    "bool": lambda s, value: bool(value),
    "eq": lambda s, value, other: bool(value == other),
    "plain": lambda s, value: [base_value(value) is not value, _plain(value)],
    "builtin": lambda s, value: value.__name__ if isinstance(value, type) and is_builtin(value) else None,
    "isinstance": lambda s, value, kind: isinstance(value, kind),
}


def _plain(value: Any) -> Any:
    plain = base_value(value)
    return None if plain is value else plain


def run_source(source: str, name: str) -> dict[str, Any]:
    """Execute a program as the module `name`; returns its names."""
    module = types.ModuleType(name)
    module.__file__ = FILE
    sys.modules[name] = module
    exec(compile(source, FILE, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    return module.__dict__


def main(job: Message) -> None:
    """Run the program: alone, for a value, or for tests."""
    for name in ("exit", "quit"):  # programs use them; Python has them from `site`, which is not loaded here
        setattr(builtins, name, sys.exit)
    if job["mode"] == "alone":
        _alone(job["source"])
    channel = Channel(os.dup(0), os.dup(1))
    _quiet_streams(job["stdin"])
    if job["mode"] == "value":
        channel.send(_value(job))
    else:
        _serve(ProgramSession(channel, job["source"]))
    flush()
    os._exit(0)


def _alone(source: str) -> None:
    try:
        code = compile(source, FILE, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(SYNTAX_EXIT)
    module = types.ModuleType("__main__")
    module.__file__ = FILE
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)  # noqa: S102
    except Exception as error:
        flush()
        text = f"{type(error).__name__}: {error}"[:4000]
        if sys.__stderr__ is not None:
            sys.__stderr__.write(f"line {line_of(error, FILE)}\n{text}\n")
        raise SystemExit(1) from None
    raise SystemExit(0)


def _value(job: Message) -> Message:
    try:
        names = run_source(job["source"], "program")
        return {"value": plain_json(eval(job["returns"], names))}  # noqa: S307
    except BaseException as error:
        return {"err": describe(error, FILE)}


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


def _quiet_streams(stdin: str) -> None:
    """Give standard input the text, send output to standard error, and move the channel to other descriptors."""
    text = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)  # noqa: S108
    os.write(text, stdin.encode())
    os.lseek(text, 0, os.SEEK_SET)
    os.dup2(text, 0)
    os.close(text)
    os.dup2(2, 1)


def _serve(session: ProgramSession) -> None:
    try:
        while True:
            session.send(session.answer(session.receive()))
    except WireError:
        return


def flush() -> None:
    """Flush the program's output."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue

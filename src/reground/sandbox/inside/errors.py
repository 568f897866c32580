"""Exceptions as data."""

from __future__ import annotations

import builtins
from typing import Any

from .values import encode


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
    found, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found

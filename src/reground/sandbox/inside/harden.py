"""Prevents comparisons that pass without comparing anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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


def _alike(numpy: Any, found: Any, wanted: Any) -> bool:
    """The same shape, or a single number against at least one."""
    shapes = [numpy.shape(found), numpy.shape(wanted)]
    return shapes[0] == shapes[1] or (() in shapes and 0 not in (numpy.size(found), numpy.size(wanted)))


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

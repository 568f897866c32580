"""Repairs text and numbers from outside that UTF-8 or JSON cannot hold.

A model, a retriever, a sandbox or an exception may produce half a surrogate pair, a number that is not finite, or
deeply nested data. Such a value might be written but not read back. The types below repair it when it is created, so
everything in a run can be stored, and a replay sees the same values.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, JsonValue

DEEPEST = 64
"""Maximum levels of nested data. JSON readers stop at about 200, and a record adds some of its own."""
_LARGEST_BITS = 10_000


def storable_text(text: str) -> str:
    """The text with lone surrogates as U+FFFD, and pairs of surrogates as the character that they encode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def finite(number: float) -> float:
    """The number, if JSON can hold it; infinities become the largest numbers, NaN the lowest."""
    return number if math.isfinite(number) else 1e308 if number > 0 else -1e308


def storable(value: Any, depth: int = DEEPEST) -> Any:
    """JSON data with its texts and numbers repaired, cut below `depth` levels of nesting."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, int) and value.bit_length() > _LARGEST_BITS:
        return f"(an integer of {value.bit_length()} bits)"
    if not isinstance(value, dict | list | tuple):
        return value
    if depth == 0:
        return "(nested too deep to be kept)"
    if isinstance(value, dict):
        return {storable(key, 0): storable(each, depth - 1) for key, each in value.items()}
    return [storable(each, depth - 1) for each in value]


Text = Annotated[str, AfterValidator(storable_text)]
"""Text that can be written as UTF-8."""
Number = Annotated[float, AfterValidator(finite)]
"""A number that JSON can hold."""
Json = Annotated[JsonValue, BeforeValidator(storable)]
"""Data that can be written as JSON and read back."""

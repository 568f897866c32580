"""The door for what comes from outside: text and numbers that UTF-8 and JSON cannot hold are mended here, once.

A model, a retriever, a sandbox or an exception may hand over half a surrogate pair, a number that is not finite, or
data without a bottom. A value that holds them could be written and never read back. The types below mend them when a
value is made, so whatever a run holds can be stored, and a replay sees what the first attempt saw.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, JsonValue

DEEPEST = 64
"""Levels of nested data that are kept; JSON readers stop at about 200, and a record adds some of its own."""
_LARGEST_BITS = 10_000


def storable_text(text: str) -> str:
    """The text with every lone surrogate as U+FFFD; a pair of surrogates becomes the character that it stands for."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def finite(number: float) -> float:
    """The number if JSON has it; infinities become the largest numbers, and what is no number the lowest."""
    return number if math.isfinite(number) else 1e308 if number > 0 else -1e308


def storable(value: Any, depth: int = DEEPEST) -> Any:
    """JSON data with its texts and numbers mended, and cut where it is nested more than `depth` levels deep."""
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

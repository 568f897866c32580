"""Compares a computed or a written number with the expected one."""

from __future__ import annotations

import math
import re
import threading

from pydantic import JsonValue

from reground.core.errors import MissingExtra

TOLERANCE = 1e-3
_WRITTEN = re.compile(r"[-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_LONGEST = 200


def as_number(value: JsonValue) -> float | None:
    """A program's result as a number: an int, a float, or a number as text, with a currency sign or thousands commas.

    None for anything else: booleans, containers, other text, and numbers that are not finite.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip().lstrip("$€£").strip()
        if not _WRITTEN.fullmatch(text):
            return None
        value = text.replace(",", "")
    if not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def within(value: JsonValue, target: float, *, tolerance: float = TOLERANCE) -> bool:
    """PAL's rule (Gao et al. 2023, section 4.1): right when the result is less than 1e-3 from the target."""
    number = as_number(value)
    return number is not None and abs(number - target) < tolerance


def same_number(written: str, target: float) -> bool:
    """Whether a written answer states the target: as a plain number, or by math-verify (fractions, LaTeX, units).

    Raises MissingExtra if math-verify is needed and not installed.
    """
    if as_number(written) is not None:
        return within(written, target)
    if not written.strip() or len(written) > _LONGEST or not re.search(r"\d", written):
        return False
    try:
        from math_verify import parse, verify
    except ImportError:
        raise MissingExtra("comparing written answers", "eval") from None
    # math-verify's time limit uses a signal, which only works in the main thread.
    seconds = 2 if threading.current_thread() is threading.main_thread() else None
    gold = parse(f"${target:.10g}$" if abs(target) < 1e10 else f"${target:.0f}$", parsing_timeout=seconds)
    return bool(verify(gold, parse(written, parsing_timeout=seconds), timeout_seconds=seconds))

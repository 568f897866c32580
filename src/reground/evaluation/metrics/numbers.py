"""Compares a computed or a written number with the expected one, and reads the quantities that a model states.

Quantities are written like "1/3", "2\\pi", "3.5 x 10^{-5} m", "\\frac{\\sqrt{2}}{2}" or "[1, 2]". The text comes from a
model, so nothing is evaluated as code. Arithmetic is on floats; an overflow, or anything but plain arithmetic, is not a
quantity.

math-verify, with which the tests compare plain LaTeX, finds a number in "1.2.3" and in "between 3 and 5", and reads
"4e-05" as 4 * e - 5, which makes 9 of TheoremQA's 594 numeric answers wrong.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable

from pydantic import JsonValue

from reground.core.errors import MissingExtra

TOLERANCE = 1e-3
_WRITTEN = re.compile(r"[-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_LONGEST_WRITTEN = 200


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
    if not written.strip() or len(written) > _LONGEST_WRITTEN or not re.search(r"\d", written):
        return False
    try:
        from math_verify import parse, verify
    except ImportError:
        raise MissingExtra("comparing written answers", "eval") from None
    # math-verify's time limit uses a signal, which only works in the main thread.
    seconds = 2 if threading.current_thread() is threading.main_thread() else None
    gold = parse(f"${target:.10g}$" if abs(target) < 1e10 else f"${target:.0f}$", parsing_timeout=seconds)
    return bool(verify(gold, parse(written, parsing_timeout=seconds), timeout_seconds=seconds))


_LONGEST = 300  # characters; a longer text is not a quantity

_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|,|;|!|:|quad|qquad|%(?!)|limits)"
    r"|\\?\$|\\[()\[\]]|°|\^\s*\{?\\circ\}?|\\degree"
)
_REWRITTEN: tuple[tuple[str, str], ...] = (
    (r"\\(?:text|mathrm|mathbf|operatorname|mbox)\s*\{([^{}]*)\}", r" \1 "),
    (r"\\boxed|\\(?=[{}])", ""),
    (r"\\[dt]?frac", " frac "),
    (r"\\sqrt|√", " sqrt "),
    (r"\\(?:times|cdot|ast)|[×·∙⋅]|\*(?!\*)|(?<=[\d)])\s*[xX]\s*(?=10\s*(?:\^|\*\*))", "*"),
    (r"\\div|÷|∕", "/"),
    (r"\*\*\s*\*", "**"),
    (r"\*\*", "^"),
    (r"\\pi\b|π", " pi "),
    (r"\\(exp|ln|log)\b", r" \1 "),
    (r"[−–—]", "-"),
    (r"\\%|%", "%"),
    (r"\\approx|≈|\\simeq|≃|\\sim|~", "="),
    (r"(?<=\d),(?=\d{3}(?!\d))", ""),
    (r"\\ |[ \t\u00a0\u202f]+", " "),
)
_TOKEN = re.compile(r"(?P<number>(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?\d++)?(?!\.?\d))|(?P<name>[^\W\d_]++)|(?P<sign>\S)")
_RAISED = re.compile("[⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_LOWER = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789")
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "ln": math.log,
    "log": math.log,
}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_OPEN = {"(": ")", "{": "}", "[": "]"}


def read_quantity(text: str) -> float | None:
    """The number that a text states; None if it states none or several.

    Of an equation ("=" or "≈") the last side counts. Units are ignored, and "%" divides by 100.
    """
    if len(text) > _LONGEST:
        return None
    plain = _plain(text).rpartition("=")[2]
    tokens = [(m.lastgroup or "", m[m.lastgroup or 0]) for m in _TOKEN.finditer(plain)]
    while tokens and not _may_begin(tokens) and not tokens[0][1].isdigit():
        tokens = tokens[1:]
    parser = _Parser(tokens)
    try:
        value = parser.sum()
    except (_NotAQuantity, ValueError, ZeroDivisionError, OverflowError, RecursionError):
        return None
    return value if math.isfinite(value) and parser.only_units_left() else None


def read_quantities(text: str) -> list[float] | None:
    """The numbers of "[1, 2]", "(1, 2)", "{1; 2}", "x = 1 and y = 2" or a LaTeX vector; None if one is unreadable."""
    if len(text) > 4 * _LONGEST:
        return None
    text = re.sub(r"\\(?:begin|end)\{\w+\}", " ", text)
    text = re.sub(r"\\{2}|&|;|\band\b", " , ", text)
    inner = _unwrapped(re.sub(r"\\(?:left|right)|\\(?=[{}])|\$|\\[()\[\]]", "", text).strip())
    pieces = [piece for piece in _split(inner) if piece.strip(" []")]
    values = [read_quantity(piece.strip(" []")) for piece in pieces]
    known = [value for value in values if value is not None]
    return known if known and len(known) == len(values) else None


def _plain(text: str) -> str:
    text = _DROPPED.sub(" ", _RAISED.sub(lambda found: "^" + found[0].translate(_LOWER), text))
    for pattern, replacement in _REWRITTEN:
        text = re.sub(pattern, replacement, text)
    return text


def _unwrapped(text: str) -> str:
    text = text.rpartition("=")[2].strip() if text.count("=") == 1 else text
    while len(text) > 1 and _OPEN.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    return text


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    pieces, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "({") - (character in ")}")
        if character == "," and depth <= 0:
            pieces.append(text[start:place])
            start = place + 1
    return [*pieces, text[start:]]


def _may_begin(tokens: list[tuple[str, str]]) -> bool:
    kind, text = tokens[0]
    if kind == "name":
        return text in _CONSTANTS or text == "frac" or text in _FUNCTIONS
    return kind == "number" or text in _OPEN or text in "-+"


class _NotAQuantity(Exception):
    pass


class _Parser:
    """Recursive descent: sum, product, signed, power, atom. Stops at the first unknown token."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._place = 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._place] if self._place < len(self._tokens) else ("", "")

    def _take(self, *signs: str) -> str:
        kind, text = self._peek()
        if kind == "sign" and text in signs:
            self._place += 1
            return text
        return ""

    def only_units_left(self) -> bool:
        """Whether the rest has no numbers except powers of units, as in m/s^2."""
        rest = self._tokens[self._place :]
        signs = [("", ""), ("", ""), *rest]
        return all(
            kind != "number" or "^" in (signs[place][1], signs[place + 1][1]) for place, (kind, _) in enumerate(rest)
        )

    def sum(self) -> float:
        value = self._product()
        while sign := self._take("+", "-"):
            other = self._product()
            value = value + other if sign == "+" else value - other
        return value

    def _product(self) -> float:
        value = self._signed()
        while True:
            if sign := self._take("*", "/"):
                back = self._place - 1
                try:
                    other = self._signed()
                except _NotAQuantity:
                    self._place = back  # the slash of a unit, as in 3 m/s or 5 /hour
                    return value
                value = value * other if sign == "*" else value / other
            elif self._follows_closely():
                value *= self._power()
            else:
                return value

    def _follows_closely(self) -> bool:
        """Whether a product without a sign follows: 2 pi, 3(4), 2 sqrt 2, but not two numbers."""
        kind, text = self._peek()
        return text in ("(", "{") if kind == "sign" else kind == "name" and _may_begin([(kind, text)])

    def _signed(self) -> float:
        sign = self._take("-", "+")
        value = self._signed() if sign else self._power()
        return -value if sign == "-" else value

    def _power(self) -> float:
        value = self._atom()
        while mark := self._take("!", "%"):
            value = value / 100 if mark == "%" else _factorial(value)
        if self._take("^"):
            value = math.pow(value, self._signed())
        return value

    def _atom(self) -> float:
        kind, text = self._peek()
        if not kind:
            raise _NotAQuantity
        self._place += 1
        if kind == "number":
            return float(text)
        if kind == "name":
            return self._named(text)
        return self._bracketed(text)

    def _named(self, name: str) -> float:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name == "frac":
            above = self._argument()
            return above / self._argument()
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](self._argument())
        self._place -= 1
        raise _NotAQuantity

    def _argument(self) -> float:
        kind, text = self._peek()
        if kind == "number" and len(text) == 2 and self._tokens[self._place - 1] == ("name", "frac"):
            self._tokens[self._place : self._place + 1] = [("number", digit) for digit in text]  # \frac12
        return self._power() if kind == "name" else self._atom()

    def _bracketed(self, opening: str) -> float:
        closing = _OPEN.get(opening)
        if closing is None:
            self._place -= 1
            raise _NotAQuantity
        value = self.sum()
        if not self._take(closing):
            raise _NotAQuantity
        return value


def _factorial(value: float) -> float:
    if value != int(value) or not 0 <= value <= 170:
        raise _NotAQuantity
    return float(math.factorial(int(value)))

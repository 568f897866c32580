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
from collections.abc import Callable
from itertools import dropwhile

from pydantic import JsonValue

TOLERANCE = 1e-3
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")


def as_number(value: JsonValue) -> float | None:
    """A program's result as a number: an int, a float, or a number as text, with a currency sign or thousands commas.

    None for anything else: booleans, containers, other text, and numbers that are not finite.
    """
    if isinstance(value, str):
        text = value.strip().lstrip("$€£").strip()
        value = text.replace(",", "") if _NUMBER.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def within(value: JsonValue, target: float, *, tolerance: float = TOLERANCE) -> bool:
    """PAL's rule (Gao et al. 2023, section 4.1): right when the result is less than 1e-3 from the target."""
    number = as_number(value)
    return number is not None and abs(number - target) < tolerance


def same_number(text: str, target: float) -> bool:
    """Whether a written answer states the target, by PAL's rule: a plain number, a fraction, LaTeX, with a unit."""
    number = as_number(text)
    return within(number if number is not None else read_quantity(text), target)


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
_TOKEN = re.compile(r"(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?\d++)?|[^\W\d_]++|\S")
_SEVERAL_POINTS = re.compile(r"\.\d+\.\d")
_RAISED = re.compile("[⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_LOWER = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789")
_FUNCTIONS: dict[str, Callable[[float], float]] = {"sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "log": math.log}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_OPEN = {"(": ")", "{": "}", "[": "]"}
_FACTORS = {"(", "{", "frac", *_CONSTANTS, *_FUNCTIONS}
"""What may follow a factor without a sign: 2 pi, 3(4), 2 sqrt 2."""


def read_quantity(text: str) -> float | None:
    """The number that a text states; None if it states none or several.

    Of an equation ("=" or "≈") the last side counts. Units are ignored, and "%" divides by 100.
    """
    plain = "" if len(text) > _LONGEST else text
    plain = _DROPPED.sub(" ", _RAISED.sub(lambda match: "^" + match[0].translate(_LOWER), plain))
    for pattern, replacement in _REWRITTEN:
        plain = re.sub(pattern, replacement, plain)
    plain = plain.rpartition("=")[2]
    if _SEVERAL_POINTS.search(plain):
        return None
    parser = _Parser(list(dropwhile(lambda word: not _begins(word), _TOKEN.findall(plain))))
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
    text = re.sub(r"\\(?:left|right)|\\(?=[{}])|\$|\\[()\[\]]", "", text).strip()
    text = text.rpartition("=")[2].strip() if text.count("=") == 1 else text
    while len(text) > 1 and _OPEN.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    pieces, depth = [""], 0
    for character in text:  # commas within brackets do not part
        depth += (character in "({") - (character in ")}")
        if character == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += character
    values = [read_quantity(piece.strip(" []")) for piece in pieces if piece.strip(" []")]
    numbers = [value for value in values if value is not None]
    return numbers if numbers and len(numbers) == len(values) else None


def _is_number(word: str) -> bool:
    return word[:1].isdecimal() or word[1:2].isdecimal()


def _begins(word: str) -> bool:
    return _is_number(word) or word in _FACTORS or word in {"[", "+", "-"}


class _NotAQuantity(Exception):
    pass


class _Parser:
    """Recursive descent: sum, product, signed, power, atom. Stops at the first unknown word."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [*tokens, ""]
        self._place = 0

    def _take(self, *signs: str) -> str:
        word = self._tokens[self._place]
        self._place += word in signs
        return word if word in signs else ""

    def only_units_left(self) -> bool:
        """Whether the rest has no numbers except powers of units, as in m/s^2."""
        rest = self._tokens[self._place :]
        before = ["", "", *rest]
        return all("^" in before[place : place + 2] for place, word in enumerate(rest) if _is_number(word))

    def sum(self) -> float:
        value = self._product()
        while sign := self._take("+", "-"):
            other = self._product()
            value += other if sign == "+" else -other
        return value

    def _product(self) -> float:
        value = self._signed()
        while True:
            before = self._place
            if sign := self._take("*", "/"):
                try:
                    other = self._signed()
                except _NotAQuantity:
                    self._place = before  # the slash of a unit, as in 3 m/s or 5 /hour
                    return value
                value = value * other if sign == "*" else value / other
            elif self._tokens[self._place] in _FACTORS:
                value *= self._power()
            else:
                return value

    def _signed(self) -> float:
        sign = self._take("-", "+")
        value = self._signed() if sign else self._power()
        return -value if sign == "-" else value

    def _power(self) -> float:
        value = self._atom()
        while mark := self._take("!", "%"):
            if mark == "!" and not (value.is_integer() and 0 <= value <= 170):
                raise _NotAQuantity
            value = value / 100 if mark == "%" else float(math.factorial(int(value)))
        return math.pow(value, self._signed()) if self._take("^") else value

    def _atom(self) -> float:
        word = self._tokens[self._place]
        if not _begins(word):
            raise _NotAQuantity
        self._place += 1
        if _is_number(word):
            return float(word)
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if word in _FUNCTIONS:
            return _FUNCTIONS[word](self._argument())
        if word == "frac":
            above = self._argument(digit=True)
            return above / self._argument()
        value = self.sum()
        if not self._take(_OPEN.get(word, "")):
            raise _NotAQuantity
        return value

    def _argument(self, *, digit: bool = False) -> float:
        """What a fraction or a function is of. digit: it may be the first of two, as in \\frac12."""
        word = self._tokens[self._place]
        if digit and len(word) == 2 and word.isdecimal():
            self._tokens[self._place : self._place + 1] = word
        return self._power() if word.isalpha() else self._atom()

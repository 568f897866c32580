"""Numbers as Excel shows them by their formats (ECMA-376, part 1, 18.8.30 and 18.8.31), but dates as 2026-03-14."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 46: "[h]:mm:ss", 48: "0.0E+0",
    **dict.fromkeys((5, 6, 37, 38, 41, 42), "#,##0"), **dict.fromkeys((7, 8, 39, 40, 43, 44), "#,##0.00"),
    **dict.fromkeys((*range(14, 23), *range(27, 37), 45, 47, *range(50, 59)), "yyyy-mm-dd"),
}  # fmt: skip
"""The codes of formats that a file only numbers, without the currency, which depends on the country."""
_LAST_DAY = 2_958_466.0  # the year 9999 ends
_LONGEST = 255
_FRACTION = re.compile(r"\A[^/]*+/ *+[0-9#?]++ *+\Z")
_LARGEST = 1e15  # of the numbers that are shown as fractions
_UNITS = {"h": 3600, "m": 60, "s": 1}
_TOKEN = re.compile(
    r'"(?P<text>[^"]*+)"?|\\(?P<sign>.)|\[\$(?P<money>[^\]-]{0,99}+)[^\]]{0,99}+\]|\[(?P<length>h{1,9}+|m{1,9}+|s{1,9}+)\]'
    r"|\[(?P<condition>[<>=][^\]]{0,99}+)\]|(?:[_*].|\[[^\]]{0,99}+\])|(?P<general>General)|(?P<power>E[+-]0++)"
    r"|(?P<time>h++|m++|s++|y++|d++)|(?P<digits>[0#?][0#?,]*+(?:\.[0#?]*+,*+)?|\.[0#?]++)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
"""Behind _ and * stand characters whose width is kept free or that fill a cell, as in amounts in marks (`_D_M`)."""


class _Token(NamedTuple):
    kind: str
    text: str


class _Format(NamedTuple):
    """The parts of a format, which are for positive and negative numbers, zero and texts, and what stands in them."""

    sections: Sequence[Sequence[_Token]]
    kinds: frozenset[str]
    is_plain: bool


@lru_cache(maxsize=1000)
def _format(code: str) -> _Format:
    sections: list[list[_Token]] = [[]]
    for match in _TOKEN.finditer(code[:_LONGEST]):
        if match.group() == ";":
            sections.append([])
        elif match.lastgroup:
            sections[-1].append(_Token(match.lastgroup, match[match.lastgroup]))
    tokens = [token for section in sections for token in section]
    kinds = frozenset(token.kind for token in tokens)
    is_text = any(token.text == "@" for token in sections[0])
    return _Format(sections, kinds, not tokens or kinds == {"general"} or "condition" in kinds or is_text)


def shown(stored: str, code: str, epoch: datetime | None = None) -> str:
    """A stored number in a format. epoch: the first day, where it is 1904."""
    try:
        number = float(stored)
        sections, kinds, is_plain = _format(code)
        place = 1 if number < 0 else 2 if number == 0 else 0
        tokens = sections[place] if place < len(sections) else sections[0]
        is_signed = number < 0 and tokens is sections[0]
        if "length" in kinds:
            return "-" * is_signed + "".join(_length(tokens, abs(number)))
        if "time" in kinds and not any(each.kind == "digits" and each.text[0] != "." for each in tokens):
            return _date(number, epoch) if 0 <= number < _LAST_DAY else stored
        plain = f"{number:.15g}" if "." in stored and len(stored) > 15 else stored  # as Excel shows 0.1 + 0.2
        said = "" if is_plain else "".join(_number(tokens, abs(number), plain.lstrip("-"))).strip()
        return "-" * is_signed + said if said else plain
    except (ValueError, OverflowError, ArithmeticError):  # no number; or rounded, or counted from 1904, beyond the end
        return stored


def _date(number: float, epoch: datetime | None) -> str:
    # Excel has a 29th of February 1900, so that its first two months are a day behind.
    start = epoch or datetime(1899, 12, 31 if number < 60 else 30)
    moment = start + timedelta(seconds=round(number * 86_400))
    if number < 1:
        return moment.strftime("%H:%M:%S")
    return moment.date().isoformat() if number == int(number) else moment.isoformat(" ")


def _length(tokens: Sequence[_Token], days: float) -> Iterator[str]:
    """A length of time; its first unit may be of any size, as in 26:00."""
    places = sum(len(each.text) - 1 for each in tokens if each.kind == "digits")
    seconds = _rounded(Decimal(f"{days:.15g}") * 86_400, places)
    rest, fraction = int(seconds), f"{seconds:f}".partition(".")[2]
    for kind, text in tokens:
        unit = _UNITS.get(text[:1].lower()) if kind in ("length", "time") else None
        if unit:
            yield f"{rest // unit:0{len(text)}}"
            rest %= unit
        else:
            yield f".{fraction}" if kind == "digits" else text


def _number(tokens: Sequence[_Token], number: float, plain: str) -> Iterator[str]:
    """The pieces of a number without its sign. plain: how it stands without a format."""
    code = "".join(each.text for each in tokens) if ("other", "/") in tokens else ""
    if _FRACTION.match(code) and number < _LARGEST:
        yield _fraction(code, number)
        return
    patterns = [each.text for each in tokens if each.kind == "digits"]
    power = next((each.text for each in tokens if each.kind == "power"), "")
    percent = sum(each == ("other", "%") for each in tokens)
    value = Decimal(f"{number:.15g}") * 100**percent
    digits = iter([_powered(value, patterns[0], power)] if power and patterns else _filled(value, patterns))
    for kind, text in tokens:
        if kind == "digits":
            yield next(digits)
        elif kind == "general":
            yield plain
        elif kind != "power":
            yield text


def _fraction(code: str, number: float) -> str:
    """A number as in 2 1/4. Behind the stroke stands what it is divided by, or a sign for each of its digits."""
    above, _, below = (part.strip() for part in code.partition("/"))
    if below.isdecimal() and int(below):
        count, parts = round(number * int(below)), int(below)
    else:
        near = Fraction(number).limit_denominator(max(10 ** min(len(below), 9) - 1, 1))
        count, parts = near.numerator, near.denominator
    whole, rest = divmod(count, parts) if len(above.split()) > 1 else (0, count)
    return " ".join([*([str(whole)] if whole or not rest else []), *([f"{rest}/{parts}"] if rest else [])])


def _powered(value: Decimal, pattern: str, power: str) -> str:
    said, exponent = f"{value:.{len(pattern.partition('.')[2])}E}".split("E")
    sign = "-" if exponent.startswith("-") else power[1:2].strip("0-")
    return f"{said}E{sign}{exponent[1:].zfill(power.count('0'))}"


def _filled(value: Decimal, patterns: Sequence[str]) -> list[str]:
    """The digits for each pattern: one number, or one cut into groups as in 000-0000."""
    if len(patterns) < 2:
        return [_figure(value, pattern) for pattern in patterns]
    rest = f"{_rounded(value, 0):f}"
    filled = []
    for pattern in reversed(patterns[1:]):
        filled.append(rest[-len(pattern) :].zfill(pattern.count("0")))
        rest = rest[: -len(pattern)]
    return [rest.zfill(patterns[0].count("0")), *reversed(filled)]


def _figure(value: Decimal, pattern: str) -> str:
    whole, _, part = pattern.partition(".")
    scale = len(whole) - len(whole.rstrip(",")) + part.count(",")
    part = part.rstrip(",")
    before, _, after = f"{_rounded(value / 1000**scale, len(part)):f}".partition(".")
    if value == 0 and whole and not whole.strip("?"):  # an amount of nothing, which stands as a dash
        return ""
    after = after[: part.rfind("0") + 1] + after[part.rfind("0") + 1 :].rstrip("0")
    before = f"{int(before):,}" if "," in whole.rstrip(",") else before.zfill(whole.count("0"))
    return f"{before}.{after}" if after else before


def _rounded(value: Decimal, places: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)

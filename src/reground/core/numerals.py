"""The number that a phrase states, as models write numbers: with units, years, thousands, powers and fractions."""

from __future__ import annotations

import math
import re
import unicodedata

from reground.core.phrases import extract_phrase

_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:(?:\{,\}|\\[,;:! ]|[ \u00a0\u2009\u202f'’])\d{3})+(?!\d)")
"""A number whose thousands LaTeX, a space or an apostrophe sets apart, as in 12{,}000 and 12 000."""
_RAISED = re.compile(r"(?<=\d)[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_REWRITTEN: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\\(?:text|mathrm|mathbf|mbox)\{([^{}]*+)\}"), r"\1"),
    (re.compile(r"(?<=\d)(?=\\[dt]?frac)"), " "),
    (re.compile(r"\\[dt]?frac\{([^{}]++)\}\{([^{}]++)\}"), r"\1/\2"),
    (re.compile(r"\\[dt]?frac(\d)(\d)"), r"\1/\2"),
    (re.compile(r"(?<=\d) ?(?:\*\*|\^) ?(?=[-+({\d])"), "^"),
    (re.compile(r"\^[{(]([-+]?\d++)[})]"), r"^\1"),
    (re.compile(r"(?<=\d) ?(?:\\times|\\cdot|[×·⋅*xX]) ?(?=10\^)"), "×"),
    (re.compile(r"\\(?=[%$])|(?<=[$€£¥]) (?=\d)"), ""),
)
WIDE = {code + 0xFEE0: code for code in range(0x21, 0x7F)} | {0x2212: "-", 0x2044: "/"}
"""Signs as wide as Chinese ones, a minus and the stroke of a fraction, as those of ASCII."""
_DIGITS = (
    r"(?:\d{1,3}(?:\.\d{3})++,\d++|\d{1,3}(?:\.\d{3}){2,}+(?![\d,])|\d++,\d{1,2}(?![\d,])|\d[\d,]*+(?:\.\d++)?|\.\d++)"
    r"(?:[eE][-+]?\d++)?"
)
"""12.345,6 and 1.234.567, then 12,5, then 1,234.5 and .5: a comma before one or two digits sets no thousands apart."""
_NUMBER = re.compile(
    r"(?P<sign>(?:(?<![\w.)$%^])[-+]|(?<=[$€£¥])-)?)(?:[$€£¥]|(?<![A-Za-z_^\d])(?<!\d[.,/])(?<!\^[-+]))"
    rf"(?P<digits>{_DIGITS})"
    r"(?:×10\^(?P<ten>[-+]?\d++)|\^(?P<power>[-+]?\d++)"
    rf"| ?/ ?(?P<below>{_DIGITS})(?! ?[/\d])| (?P<above>\d++)/(?P<under>\d++)(?! ?[/\d]))?"
)
"""A number that is no part of a name, as in CO2, and no power of a unit, as in m^2."""
_ANY = re.compile(r"\d++")
_LARGEST = 300
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_DATED = re.compile(r"\b(?:in|by|of|since|from|until|year) $", re.IGNORECASE)
_DATE = re.compile(r"\A\s*+(?:[年년.,;:)]|$)")
_BESIDE = re.compile(
    r"\b(?:in|on|at|of|per|from|than|over|after|since|until|before|within|during|around|every|each)(?: [a-z]++){0,2} $"
)
_NEAR = 40
_REMARK = re.compile(r"(?<=\S) ?\([^()]*+\)$")
"""How a number was found, behind it: "42 (6 * 7)"."""


def extract_number(text: str) -> str:
    """The number of the answer phrase, else of the text, in digits without thousands separators, currency and unit.

    Powers and fractions are worked out: "3/4" is "0.75".
    """
    plain = plain_numerals(text)
    return stated_number(extract_phrase(plain)) or stated_number(plain)


def plain_numerals(text: str) -> str:
    """The text with its numbers written plainly: 12 000 as 12000, 10⁶ as 10^6, \\frac{1}{2} and ½ as 1/2."""
    text = _VULGAR.sub(lambda found: f" {unicodedata.normalize('NFKC', found[0])}", text).translate(WIDE)
    text = _GROUPED.sub(lambda found: re.sub(r"\D", "", found[0]), text)
    text = _RAISED.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[0]).replace("\u2212", "-"), text)
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    return text


def stated_number(phrase: str) -> str:
    """The number that a phrase with plain numerals states, without thousands separators and currency; empty if none.

    This is the last one, without years and what stands in brackets behind it; of a phrase that begins with a number the
    first one, where all others only describe it: "42 dollars in 3 days".
    """
    found = list(_NUMBER.finditer(_REMARK.sub("", phrase))) or list(_NUMBER.finditer(phrase))
    found = [each for each in found if not _is_year(each)] or found
    if not found:
        parts: list[str] = _ANY.findall(phrase)
        return parts[-1] if parts else ""
    begins = not any(map(str.isalnum, phrase[: found[0].start()]))
    return _written(found[0] if begins and all(map(_describes, found[1:])) else found[-1])


def _is_year(number: re.Match[str]) -> bool:
    text, start, end = number.string, number.start(), number.end()
    dated = text.startswith(("年", "년"), end) or _DATED.search(text[max(0, start - _NEAR) : start])
    return bool(_YEAR.fullmatch(number[0]) and dated and _DATE.match(text[end : end + _NEAR]))


def _describes(number: re.Match[str]) -> bool:
    return _BESIDE.search(number.string[max(0, number.start() - _NEAR) : number.start()]) is not None


def _written(number: re.Match[str]) -> str:
    """The number in digits; powers and fractions are worked out."""
    plain = number["sign"] + _decimal(number["digits"])
    try:
        value = _value(number, float(_decimal(number["digits"])))
    except (OverflowError, ZeroDivisionError):
        return plain
    return plain if value is None else f"{number['sign']}{value:.12g}"


def _value(number: re.Match[str], base: float) -> float | None:
    """What a power or a fraction comes to; None for a number in digits alone."""
    if raised := number["ten"] or number["power"]:
        power = math.copysign(min(abs(float(raised)), _LARGEST), float(raised))
        return base * 10**power if number["ten"] else base**power
    if number["below"]:
        return base / float(_decimal(number["below"]))
    return base + int(number["above"][:9]) / int(number["under"][:9]) if number["above"] else None


def _decimal(digits: str) -> str:
    """Digits with a point before decimals, if any, and no other separators."""
    comma = re.match(r"\A(?:\d{1,3}(?:\.\d{3})++(?:,\d++)?|\d++,\d{1,2})\Z", digits)
    if comma and (digits.count(".") > 1 or "," in digits):
        return digits.replace(".", "").replace(",", ".")
    return digits.replace(",", "")

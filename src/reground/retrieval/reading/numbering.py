"""The numbers of paragraphs that stand in no text, because Office programs make them from styles of lists."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from reground.retrieval.reading.archive import attribute, named, number_in, setting
from reground.retrieval.reading.formulas import local

ORDERS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}  # by the first number
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_SLIDE_KIND = re.compile("(arabic|alphaLc|alphaUc|romanLc|romanUc)(Period|ParenR|ParenBoth|Plain)")
_SLIDE_FORMATS = {"alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman", "romanUc": "upperRoman"}
_SLIDE_ENDS = {"Period": "1.", "ParenR": "1)", "ParenBoth": "(1)", "Plain": "1"}
_PLACE = re.compile("%([1-9])")
_MOST_LETTERS = 26 * 9
MOST_STYLES = 20  # of which one may be based on the other
_MOST_LEVELS = 10  # of a list; Word has nine, LibreOffice ten
_LONGEST_NUMBER = 100  # characters of a level's text


class _Level(NamedTuple):
    """A level of a list. text: with %1 for the number of the first level. restarts: after which level, counted from 1;
    -1 is any above it, 0 none. is_legal: whether all numbers are digits."""

    text: str
    format: str
    start: int = 1
    restarts: int = -1
    is_legal: bool = False


def numeral(number: int, format_: str) -> str:
    """A number in digits, letters or Roman numerals."""
    if format_ == "none":
        return ""
    kind = format_.removeprefix("lower").removeprefix("upper")
    said = str(number)
    if kind == "Letter" and 0 < number <= _MOST_LETTERS:
        said = chr(96 + (number - 1) % 26 + 1) * ((number - 1) // 26 + 1)
    elif kind == "Roman" and 0 < number < 4000:
        said = ""
        for value, letters in _ROMAN:
            said += letters * (number // value)
            number %= value
    elif kind == "decimalZero":
        said = f"{number:02}"
    return said.upper() if format_.startswith("upper") else said


def _advance(counts: dict[int, int], level: int, levels: dict[int, _Level]) -> str:
    """The number of the next paragraph of a level, counted from 0."""
    own = levels[level]
    counts[level] = counts.get(level, own.start - 1) + 1
    for deeper in [each for each in counts if each > level]:
        restarts = levels[deeper].restarts if deeper in levels else -1
        if restarts < 0 or level < restarts:
            del counts[deeper]
    return _said(own, levels, counts)


def _said(own: _Level, levels: dict[int, _Level], counts: dict[int, int]) -> str:
    def number(place: re.Match[str]) -> str:
        at = int(place[1]) - 1
        level = levels.get(at, own)
        return numeral(counts.get(at, level.start), "decimal" if own.is_legal else level.format)

    return "" if own.format == "bullet" else _PLACE.sub(number, own.text).strip()


class WordNumbers:
    """The numbers of the paragraphs of a Word document, which are asked for in its order."""

    def __init__(self, numbering: Any, styles: Any) -> None:
        self._lists: dict[str, dict[int, _Level]] = {}
        self._level_of: dict[tuple[str, str], int] = {}  # of a list for a style
        linked, links = {}, {}
        for each in named(numbering, "abstractNum"):
            id_ = attribute(each, "abstractNumId")
            linked[setting(each, "styleLink")] = id_
            links[id_] = setting(each, "numStyleLink")
            levels = ((number_in(level, "ilvl", 0), level) for level in each if local(level) == "lvl")
            self._lists[id_] = {at: _level(level) for at, level in levels if at < _MOST_LEVELS}
            for level in each:
                self._level_of[id_, setting(level, "pStyle")] = number_in(level, "ilvl", 0)
        self._nums: dict[str, tuple[str, dict[int, _Level]]] = {}
        for each in named(numbering, "num"):
            id_ = setting(each, "abstractNumId")
            id_ = linked.get(links.get(id_) or "none", id_)
            self._nums[attribute(each, "numId")] = id_, self._overridden(each, id_)
        self._styles = {
            attribute(each, "styleId"): (setting(each, "numId"), setting(each, "ilvl"), setting(each, "basedOn"))
            for each in named(styles, "style")
        }
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[str] = set()

    def _overridden(self, num: Any, list_: str) -> dict[int, _Level]:
        """The levels of a list with another beginning or of another kind."""
        levels = self._lists.get(list_, {})
        own = {}
        for each in named(num, "lvlOverride"):
            at = number_in(each, "ilvl", 0)
            level = next((_level(inner) for inner in named(each, "lvl")), levels.get(at))
            start = next((number_in(inner, "val", 1) for inner in named(each, "startOverride")), None)
            if level is not None and at < _MOST_LEVELS:
                own[at] = level if start is None else level._replace(start=start)
        return own

    def number(self, paragraph: Any) -> str:
        """The number that Word shows before a paragraph; "" without one."""
        own = {local(each): each for each in paragraph.iterfind("{*}pPr/*")}
        if next(named(own.get("rPr"), "del"), None) is not None:  # struck out, and so not counted
            return ""
        style = attribute(own["pStyle"], "val") if "pStyle" in own else ""
        num, level = setting(own.get("numPr"), "numId"), setting(own.get("numPr"), "ilvl")
        if not num:
            num, level_of_style = self._of_style(style)
            level = level or level_of_style
        if num not in self._nums:
            return ""
        list_, overridden = self._nums[num]
        levels = self._lists.get(list_, {}) | overridden
        at = int(level) if level.isdecimal() and len(level) < 3 else self._level_of.get((list_, style), 0)
        counts = self._counts.setdefault(list_, {})
        if num not in self._begun:
            self._begun.add(num)
            for each in overridden:
                counts.pop(each, None)
        return _advance(counts, at, levels) if at in levels else ""

    def _of_style(self, style: str) -> tuple[str, str]:
        for _ in range(MOST_STYLES):
            num, level, based_on = self._styles.get(style, ("", "", ""))
            if num or not based_on:
                return num, level
            style = based_on
        return "", ""


def _level(element: Any) -> _Level:
    said = {local(each): each for each in element}
    start, restart = (number_in(said[name], "val") if name in said else -1 for name in ("start", "lvlRestart"))
    is_legal = "isLgl" in said and attribute(said["isLgl"], "val") not in ("0", "false")
    format_ = setting(element, "numFmt") or "decimal"
    return _Level(setting(element, "lvlText")[:_LONGEST_NUMBER], format_, 0 if start < 0 else start, restart, is_legal)


class SlideNumbers:
    """The numbers of the paragraphs of a slide, which are asked for in its order."""

    def __init__(self) -> None:
        self._box: Any = None
        self._counts: dict[int, int] = {}

    def number(self, paragraph: Any) -> str:
        """The number that PowerPoint shows before a paragraph; "" without one."""
        if paragraph.getparent() is not self._box:
            self._box, self._counts = paragraph.getparent(), {}
        properties = paragraph.find("{*}pPr")
        at = 0 if properties is None else min(number_in(properties, "lvl", 0), _MOST_LEVELS)
        made = next(named(properties, "buAutoNum"), None)
        if made is None:
            self._counts = {level: count for level, count in self._counts.items() if level < at}
            return ""
        kind = _SLIDE_KIND.fullmatch(attribute(made, "type") or "arabicPeriod")
        format_, end = (_SLIDE_FORMATS.get(kind[1], "decimal"), kind[2]) if kind else ("decimal", "Period")
        level = _Level(_SLIDE_ENDS[end].replace("1", f"%{at + 1}"), format_, max(number_in(made, "startAt", 1), 1))
        return _advance(self._counts, at, {at: level})


class OpenNumbers:
    """The numbers of the paragraphs of an OpenDocument text, which are asked for in its order."""

    def __init__(self) -> None:
        self._lists: dict[str, dict[int, _Level]] = {}
        self._outline: dict[int, int] = {}
        self._open: list[_Open] = []  # the lists around the last paragraph
        self._last: dict[str, int] = {}  # number of the lists of a style, and of those with an id

    def learn(self, style: Any) -> None:
        """Take in a style of lists, or that of headings."""
        name = attribute(style, "name") if local(style) == "list-style" else ""
        for each in style:
            at = min(number_in(each, "level", 1), _MOST_LEVELS) - 1
            is_number = local(each) in ("list-level-style-number", "outline-level-style")
            format_ = attribute(each, "num-format")
            count = min(max(number_in(each, "display-levels", 1), 1), at + 1)
            places = ".".join(f"%{place}" for place in range(at + 2 - count, at + 2))
            text = f"{attribute(each, 'num-prefix')}{places}{attribute(each, 'num-suffix')}"
            level = _Level(text, ORDERS.get(format_, "decimal"), number_in(each, "start-value", 1))
            self._lists.setdefault(name, {})[at] = level if is_number and format_ else _Level("", "bullet")

    def number(self, paragraph: Any) -> str:
        """The number that LibreOffice shows before a paragraph; "" without one."""
        items = [each for each in paragraph.iterancestors() if local(each) in ("list-item", "list-header")]
        if not items:
            at = number_in(paragraph, "outline-level", 0) - 1
            levels = self._lists.get("", {})
            is_heading = local(paragraph) == "h" and attribute(paragraph, "is-list-header") != "true"
            return _advance(self._outline, at, levels) if is_heading and at in levels else ""
        parent = paragraph.getparent()
        if parent is not items[0] or paragraph.getprevious() is not None or local(parent) == "list-header":
            return ""
        items.reverse()
        style = next((name for each in reversed(items) if (name := attribute(each.getparent(), "style-name"))), "")
        levels = self._lists.get(style, {}) if style else {}
        self._enter(items, style, levels)
        counts = {at: each.number for at, each in enumerate(self._open) if each.number >= 0}
        own = levels.get(len(items) - 1)
        return _said(own, levels, counts) if own else ""

    def _enter(self, items: list[Any], style: str, levels: dict[int, _Level]) -> None:
        """Go on to a paragraph inside these items."""
        self._open = [each for each, item in zip(self._open, items, strict=False) if each.list is item.getparent()]
        for at, item in enumerate(items):
            if at == len(self._open):
                self._open.append(_Open(item.getparent()))
        innermost, item = self._open[-1], items[-1]
        before = innermost.number if innermost.number >= 0 else self._before(innermost.list, style)
        start = levels[len(items) - 1].start if len(items) - 1 in levels else 1
        innermost.number = number_in(item, "start-value", before + 1 if before >= 0 else start)
        for key in (style, attribute(innermost.list, "id")):
            self._last[f"{len(items)} {key}"] = innermost.number

    def _before(self, list_: Any, style: str) -> int:
        """The number after which a list goes on; -1 for one that begins again."""
        key = attribute(list_, "continue-list") or (style if attribute(list_, "continue-numbering") == "true" else None)
        return -1 if key is None else self._last.get(f"{len(self._open)} {key}", -1)


class _Open:
    """A list around the last paragraph, and the number of its last item; -1 before the first."""

    def __init__(self, list_: Any) -> None:
        self.list = list_
        self.number = -1

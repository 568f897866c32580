"""Which files of a folder are read, by globs; and which documents are searched, by their fields.

A condition is `path:guide/v2/*`, `tag:api`, `date>=2025-01-01` or `stars>3`; AND, OR, NOT and parentheses join them.
`:` takes a glob, in any case of letters. `=`, `!=`, `<`, `<=`, `>` and `>=` compare numbers and dates; a date that
names only a year, a month or a day stands for all of it. A document that lacks a field fulfils no condition on it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple
from unicodedata import normalize

from reground.core.errors import ConfigurationError

Fields = Mapping[str, Sequence[str]]
"""The metadata of a document: one or several values for each name, which is in lower case."""
_MOST, _LONGEST, _DEEP = 50, 300, 5
"""Fields of a document, and values of a field; characters of a value; records in each other."""
_UNNAMED = re.compile(r"""[\s()":<>!=]++""")
"""Characters that no field has in a filter: "Last Modified" is written last_modified."""


def fields_of(metadata: Mapping[str, object], depth: int = 0) -> dict[str, list[str]]:
    """The texts, numbers and dates in a file's metadata, alone, in lists, or in records as author.name."""
    fields: dict[str, list[str]] = {}
    for name, value in islice(metadata.items(), _MOST):
        for each in value[:_MOST] if isinstance(value, list) else [value]:
            if isinstance(each, Mapping) and depth < _DEEP:
                inner = fields_of({f"{name}.{key}": part for key, part in each.items()}, depth + 1)
            else:
                text = " ".join(str(each)[:_LONGEST].split()) if isinstance(each, str | int | float | date) else ""
                inner = {_UNNAMED.sub("_", normalize("NFC", name[:_LONGEST]).lower()): [text]} if text else {}
            for key, texts in inner.items():
                fields.setdefault(key, []).extend(texts)
    return {name: texts[:_MOST] for name, texts in islice(fields.items(), _MOST)}


class Globs(NamedTuple):
    """Which files of a folder are read: those that a glob of `include` fits, or all; without those of `exclude`."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def take(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether a file is read, or a folder looked into."""
        is_in = is_folder or not self.include or any(fits(glob, path) for glob in self.include)
        return is_in and not any(fits(glob, path) for glob in self.exclude)


ALL = Globs()


def fits(glob: str, path: str) -> bool:
    """Whether a glob fits a path, or a folder that it lies in.

    Without a slash it fits the name of a file or a folder anywhere, else the path from the corpus folder on; ** stands
    for any folders. Takes time in proportion to both.
    """
    parts, names = _folded(glob).removeprefix("./").strip("/").split("/"), _folded(path).split("/")
    places = set(range(len(names)) if "/" not in glob.rstrip("/") else [0])  # how many names the parts so far have met
    for part in parts:
        if part == "**" and places:
            places = set(range(min(places), len(names) + 1))
        else:
            places = {at + 1 for at in places if at < len(names) and fnmatchcase(names[at], part)}
    return bool(places)


class FilterError(ConfigurationError):
    """A filter that cannot be read, that asks for a field that no document has, or that chooses none."""


class Where(NamedTuple):
    """A filter that was read. meets: whether the fields of a document fulfil it. names: the fields that it asks for."""

    text: str
    meets: Callable[[Fields], bool]
    names: frozenset[str]

    def check(self, fields: Iterable[str]) -> None:
        """Raise FilterError for a field that no document has, with those that there are."""
        fields = sorted(fields)
        for name in sorted(self.names):
            if set(fields).isdisjoint(_spellings(name)):
                there = ", ".join(fields[:_MOST])
                raise FilterError(f"the filter {self.text!r}: no document has a field {name!r}; they have {there}")


_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORD = re.compile(r"\A\s*+((?:AND|OR|NOT)\b|[()]|\Z)", re.IGNORECASE)
_CONDITION = re.compile(r"""\A\s*+("[^"]++"|[^\s()":<>!=]++)\s*+(:|[<>!]?=|[<>])\s*+("[^"]*+"|[^\s()"]++)""")
_LONGEST_FILTER, _DEEPEST = 4000, 50
"""Characters; parentheses and NOTs in each other."""
_ALSO = {"folder": "path", "sender": "from"}
_NUMBER = re.compile(r"\A[+-]?\d{1,300}(?:\.\d{1,300})?\Z", re.ASCII)
_DATE = re.compile(r"\A\d{4}(?:-\d\d){0,2}(?:[T ][\d:.Z+-]{4,30})?\Z", re.ASCII)


def where(text: str) -> Where:
    """Read a filter. Raises FilterError that says what is wrong, and where."""
    if len(text) > _LONGEST_FILTER:
        raise FilterError(f"a filter has at most {_LONGEST_FILTER:,} characters, not {len(text):,}")
    reader = _Reader(normalize("NFC", text))
    meets = reader.conditions()
    if not reader.takes(""):
        raise reader.wrong("nothing opens this )" if reader.takes(")") else "AND or OR is missing")
    return Where(" ".join(text.split()), meets, frozenset(reader.names))


class _Reader:
    """Reads a filter from left to right."""

    def __init__(self, text: str) -> None:
        self._text = self._rest = text
        self.names: set[str] = set()

    def wrong(self, what: str) -> FilterError:
        """The error for what stands here."""
        at = len(self._text) - len(self._rest.lstrip()) + 1
        place = f"before {self._rest.strip()[:30]!r} (character {at})" if self._rest.strip() else "at its end"
        return FilterError(f"the filter {self._text[:200]!r}: {what}, {place}")

    def takes(self, word: str) -> bool:
        """Go behind a word, a parenthesis or the end, if that comes next."""
        match = _WORD.match(self._rest)
        if match is None or match[1].upper() != word:
            return False
        self._rest = self._rest[match.end() :]
        return True

    def conditions(self, depth: int = 0) -> Callable[[Fields], bool]:
        """Conditions with AND and OR between them; AND binds more."""
        either = [[self._one(depth)]]
        while (is_and := self.takes("AND")) or self.takes("OR"):
            either[-1:] = [[*either[-1], self._one(depth)]] if is_and else [either[-1], [self._one(depth)]]
        return lambda fields: any(all(meets(fields) for meets in every) for every in either)

    def _one(self, depth: int) -> Callable[[Fields], bool]:
        if depth > _DEEPEST:
            raise self.wrong(f"more than {_DEEPEST} parentheses and NOTs in each other")
        if self.takes("NOT"):
            denied = self._one(depth + 1)
            return lambda fields: not denied(fields)
        if not self.takes("("):
            return self._condition()
        inner = self.conditions(depth + 1)
        if not self.takes(")"):
            raise self.wrong("a ) is missing")
        return inner

    def _condition(self) -> Callable[[Fields], bool]:
        match = _CONDITION.match(self._rest)
        if match is None:
            raise self.wrong("a condition such as path:guide/* or date>=2025-01-31 is missing")
        name, sign, value = _UNNAMED.sub("_", match[1].strip('"').lower()), match[2], match[3].strip('"')
        spellings = _spellings(name)
        if sign != ":" and _number(value) is None and _moment(value) is None:
            raise self.wrong(f"{sign} takes a number or a date such as 2025-01-31, and : takes words")
        compares = partial(_compares, _SIGNS[sign]) if sign != ":" else fits if "path" in spellings else _like
        meets = lru_cache(maxsize=4096)(partial(compares, value))  # many documents have the same values
        self._rest = self._rest[match.end() :]
        self.names.add(name)
        return lambda fields: any(meets(text) for name in spellings for text in fields.get(name, ()))


def _spellings(name: str) -> tuple[str, ...]:
    """The names that a field may have: tag for tags, and the other way round."""
    return tuple(dict.fromkeys((name, f"{name}s", name.removesuffix("s"), _ALSO.get(name, name))))


def _like(glob: str, text: str) -> bool:
    return fnmatchcase(_folded(text), _folded(glob))


def _folded(text: str) -> str:
    """The text in small letters, each accent in one character with its letter: macOS writes them apart."""
    return normalize("NFC", text).casefold()


def _compares(sign: Callable[[Any, Any], bool], value: str, text: str) -> bool:
    numbers, moments = (_number(text), _number(value)), (_moment(text), _moment(value))
    if None not in numbers:
        return sign(*numbers)
    begin, moment = moments
    return begin is not None and moment is not None and sign(begin[: len(moment)], moment)


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.match(text) else None


def _moment(text: str) -> str | None:
    """A date, perhaps with a time, as ISO 8601 has it, in UTC; None for anything else."""
    with suppress(ValueError, OverflowError):
        if _DATE.match(text):
            moment = datetime.fromisoformat(f"{text}-01-01"[:10] if len(text) < len("2025-01-31") else text)
            utc = str(moment if moment.tzinfo is None else moment.astimezone(UTC))
            return utc[: len(text) if len(text) <= len("2025-01-31") else len("2025-01-31 10:00:00")]
    return None

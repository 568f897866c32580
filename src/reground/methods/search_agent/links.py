"""Link ids in a model's text: unknown ones are removed, and the final answer shows the rest as [n]."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

_CODE = re.compile(r"(```.*?(?:```|\Z)|``[^`\n]+``|`[^`\n]*`)", re.DOTALL)
_NUMBER = r"(?:\"\d+\"|'\d+'|\{\d+\}|#?\d+)"
_ID = rf"(?:link_?ids?\s*(?:[=:]\s*)?|link ids?\s*[=:]\s*){_NUMBER}"
_ONE = rf"(?:{_ID}|#?\d+)"
_NEXT = rf"(?:\s*(?:,|;|&|and|to|-|–)\s*(?:and\s+)?{_ONE})*"
_LISTED = rf"\[\s*{_ONE}{_NEXT}\s*\]"
_BLANKS = r"(?<![ \t])[ \t]*"
"""Blanks before a mention are removed with it. The look-behind avoids a match attempt at each blank of a long run."""

_IN_PROSE = re.compile(
    rf"{_BLANKS}(?:{_LISTED}|\(\s*{_ID}{_NEXT}\s*\)|\blink_?ids\s+{_NUMBER}{_NEXT}|\b{_ID})", re.IGNORECASE
)
_IN_CODE = re.compile(rf"{_BLANKS}\[\s*{_ID}{_NEXT}\s*\]", re.IGNORECASE)
_PLAIN = re.compile(r"\[\s*\d{1,3}(?:\s*[,;]\s*\d{1,3})*\s*\]")
_LINK = re.compile(r"\[link_id=(\d{1,9})\]")

_PASSES = 4
"""Maximum passes over a text. A text that still changes after that is only nested brackets."""


def existing(text: str, known: Collection[int], *, plain: bool = True) -> tuple[str, list[int]]:
    """The text with known links as [link_id=N] and without unknown ones; and the removed ids.

    A link is anything labelled as one, in any spelling, and, if `plain` is set, up to three digits in square brackets.
    Code keeps such digits, because they are indices there, and also names that contain link_id.
    """
    unknown: list[int] = []

    def keep(found: re.Match[str]) -> str:
        whole = found.group()
        mention = whole.lstrip()
        if "link" not in mention.lower() and not (plain and _PLAIN.fullmatch(mention)):
            return whole
        numbers = [int(number[:9]) for number in re.findall(r"\d+", mention)]
        unknown.extend(number for number in numbers if number not in known)
        kept = "".join(f"[link_id={number}]" for number in numbers if number in known)
        return whole[: len(whole) - len(mention)] + kept if kept else ""

    for _ in range(_PASSES):  # a removal may create another mention: [link_id=[9]9]
        before, text = text, _pass(text, keep)
        if text == before:
            break
    else:
        text = re.sub(r"[\[\]]", "", text)
    return text.strip(), list(dict.fromkeys(unknown))


def _pass(text: str, keep: Callable[[re.Match[str]], str]) -> str:
    parts = _CODE.split(text)
    parts[::2] = [_IN_PROSE.sub(keep, part) for part in parts[::2]]
    parts[1::2] = [_without_links(part, keep) for part in parts[1::2]]
    return "".join(parts)


def _without_links(code: str, keep: Callable[[re.Match[str]], str]) -> str:
    """Code without unknown links; empty if it held nothing else."""
    kept = _IN_CODE.sub(keep, code)
    return "" if kept != code and kept == "``" else kept


def linked(text: str) -> list[int]:
    """The link ids in a text that `existing` has passed, each once."""
    return list(dict.fromkeys(int(number) for number in _LINK.findall(text)))


def as_markers(text: str) -> str:
    """The text with [3] instead of [link_id=3], like the citations of other methods."""
    return _LINK.sub(r"[\1]", text)

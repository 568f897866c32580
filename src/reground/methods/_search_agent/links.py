"""Link ids in texts that a model wrote: only those that exist stay, and the final answer shows them as [n]."""

from __future__ import annotations

import re
from collections.abc import Collection

_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
_ID = r"link_?ids?\s*[=:]?\s*\d+"
_NEXT = rf"(?:\s*(?:,|;|&|and)\s*(?:and\s+)?(?:{_ID}|\d+))*"
_MENTION = re.compile(
    rf"[ \t]*(?:\[\s*{_ID}{_NEXT}\s*\]|\(\s*{_ID}{_NEXT}\s*\)|\[\s*\d{{1,3}}(?:\s*[,;]\s*\d{{1,3}})*\s*\]|\b{_ID})",
    re.IGNORECASE,
)
_LINK = re.compile(r"\[link_id=(\d+)\]")


def existing(text: str, known: Collection[int]) -> tuple[str, list[int]]:
    """The text with every link written [link_id=N], those that are not known taken out; and the ids taken out.

    Code is left as it is: its brackets are indices.
    """
    unknown: list[int] = []

    def keep(found: re.Match[str]) -> str:
        whole = found.group()
        numbers = [int(number[:9]) for number in re.findall(r"\d+", whole)]
        unknown.extend(number for number in numbers if number not in known)
        kept = "".join(f"[link_id={number}]" for number in numbers if number in known)
        return whole[: len(whole) - len(whole.lstrip())] + kept if kept else ""

    parts = _CODE.split(text)
    parts[::2] = [_MENTION.sub(keep, part) for part in parts[::2]]
    return "".join(parts).strip(), list(dict.fromkeys(unknown))


def linked(text: str) -> list[int]:
    """The link ids in a text that `existing` has passed, each once."""
    return list(dict.fromkeys(int(number) for number in _LINK.findall(text)))


def as_markers(text: str) -> str:
    """[link_id=3] as the [3] of every method's citations."""
    return _LINK.sub(r"[\1]", text)

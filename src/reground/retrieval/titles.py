"""Titles as they stand in texts: how one document names another."""

from __future__ import annotations

import html
import re

from reground.core.evidence import Passage

_SHORTEST = 3
"""Characters of a title that is looked for; shorter ones stand everywhere."""

_WORD = re.compile(r"\w+")
_BRACKETS = re.compile(r"\([^()]*\)\Z")


def normal(text: str) -> str:
    """Words in lower case between single spaces, so that a title is found only as whole words."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def normal_title(passage: Passage) -> str:
    """The title as it would stand in a text: without what a bracket adds, as in "Mercury (planet)"; "" if too short."""
    title = normal(_BRACKETS.sub("", html.unescape(passage.title).strip()))
    return title if len(title.strip()) >= _SHORTEST else ""

"""Markdown: its title stands in the front matter or in the first heading."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reground.retrieval.encodings import decode
from reground.retrieval.reading.result import Circumstances, Read

_KEY = re.compile(r"""(?:[\w@$/.-]{1,100}|"[^"\n]{0,99}"|'[^'\n]{0,99}')\s*+:(?:\s|$)""")


def read_markdown(content: bytes, around: Circumstances) -> Read:
    """The text without its front matter."""
    text, guessed = decode(content)
    title, start = front_matter(text)
    text = text[start:]
    return Read(title or first_heading(text), text, guessed)


def front_matter(text: str) -> tuple[str, int]:
    """The title that YAML front matter gives, and where the text behind it begins. Lines that do not begin with a key
    are none: a text may begin with a rule, which looks the same."""
    title, start, has_key = "", 0, False
    for number, line in enumerate(_lines(text)):
        start += len(line)
        fence = line.rstrip() == "---"
        if not number and not fence:
            break
        if number and fence:
            return (title, start) if has_key else ("", 0)
        if number and not has_key and line.strip() and not line.startswith("#"):
            has_key = _KEY.match(line) is not None
            if not has_key:
                break
        if line.startswith("title:") and not title:
            title = line.removeprefix("title:").strip().strip("\"'")
    return "", 0


def first_heading(text: str) -> str:
    """The first heading, `# so` or underlined with ===. A # in code is a comment."""
    return next((said for _, _, said in _headings(text)), "")


def trail(text: str, line: int) -> list[str]:
    """The headings that a line of a file, counted from 1, stands under, outermost first."""
    _, start = front_matter(text)
    begins = 1 + text.count("\n", 0, start)
    above: list[tuple[int, str]] = []
    for number, level, said in _headings(text[start:]):
        if begins + number > line:
            break
        above = [*((each, words) for each, words in above if each < level), (level, said)]
    return [said for _, said in above]


def _headings(text: str) -> Iterator[tuple[int, int, str]]:
    """The line of each heading, from 0, its level and its words."""
    before = code = ""
    for number, line in enumerate(_lines(text)):
        mark = line[:3]
        if mark in ("```", "~~~") and code in ("", mark):
            code = "" if code else mark
            before = ""
        elif not code:
            underline = line.rstrip()
            if before[:1].strip() and underline and not underline.strip("="):
                yield number - 1, 1, before.strip()
            elif heading := _heading(line):
                yield number, len(line.lstrip(" ")) - len(line.lstrip(" ").lstrip("#")), heading
            before = line


def _heading(line: str) -> str:
    """The text of a heading such as `## this`; "" where the line is none."""
    hashes = line.lstrip(" ")
    text = hashes.lstrip("#")
    if len(line) - len(hashes) > 3 or not 1 <= len(hashes) - len(text) <= 6 or text[:1] not in (" ", "\t"):
        return ""
    text = text.strip()
    open_ = text.rstrip("#")
    return open_.rstrip() if open_[-1:] in (" ", "\t") else text


def _lines(text: str) -> Iterator[str]:
    """The lines with their ends. One at a time, because a title is near the top of a text that may be large."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end

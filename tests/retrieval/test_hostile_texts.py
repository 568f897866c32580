"""Texts that take the square of their length where a pattern is careless: eight times the text, sixty-four the time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reground.retrieval.chunking import chunk
from reground.retrieval.documents import SourceFile
from reground.retrieval.encodings import Unreadable
from reground.retrieval.readers import read_file

LONG = 1_000_000
TIMES_LONGER = 8
# Between proportion (8) and the square (64). A ratio holds on slow and busy machines, a bound in seconds does not.
TIMES_SLOWER = 24
SECONDS_UNSEEN = 0.05  # below this a machine's noise decides

TEXTS: dict[str, Callable[[int], str]] = {
    "blanks": lambda n: "x" + " " * (n // 5) + "y",
    "blanks in a heading": lambda n: "# x" + " " * (n // 5) + "y",
    "blanks in a title": lambda n: "---\ntitle: x" + " " * (n // 5) + "y\n---\n",
    "front matter without end": lambda n: "---\n" + "title \n" * (n // 7),
    "tabs": lambda n: "x" + "\t" * (n // 10) + "y",
    "a million blanks": lambda n: "x" + " " * n + "y",
    "a million tabs in a heading": lambda n: "## x" + "\t" * n + "# y",
    "comments": lambda n: "<!--" * (n // 20),
    "a megabyte of comments": lambda n: "<!--" * (n // 4),
    "open tags": lambda n: "<p>x" * (n // 50),
    "headings without end": lambda n: "<h1>" * (n // 20) + "x",
    "brackets": lambda n: "<" * n,
    "half tags": lambda n: "<a " * (n // 3),
    "fences": lambda n: "```\n~~~\n" * (n // 8),
    "underlines": lambda n: "x \n" * (n // 4) + "=" * n,
    "hashes": lambda n: "#" * n,
    "blank lines": lambda n: "x" + "\n \t" * (n // 3) + "y",
    "one word": lambda n: "x" * n,
    "metas": lambda n: "<meta " * (n // 6),
}


@pytest.mark.parametrize("suffix", [".md", ".txt", ".html"])
@pytest.mark.parametrize("name", TEXTS)
def test_reading_takes_time_in_proportion(name: str, suffix: str) -> None:
    short, long = (_seconds(TEXTS[name](size), suffix) for size in (LONG // TIMES_LONGER, LONG))
    assert long < TIMES_SLOWER * max(short, SECONDS_UNSEEN)


def _seconds(text: str, suffix: str) -> float:
    """Processor seconds that reading and cutting the text takes."""
    content = text.encode() + b" end"
    started = time.thread_time()
    with contextlib.suppress(Unreadable):  # a page of comments alone shows nothing
        document = read_file(SourceFile(Path("a"), f"a{suffix}", len(content), 0), content)
        assert list(chunk(document.text, 400, 50))
    return time.thread_time() - started

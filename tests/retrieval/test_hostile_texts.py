"""Texts that take the square of their length where a pattern is careless. At this size that is minutes, not seconds."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from reground.retrieval.chunking import chunk
from reground.retrieval.documents import SourceFile
from reground.retrieval.encodings import Unreadable
from reground.retrieval.readers import read_file

SECONDS = 5.0
MILLION = 1_000_000

TEXTS = {
    "blanks": "x" + " " * 200_000 + "y",
    "blanks in a heading": "# x" + " " * 200_000 + "y",
    "blanks in a title": "---\ntitle: x" + " " * 200_000 + "y\n---\n",
    "front matter without end": "---\n" + "title \n" * (MILLION // 7),
    "tabs": "x" + "\t" * 100_000 + "y",
    "a million blanks": "x" + " " * MILLION + "y",
    "a million tabs in a heading": "## x" + "\t" * MILLION + "# y",
    "comments": "<!--" * 50_000,
    "a megabyte of comments": "<!--" * (MILLION // 4),
    "open tags": "<p>x" * 20_000,
    "headings without end": "<h1>" * 50_000 + "x",
    "brackets": "<" * MILLION,
    "half tags": "<a " * (MILLION // 3),
    "fences": "```\n~~~\n" * (MILLION // 8),
    "underlines": "x \n" * (MILLION // 4) + "=" * MILLION,
    "hashes": "#" * MILLION,
    "blank lines": "x" + "\n \t" * (MILLION // 3) + "y",
    "one word": "x" * MILLION,
    "metas": "<meta " * (MILLION // 6),
}


@pytest.mark.parametrize("suffix", [".md", ".txt", ".html"])
@pytest.mark.parametrize("name", TEXTS)
def test_reading_takes_time_in_proportion(name: str, suffix: str) -> None:
    content = TEXTS[name].encode()
    started = time.thread_time()
    with contextlib.suppress(Unreadable):  # a page of comments alone shows nothing
        document = read_file(SourceFile(Path("a"), f"a{suffix}", len(content), 0), content + b" end")
        assert list(chunk(document.text, 400, 50))
    assert time.thread_time() - started < SECONDS

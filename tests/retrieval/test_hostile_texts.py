"""Texts that take the square of their length where a pattern is careless: eight times the text, sixty-four the time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reground.retrieval.chunking import chunk
from reground.retrieval.documents import SourceFile, read_file
from reground.retrieval.encodings import Unreadable

LONG = 1_000_000
TIMES_LONGER = 8
# Between proportion (8) and the square (64). A ratio holds on slow and busy machines; a bound in seconds does not.
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


OF_A_KIND: dict[tuple[str, str], Callable[[int], str]] = {
    ("parameters", ".eml"): lambda n: "Content-Type: text/plain" + ";" * n + "\n\nx",
    ("named parameters", ".eml"): lambda n: "Content-Type: multipart/mixed" + '; a="' * (n // 5) + "\n\nx",
    ("encoded words", ".eml"): lambda n: "Subject: " + "=?utf-8?q?a?= " * (n // 14) + "\n\nx",
    ("half words", ".eml"): lambda n: "Subject: " + "=?" * (n // 2) + "\n\nx",
    ("headers", ".eml"): lambda n: "To: a@b\n" * (n // 8) + "\nx",
    ("folded header", ".eml"): lambda n: "To: a\n" + " b\n" * (n // 3) + "\nx",
    ("parts", ".eml"): lambda n: "Content-Type: multipart/mixed; boundary=b\n\n" + "--b\n\nx\n" * (n // 7),
    ("html parts", ".eml"): lambda n: "Content-Type: text/html\n\n" + "<p><div>" * (n // 80),
    ("quotes", ".csv"): lambda n: "a,b\n" + ('"' + '""' * 100 + '"\n') * (n // 203),
    # both sizes above the 128 kB of the longest field: shorter fields are shortened, longer ones read as plain text
    ("quotes without end", ".csv"): lambda n: 'a,b\n"' + '""' * (n + n // 5),
    ("commas", ".csv"): lambda n: "," * n,
    ("short rows", ".csv"): lambda n: "a,b\n" * (n // 4),
    ("short fields", ".tsv"): lambda n: "a\t" * (n // 2),
    ("nested lists", ".json"): lambda n: "[" * n,
    ("nested data", ".json"): lambda n: ('{"' + "k" * 90 + '":') * 900 + "1" + "}" * 900 + " " * n,
    ("numbers", ".json"): lambda n: f"[{'1,' * (n // 2)}1]",
    ("records", ".json"): lambda n: f"[{'{},' * (n // 3)}1]",
    ("cells", ".ipynb"): lambda n: '{"cells": [' + '{"cell_type": "code", "source": ["x"]},' * (n // 39) + "1]}",
}


@pytest.mark.parametrize("suffix", [".md", ".txt", ".html"])
@pytest.mark.parametrize("name", TEXTS)
def test_reading_takes_time_in_proportion(name: str, suffix: str) -> None:
    _check(TEXTS[name], suffix)


@pytest.mark.parametrize(("name", "suffix"), OF_A_KIND)
def test_reading_what_a_format_makes_possible_takes_time_in_proportion(name: str, suffix: str) -> None:
    _check(OF_A_KIND[name, suffix], suffix)


def _check(text: Callable[[int], str], suffix: str) -> None:
    short, long = (_seconds(text(size), suffix) for size in (LONG // TIMES_LONGER, LONG))
    assert long < TIMES_SLOWER * max(short, SECONDS_UNSEEN)


def _seconds(text: str, suffix: str) -> float:
    """Processor seconds that reading and cutting the text takes."""
    content = text.encode() + b" end"
    started = time.thread_time()
    with contextlib.suppress(Unreadable):  # a page of comments alone shows nothing
        document = read_file(SourceFile(Path("a"), f"a{suffix}", len(content), 0), content)
        assert list(chunk(document.text, 400, 50))
    return time.thread_time() - started

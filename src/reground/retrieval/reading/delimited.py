"""CSV and TSV: each row with the names of its columns."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from itertools import chain

from reground.retrieval.encodings import decode
from reground.retrieval.reading.result import Circumstances, Read, Text
from reground.retrieval.reading.rows import Rows

_DELIMITERS = ",;\t|"
_NAMED = re.compile(r"sep=([,;\t|])\r?\n", re.IGNORECASE)
"""The first line by which a file tells Excel its mark; it is no row."""
_END = ["end", "end"]
"""A row put behind the last one, which comes back as it is unless a quote is open."""
_FIRST, _LINES = 100_000, 20
"""Characters and lines among which the mark is looked for."""


def read_delimited(content: bytes, around: Circumstances) -> Read:
    """Rows as `column: value`. What is no table, by an open quote or a field without end, is read as plain text."""
    text, guessed = decode(content)
    rows, said = Rows(), Text()
    try:
        said.extend(rows.lines(_rows(text, around)))
    except csv.Error:
        return Read("", text, guessed)
    return Read("", str(said), guessed, said.partly or rows.partly)


def _rows(text: str, around: Circumstances) -> Iterator[list[str]]:
    """The rows of a table. Raises csv.Error at the end for an open quote, which swallows the rows behind it."""
    named = _NAMED.match(text)
    delimiter = named[1] if named else _delimiter(text)
    lines = StringIO(text[named.end() :] if named else text, newline="")
    row: list[str] = []
    for number, following in enumerate(csv.reader(chain(lines, [delimiter.join(_END)]), delimiter=delimiter)):
        if number % 1000 == 0:
            around.tick()
        if number:
            yield row
        row = following
    if row != _END:
        raise csv.Error("open quote")


def _delimiter(text: str) -> str:
    """The mark that most of the first lines hold equally often, outside of quotes, and the more often the better.

    One line alone may be a title, or hold names with commas.
    """
    outside = "".join(text[:_FIRST].split('"')[::2])
    lines = [line for line in outside.splitlines() if line.strip()][:_LINES]

    def agreement(mark: str) -> tuple[int, int]:
        counts = Counter(number for line in lines if (number := line.count(mark)))
        return max(((times, number) for number, times in counts.items()), default=(0, 0))

    return max(_DELIMITERS, key=agreement)

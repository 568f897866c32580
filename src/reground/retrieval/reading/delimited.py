"""CSV and TSV: each row with the names of its columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from io import StringIO

from reground.retrieval.encodings import decode
from reground.retrieval.reading.result import Circumstances, Read, Text
from reground.retrieval.reading.rows import Rows

_DELIMITERS = ",;\t|"
_NAMED = re.compile(r"sep=([,;\t|])\r?\n", re.IGNORECASE)
"""The first line by which a file tells Excel its mark; it is no row."""
_FIRST = 100_000
"""Characters among which the first line is looked for."""


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
    named = _NAMED.match(text)
    rows = StringIO(text[named.end() :] if named else text, newline="")
    for number, row in enumerate(csv.reader(rows, delimiter=named[1] if named else _delimiter(text))):
        if number % 1000 == 0:
            around.tick()
        yield row


def _delimiter(text: str) -> str:
    """The mark that stands most often in the first line, outside of quotes."""
    line = text[:_FIRST].lstrip().split("\n", 1)[0]
    outside = "".join(line.split('"')[::2])
    return max(_DELIMITERS, key=outside.count)

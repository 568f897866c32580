"""Lines as CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from pydantic import JsonValue


def csv_text(lines: Iterable[Mapping[str, JsonValue]]) -> str:
    """Lines as CSV, with a column for every key; text that a spreadsheet would take for a formula cannot act."""
    lines = list(lines)
    headers = dict.fromkeys(header for line in lines for header in line)
    text = io.StringIO()
    writer = csv.DictWriter(text, headers, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in line.items()} for line in lines)
    return text.getvalue().rstrip("\n")


def _cell(value: JsonValue) -> JsonValue:
    """A cell; text that a spreadsheet would take for a formula gets an apostrophe before it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value

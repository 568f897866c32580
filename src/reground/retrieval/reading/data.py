"""JSON and notebooks: data as lines of `key: value`, and the cells of a notebook without what they printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.reading.markdown import first_heading
from reground.retrieval.reading.result import Circumstances, Read, Text

_DEEPEST = 8
"""Levels of nesting that become lines of their own; what is deeper stays JSON."""
_LONGEST_KEY = 200
_CELLS = 20_000


def read_json(content: bytes, around: Circumstances) -> Read:
    """A .json file as `key: value` lines, a paragraph for each top-level item; what is not JSON as the text it is."""
    text, guessed = decode(content)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # with comments, many values in a row, nested without end
        return Read("", text, guessed)
    items = value if isinstance(value, list) else [{key: each} for key, each in _pairs(value)] or [value]
    said = Text()
    lines = ((line, place > 0) for item in items for place, line in enumerate(_lines(item, "", 0)))
    for number, (line, goes_on) in enumerate(lines):
        if number % 1000 == 0:
            around.tick()
        if not said.add(line, goes_on=goes_on):
            break
    title = value.get("title", value.get("name")) if isinstance(value, dict) else ""
    return Read(_safe(title) if isinstance(title, str) else "", _safe(str(said)), guessed, said.partly)


def read_notebook(content: bytes, around: Circumstances) -> Read:
    """A .ipynb: its texts and its code, without the results of the code."""
    text, guessed = decode(content)
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("is damaged: it is not a notebook", kind="damaged") from None
    said, title = Text(), ""
    for kind, source in islice(_cells(notebook), _CELLS):
        if kind == "markdown":
            title = title or first_heading(source)
        if not said.add(f"```\n{source}\n```" if kind == "code" and source.strip() else source):
            break
    return Read(_safe(title), _safe(str(said)), guessed, said.partly)


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    return iter(value.items()) if isinstance(value, dict) else iter(())


def _lines(value: Any, path: str, depth: int) -> Iterator[str]:
    """The lines of a value; its key and those around it stand before each, as in `address.city: Vienna`. Of too long a
    path the end stands there."""
    if isinstance(value, dict) and value and depth < _DEEPEST:
        for key, each in value.items():
            inner = f"{path}.{key[:_LONGEST_KEY]}".lstrip(".")[-_LONGEST_KEY:]
            yield from _lines(each, inner, depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST and any(isinstance(each, dict | list) for each in value):
        for each in value:
            yield from _lines(each, path, depth + 1)
    else:
        said = _scalar(value)
        yield f"{path}: {said}" if path else said


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return ", ".join(map(_scalar, value))
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "..."


def _cells(notebook: Any) -> Iterator[tuple[str, str]]:
    """Kind and text of every cell, of format 4 and of older ones."""
    if not isinstance(notebook, dict):
        raise Unreadable("is damaged: it is not a notebook", kind="damaged")
    sheets = notebook.get("worksheets")
    for sheet in [notebook, *(sheets if isinstance(sheets, list) else [])]:
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        for cell in cells if isinstance(cells, list) else []:
            if isinstance(cell, dict):
                source = cell.get("source", cell.get("input", ""))
                lines = source if isinstance(source, list) else [source]
                yield str(cell.get("cell_type")), "".join(line for line in lines if isinstance(line, str))


def _safe(text: str) -> str:
    """Half a surrogate pair, which JSON may escape, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()

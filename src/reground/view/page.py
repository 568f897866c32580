"""The page: its files, as a server sends them, or all in one file together with the questions."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from reground.core.errors import DataError
from reground.core.language import storable_text
from reground.view.contents import Contents

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""What the served page may load: its own script, its own style, and data of the same server."""
_SCRIPTS = ("dom.js", "data.js", "keys.js", "list.js", "story.js", "steps.js", "tree.js", "page.js")
_STYLE_TAG = '<link rel="stylesheet" href="page.css">'
_SCRIPT_TAG = '<script src="page.js" defer></script>'


@cache
def _asset(name: str) -> str:
    return files("reground.view").joinpath("assets", name).read_text(encoding="utf-8")


def html() -> str:
    """The page as a server sends it."""
    return _asset("page.html")


def style() -> str:
    """The page's style."""
    return _asset("page.css")


def script() -> str:
    """The page's script: its files behind each other, in a scope of their own."""
    parts = "\n".join(_asset(name) for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def exported(contents: Contents) -> Iterator[bytes]:
    """The page as one file that holds every question and needs no server. Raises DataError.

    Questions are written one after the other, so that no more than one is in memory.
    """
    while contents.read():
        pass
    policy = f"default-src 'none'; script-src {_hash(script())}; style-src {_hash(style())}; img-src data:"
    head, tail = html().split(_SCRIPT_TAG)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    head = head.replace(_STYLE_TAG, f"{meta}\n<style>{style()}</style>")
    data, behind = tail.split("</body>")
    yield f"{head}{data}".encode()
    yield _data("news", contents.news())
    for number in range(len(contents)):
        yield _data(f"question-{number}", _told(contents, number))
    yield f"<script>{script()}</script>\n</body>{behind}".encode()


def _told(contents: Contents, number: int) -> dict[str, Any]:
    """A question's story, or why there is none: one damaged line does not keep the others from being read."""
    try:
        return contents.question(number)
    except DataError as error:
        return {"error": str(error)}


def as_json(value: Any) -> str:
    """JSON for a browser, which a file in UTF-8 can hold."""
    return storable_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(name: str, value: Any) -> bytes:
    """JSON within the page. Without the sign < nothing in it can end its element or begin another."""
    text = as_json(value).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>\n'.encode()

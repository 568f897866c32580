"""The title and the texts of a PDF's pages, as a program: python -P pdf_program.py MOST < file.pdf > texts.json

PDFium is native code, and a hostile file may crash or swell it. It does so here, in a process without consequences.
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import sys

from pypdfium2 import PdfDocument, PdfiumError

_MEMORY = 2 << 30
"""Bytes that the process may ask for."""
_PASSWORD = 4
"""PDFium's number of the error that a password is missing."""
_DIVIDED = re.compile("\ufffe(?=[a-z])")
"""What PDFium puts for the hyphen that divides a word at a line's end."""

_LEADERS = re.compile(r"(?: ?\.){5,}")
"""The dots of a table of contents, which would fill passages."""


def main(most: int | None) -> dict[str, object]:
    """The title and the pages, or what is wrong."""
    try:
        document = PdfDocument(sys.stdin.buffer.read())
        texts, unread = _pages(document, most)
        return {"title": document.get_metadata_value("Title"), "texts": texts, "unread": unread}
    except PdfiumError as error:
        return {"why": str(error), "is_locked": error.err_code == _PASSWORD}


def _pages(document: PdfDocument, most: int | None) -> tuple[list[str], int]:
    """The texts, and how many pages cannot be loaded: they are empty. Raises PdfiumError if none can."""
    texts: list[str] = []
    unread = 0
    for number in range(len(document))[:most]:
        try:
            texts.append(_page(document, number))
        except PdfiumError:
            texts.append("")
            unread += 1
    if texts and unread == len(texts):
        raise PdfiumError("none of its pages can be loaded")
    return texts, unread


def _page(document: PdfDocument, number: int) -> str:
    page = document[number]
    letters = page.get_textpage()
    text: str = letters.get_text_range()
    letters.close()
    page.close()
    text = _DIVIDED.sub("", text.replace("\r\n", "\n")).replace("\ufffe", "-")
    return _LEADERS.sub(" …", text)


if __name__ == "__main__":
    with contextlib.suppress(ValueError, OSError):  # a system without such limits
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    json.dump(main(int(sys.argv[1]) if len(sys.argv) > 1 else None), sys.stdout)

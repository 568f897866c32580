"""The title and the texts of a PDF's pages, as a program: python -P pdf_program.py PARENT LETTERS [PAGES] < in > out

PARENT: the process that begins it. LETTERS and PAGES: the most characters that are read, of the first pages. PDFium is
native code, and a hostile file may crash or swell it. It does so here, in a process without consequences, which does
not outlive the one that began it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import signal
import sys

from pypdfium2 import PdfDocument, PdfiumError

_MEMORY = 2 << 30
"""Bytes that the process may ask for."""
_SECONDS = 600
"""Seconds that the processor may work for it."""
_PR_SET_PDEATHSIG = 1
_PASSWORD = 4
"""PDFium's number of the error that a password is missing."""
_DIVIDED = re.compile("\ufffe(?=[a-z])")
"""What PDFium puts for the hyphen that divides a word at a line's end."""

_LEADERS = re.compile(r"(?: ?\.){5,}")
"""The dots of a table of contents, which would fill passages."""


def main(letters: int, most: int | None) -> dict[str, object]:
    """The title and the pages, or what is wrong."""
    try:
        document = PdfDocument(sys.stdin.buffer.read())
        texts, unread, is_cut = _pages(document, letters, most)
        return {"title": document.get_metadata_value("Title"), "texts": texts, "unread": unread, "is_cut": is_cut}
    except PdfiumError as error:
        return {"why": str(error), "is_locked": error.err_code == _PASSWORD}


def _pages(document: PdfDocument, letters: int, most: int | None) -> tuple[list[str], int, bool]:
    """The texts, how many pages cannot be loaded, which are empty, and whether there is more. Raises PdfiumError if
    none can be."""
    texts: list[str] = []
    unread = 0
    for number in range(len(document))[:most]:
        try:
            texts.append(_page(document, number))
        except PdfiumError:
            texts.append("")
            unread += 1
        letters -= len(texts[-1])
        if letters < 0:
            texts[-1] = texts[-1][:letters]
            return texts, unread, True
    if texts and unread == len(texts):
        raise PdfiumError("none of its pages can be loaded")
    return texts, unread, False


def _page(document: PdfDocument, number: int) -> str:
    page = document[number]
    letters = page.get_textpage()
    text: str = letters.get_text_range()
    letters.close()
    page.close()
    text = _DIVIDED.sub("", text.replace("\r\n", "\n")).replace("\ufffe", "-")
    return _LEADERS.sub(" …", text)


def _bind(parent: int) -> None:
    """Set the limits of this process, and let it end with the one that began it, where the system can do so."""
    for limit, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, _SECONDS)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended meanwhile
        sys.exit(1)


if __name__ == "__main__":
    parent, letters, *most = map(int, sys.argv[1:])
    _bind(parent)
    json.dump(main(letters, most[0] if most else None), sys.stdout)

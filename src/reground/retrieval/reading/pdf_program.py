"""A PDF's texts, or a picture of one page, as a program that reads the PDF from its input:

    python -P pdf_program.py PARENT text LETTERS [PAGES]    title, texts and pictures of the first PAGES, as JSON
    python -P pdf_program.py PARENT draw PAGE PIXELS        one page, counted from 0, in grey, as a PGM

PARENT: the process that begins it. LETTERS: the most characters that are read. PIXELS: those of the longer side. PDFium
is native code, and a hostile file may crash or swell it. It does so here, in a process without consequences, which does
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

from pypdfium2 import PdfDocument, PdfImage, PdfiumError
from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

_MEMORY = 2 << 30  # bytes that the process may ask for
_SECONDS = 600  # seconds that the processor may work for it
_PR_SET_PDEATHSIG = 1
_PASSWORD = 4  # PDFium's number of the error that a password is missing
_DIVIDED = re.compile("\ufffe(?=[a-z])")  # what PDFium puts for the hyphen that divides a word at a line's end

_LEADERS = re.compile(r"(?: ?\.){5,}")  # the dots of a table of contents, which would fill passages


def text(letters: int, most: int | None = None) -> None:
    """Write the title and the pages, or what is wrong."""
    try:
        result = _read(PdfDocument(sys.stdin.buffer.read()), letters, most)
    except PdfiumError as error:
        result = {"why": str(error), "is_locked": error.err_code == _PASSWORD}
    json.dump(result, sys.stdout)


def draw(number: int, longest: int) -> None:
    """Write one page as a picture."""
    page = PdfDocument(sys.stdin.buffer.read())[number]
    bitmap = page.render(scale=longest / max(page.get_size()), grayscale=True)
    pixels = memoryview(bitmap.buffer).cast("B")
    sys.stdout.buffer.write(b"P5 %d %d 255\n" % (bitmap.width, bitmap.height))
    for row in range(bitmap.height):
        sys.stdout.buffer.write(pixels[row * bitmap.stride : row * bitmap.stride + bitmap.width])


def _read(document: PdfDocument, letters: int, most: int | None) -> dict[str, object]:
    """The fields of `pdf.Pages`. Raises PdfiumError if no page can be loaded."""
    texts: list[str] = []
    pictures: list[int] = []
    unread = 0
    for number in range(len(document))[:most]:
        try:
            page = document[number]
            letters_of = page.get_textpage()
            content = _DIVIDED.sub("", letters_of.get_text_range().replace("\r\n", "\n")).replace("\ufffe", "-")
            letters_of.close()
            texts.append(_LEADERS.sub(" …", content))
            images = page.get_objects([FPDF_PAGEOBJ_IMAGE]) if not texts[-1].strip() else ()
            sizes = [each.get_px_size() for each in images if isinstance(each, PdfImage)]
            pictures.append(max((width * height for width, height in sizes), default=0))
            page.close()
        except PdfiumError:
            texts[number:], pictures[number:] = [""], [0]
            unread += 1
        letters -= len(texts[-1])
        if letters < 0:
            texts[-1] = texts[-1][:letters]
            break
    if texts and unread == len(texts):
        raise PdfiumError("none of its pages can be loaded")
    title = document.get_metadata_value("Title")
    return {"title": title, "texts": texts, "pictures": pictures, "unread": unread, "is_cut": letters < 0}


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
    _, process, work, *numbers = sys.argv
    _bind(int(process))
    if work == "draw":
        draw(*map(int, numbers))
    else:
        text(*map(int, numbers))

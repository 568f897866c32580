"""PDF: the text of its pages; that of scanned ones by the recognition of characters, where tesseract is installed."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, NamedTuple

from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading import ocr
from reground.retrieval.reading.programs import TooSlow, run
from reground.retrieval.reading.result import MOST_TEXT, ONLY_FIRST, PLAIN, Circumstances, Read

if TYPE_CHECKING:
    from pypdf import PdfReader

SCANNED = f"is a scanned PDF; {ocr.INSTALL.format('it')}"
_PROGRAM = str(Path(__file__).with_name("pdf_program.py"))
_FILE_SECONDS = 600.0
_SCAN_PIXELS = 250_000
"""The least pixels of a scanned page, at some fifty an inch. A smaller picture among pages of text is an ornament."""


class Pages(NamedTuple):
    """The title of a PDF and the texts of its pages. unread: how many cannot be loaded, and are empty here. is_cut:
    whether there is more text than is kept of one file."""

    title: str
    texts: list[str]
    unread: int = 0
    is_cut: bool = False

    @property
    def partly(self) -> str:
        """What was not read, in words; "" where everything was."""
        unread = f"{self.unread} of {len(self.texts)} pages could not be read" if self.unread else ""
        return _both(unread, ONLY_FIRST if self.is_cut else "")


def read_pdf(content: bytes, around: Circumstances) -> Read:
    """A PDF page by page. Raises Unreadable for scanned pages without tesseract, with the kind "scanned".

    Among pages with text, those that are a picture are read too; without tesseract it is said how many they are.
    """
    found = pdf_pages(content, tick=around.tick)
    title, pages = found.title, found.texts
    blank = [number for number, page in enumerate(pages) if not page.strip()]
    if len(blank) < len(pages):
        partly = _fill(pages, blank, content, around)  # first, because it writes into the pages
        return Read(title, _joined(pages), partly=_both(found.partly, partly))
    reader = _images(content)
    if not any(_has_image(reader, number) for number in blank[: ocr.MOST_PAGES]):
        raise Unreadable("holds no text", kind="empty")
    if not ocr.is_available():
        raise Unreadable(SCANNED, kind="scanned")
    recognised, partly = ocr.recognise(content, reader, blank, around)
    if not any(page.strip() for page in recognised):
        raise Unreadable(
            f"is a scanned PDF in which no text was made out{f' ({partly})' if partly else ''}", kind="empty"
        )
    return Read(title, _joined(recognised), partly=_both(found.partly, partly))


def _fill(pages: list[str], blank: Sequence[int], content: bytes, around: Circumstances) -> str:
    """Write the texts of scanned pages into their places. Returns what was not read."""
    if not blank:
        return ""
    try:
        reader = _images(content)
    except Unreadable:  # what draws the text reads more files than what takes images out
        return ""
    scanned = []
    for number in blank:
        around.tick()
        if _has_image(reader, number, least=_SCAN_PIXELS):
            scanned.append(number)
    if not scanned:
        return ""
    if not ocr.is_available():
        are, them = ("page of {} is a picture", "it") if len(scanned) == 1 else ("pages of {} are pictures", "them")
        return f"{len(scanned)} {are.format(len(pages))}; {ocr.INSTALL.format(them)}"
    texts, partly = ocr.recognise(content, reader, scanned, around)
    for number, text in zip(scanned, texts, strict=False):  # some may be missing at the end of the time
        pages[number] = text
    return partly


def pdf_pages(content: bytes, *, most: int | None = None, tick: Callable[[], None] = PLAIN.tick) -> Pages:
    """The title of a PDF and the texts of its first `most` pages. Raises Unreadable, ImportError without PDFium."""
    if find_spec("pypdfium2") is None:
        raise ModuleNotFoundError("No module named 'pypdfium2'", name="pypdfium2")
    with TemporaryFile() as given, TemporaryFile() as made:
        given.write(content)
        given.seek(0)
        numbers = [os.getpid(), MOST_TEXT, *([] if most is None else [most])]
        command = [sys.executable, "-P", _PROGRAM, *map(str, numbers)]
        try:
            places = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # it finds what is found here
            status = run(command, tick, seconds=_FILE_SECONDS, stdin=given, stdout=made, env=places)
        except TooSlow:
            raise Unreadable(f"is a PDF that takes more than {_FILE_SECONDS:.0f} seconds") from None
        if status:
            raise Unreadable("is not a readable PDF: it breaks its reader, or needs too much memory")
        made.seek(0)
        said = json.load(made)
    if said.get("is_locked"):
        raise Unreadable("is a PDF with a password; save it without one", kind="encrypted")
    if "why" in said:
        raise Unreadable(f"is not a readable PDF: {said['why']}")
    return Pages(**said)


def _images(content: bytes) -> PdfReader:
    """The PDF for the library that takes scanned images out of it as they lie there."""
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of every flaw that it can read over
    try:
        return PdfReader(BytesIO(content))
    except Exception as error:  # a broken PDF can fail in any way
        raise Unreadable(f"is not a readable PDF: {error or type(error).__name__}") from None


def _has_image(reader: PdfReader, number: int, *, least: int = 1) -> bool:
    try:
        return ocr.largest_image(reader.pages[number], least=least) is not None
    except MemoryError:
        raise
    except Exception:  # as above; the other pages may be whole
        return False


def _both(*partly: str) -> str:
    return "; ".join(filter(None, partly))


def _joined(pages: list[str]) -> str:
    return "\n\n".join(page.strip() for page in pages if page.strip())

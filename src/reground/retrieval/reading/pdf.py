"""PDF: the text of its pages; that of scanned ones by the recognition of characters, where tesseract is installed."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading import ocr
from reground.retrieval.reading.programs import TooSlow, run
from reground.retrieval.reading.result import PLAIN, Circumstances, Read

if TYPE_CHECKING:
    from pypdf import PdfReader

SCANNED = "is a scanned PDF; install tesseract to have it read"
_PROGRAM = str(Path(__file__).with_name("pdf_program.py"))
_FILE_SECONDS = 600.0


def read_pdf(content: bytes, around: Circumstances) -> Read:
    """A PDF page by page. Raises Unreadable for scanned pages without tesseract, with the kind "scanned"."""
    title, pages = pdf_pages(content, tick=around.tick)
    if any(page.strip() for page in pages):
        return Read(title, _joined(pages))
    reader = _images(content)
    if not any(_has_image(reader, number) for number in range(min(len(pages), ocr.MOST_PAGES))):
        raise Unreadable("holds no text", kind="empty")
    if not ocr.is_available():
        raise Unreadable(SCANNED, kind="scanned")
    recognised, partly = ocr.recognise(content, reader, around)
    if not any(page.strip() for page in recognised):
        raise Unreadable(
            f"is a scanned PDF in which no text was made out{f' ({partly})' if partly else ''}", kind="empty"
        )
    return Read(title, _joined(recognised), partly=partly)


def pdf_pages(
    content: bytes, *, most: int | None = None, tick: Callable[[], None] = PLAIN.tick
) -> tuple[str, list[str]]:
    """The title of a PDF and the texts of its first `most` pages. Raises Unreadable, ImportError without PDFium."""
    if find_spec("pypdfium2") is None:
        raise ModuleNotFoundError("No module named 'pypdfium2'", name="pypdfium2")
    with TemporaryFile() as given, TemporaryFile() as made:
        given.write(content)
        given.seek(0)
        command = [sys.executable, "-P", _PROGRAM, *([] if most is None else [str(most)])]
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
    return said["title"], said["pages"]


def _images(content: bytes) -> PdfReader:
    """The PDF for the library that takes scanned images out of it as they lie there."""
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of every flaw that it can read over
    try:
        return PdfReader(BytesIO(content))
    except Exception as error:  # a broken PDF can fail in any way
        raise Unreadable(f"is not a readable PDF: {error or type(error).__name__}") from None


def _has_image(reader: PdfReader, number: int) -> bool:
    try:
        return ocr.largest_image(reader.pages[number]) is not None
    except MemoryError:
        raise
    except Exception:  # as above; the other pages may be whole
        return False


def _joined(pages: list[str]) -> str:
    return "\n\n".join(page.strip() for page in pages if page.strip())

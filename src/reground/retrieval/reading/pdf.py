"""PDF: the text of its pages; that of scanned ones by the recognition of characters, where tesseract is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, TypeVar

from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading import ocr
from reground.retrieval.reading.result import PLAIN, Circumstances, Read, Tick

if TYPE_CHECKING:
    from pypdf import PdfReader

T = TypeVar("T")

SCANNED = "is a scanned PDF; install tesseract to have it read"


def read_pdf(content: bytes, around: Circumstances) -> Read:
    """A PDF page by page. Raises Unreadable for scanned pages without tesseract, with the kind "scanned"."""
    reader = _opened(content)
    pages = _pages(reader, None, around.tick)
    title = _title(reader)
    if any(page.strip() for page in pages):
        return Read(title, _joined(pages))
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


def pdf_pages(content: bytes, *, most: int | None = None) -> tuple[str, list[str]]:
    """The title of a PDF and the texts of its first `most` pages. Raises Unreadable."""
    reader = _opened(content)
    return _title(reader), _pages(reader, most, PLAIN.tick)


def _opened(content: bytes) -> PdfReader:
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of every flaw that it can read over

    def opened() -> PdfReader:
        reader = PdfReader(BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("is a PDF with a password; save it without one", kind="encrypted")
        return reader

    return _guarded(opened)


def _title(reader: PdfReader) -> str:
    return _guarded(lambda: str((reader.metadata and reader.metadata.title) or ""))


def _pages(reader: PdfReader, most: int | None, tick: Tick) -> list[str]:
    texts = []
    count = _guarded(lambda: len(reader.pages))
    for number in range(count)[:most]:
        tick(number / count)
        texts.append(_guarded(partial(_page, reader, number)))
    return texts


def _page(reader: PdfReader, number: int) -> str:
    return reader.pages[number].extract_text()


def _has_image(reader: PdfReader, number: int) -> bool:
    return _guarded(lambda: ocr.largest_image(reader.pages[number]) is not None)


def _joined(pages: list[str]) -> str:
    return "\n\n".join(page.strip() for page in pages if page.strip())


def _guarded(work: Callable[[], T]) -> T:
    """The result of the work. A broken PDF can fail in any way, and is Unreadable then."""
    from pypdf.errors import DependencyError

    try:
        return work()
    except (Unreadable, MemoryError):
        raise
    except DependencyError:
        why = "is a PDF encrypted with AES; pip install cryptography to have it read, or save it without encryption"
        raise Unreadable(why, kind="encrypted") from None
    except Exception as error:
        raise Unreadable(f"is not a readable PDF: {error or type(error).__name__}") from None

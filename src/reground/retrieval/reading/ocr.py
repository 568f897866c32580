"""Recognition of characters on scanned pages by the program tesseract, where it is installed.

pdftoppm draws the pages where it is installed too; otherwise the largest image of a page is taken out of the PDF as it
lies there, which scanned pages are. So neither needs a Python package. Every page and every file has a bound in time,
and what the tick raises kills the program that works.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from reground.retrieval.reading.programs import TooSlow, run
from reground.retrieval.reading.result import Circumstances

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

INSTALL = "install tesseract to have {} read"
"""What is said of pages that were met without the program."""
MOST_PAGES = 500
_PAGE_SECONDS = 60.0
_LIST_SECONDS = 5.0
_FILE_SECONDS = 600.0
_MOST_PIXELS = 100_000_000
_LONGEST_SIDE = "3000"
"""Pixels of a page's longer side as it is drawn: 250 an inch of A4. It bounds memory whatever size a page claims."""
_MOST_TEXT = 1_000_000
"""Characters of one page."""
_LANGUAGES = {
    "en": "eng", "de": "deu", "fr": "fra", "es": "spa", "it": "ita", "pt": "por", "nl": "nld", "ru": "rus",
    "uk": "ukr", "pl": "pol", "cs": "ces", "sv": "swe", "da": "dan", "no": "nor", "fi": "fin", "hu": "hun",
    "ro": "ron", "el": "ell", "tr": "tur", "ar": "ara", "he": "heb", "hi": "hin", "ta": "tam", "th": "tha",
    "vi": "vie", "ja": "jpn", "ko": "kor", "zh": "chi_sim",
}  # fmt: skip
"""tesseract's names of languages."""
_MARKS = {b"\xff\xd8": ".jpg", b"II*\0": ".tif", b"MM\0*": ".tif", b"\0\0\0\x0cjP": ".jp2", b"\xffO\xffQ": ".jp2"}


def is_available() -> bool:
    """Whether tesseract is installed."""
    return shutil.which("tesseract") is not None


def could_read(said: str) -> bool:
    """Whether pages of which `INSTALL` was said can be read by now."""
    return INSTALL.partition("{}")[0] in said and is_available()


def recognise(
    content: bytes, reader: PdfReader, numbers: Sequence[int], around: Circumstances
) -> tuple[list[str], str]:
    """The texts of these pages of a PDF, counted from 0, and what was not read, in words."""
    ends = time.monotonic() + _FILE_SECONDS
    texts: list[str] = []
    missed = 0
    with TemporaryDirectory(prefix="reground-ocr-") as name:
        folder = Path(name)
        source = folder / "file.pdf"
        if shutil.which("pdftoppm"):
            source.write_bytes(content)
        for number in numbers[:MOST_PAGES]:
            around.tick()
            if time.monotonic() > ends:
                break
            try:
                image = _image(reader, number, source, folder, around.tick)
                texts.append("" if image is None else _text(image, around))
            except (TooSlow, OSError):
                missed += 1
                texts.append("")
    return texts, _partly(len(texts), len(numbers), missed)


def largest_image(page: PageObject, *, least: int = 1) -> Any:
    """The image of the most pixels on a page, `least` or more, as a stream of pypdf's; None without one."""
    resources = page.get("/Resources")
    held = resources.get_object().get("/XObject") if resources is not None else None
    streams = [each.get_object() for each in held.get_object().values()] if held is not None else []
    images = [each for each in streams if each.get("/Subtype") == "/Image" and least <= _pixels(each) <= _MOST_PIXELS]
    return max(images, key=_pixels, default=None)


def as_file(image: Any) -> tuple[str, bytes] | None:
    """An image of a PDF as a suffix and the content of an image file; None for a form that is not known.

    JPEG, JPEG 2000 and fax images lie in a PDF as they are; samples get the header of a PNM.
    """
    data = bytes(image.get_data())
    for mark, suffix in _MARKS.items():
        if data.startswith(mark):
            return suffix, data
    width, height, bits = (int(image.get(key, 0)) for key in ("/Width", "/Height", "/BitsPerComponent"))
    row = (width + 7) // 8
    if (bits == 1 or image.get("/ImageMask")) and len(data) >= row * height:
        inverted = data[: row * height].translate(bytes(255 - byte for byte in range(256)))
        return ".pbm", b"P4 %d %d\n" % (width, height) + inverted  # in a PBM a 1 is black
    for channels, kind in ((3, b"P6"), (1, b"P5")):
        size = width * height * channels
        if bits == 8 and size <= len(data) < size + height + 2:
            return ".ppm", kind + b" %d %d 255\n" % (width, height) + data[:size]
    return None


def _pixels(image: Any) -> int:
    return int(image.get("/Width", 0)) * int(image.get("/Height", 0))


def _image(reader: PdfReader, number: int, source: Path, folder: Path, tick: Callable[[], None]) -> Path | None:
    """A page as an image file."""
    if source.exists():
        drawn = folder / "page.png"
        drawn.unlink(missing_ok=True)
        page = str(number + 1)
        options = ["-png", "-gray", "-singlefile", "-scale-to", _LONGEST_SIDE, "-f", page, "-l", page]
        command = ["pdftoppm", *options, str(source), str(drawn.with_suffix(""))]
        run(command, tick, seconds=_PAGE_SECONDS)
        if drawn.exists():
            return drawn
    try:
        found = largest_image(reader.pages[number])
        made = None if found is None else as_file(found)
    except MemoryError:
        raise
    except Exception:  # a broken image can fail in any way; the other pages may be whole
        return None
    if made is None:
        return None
    path = folder / f"page{made[0]}"
    path.write_bytes(made[1])
    return path


def _text(image: Path, around: Circumstances) -> str:
    language = _LANGUAGES.get(around.language, "eng")
    chosen = ["-l", language] if language in _installed(shutil.which("tesseract")) else []
    command = ["tesseract", str(image), str(image.with_name("text")), *chosen]
    run(command, around.tick, seconds=_PAGE_SECONDS)
    said = image.with_name("text.txt")
    if not said.exists():
        return ""
    with said.open(encoding="utf-8", errors="replace") as lines:
        text = lines.read(_MOST_TEXT)
    said.unlink()
    return text.replace("\f", "")


@cache
def _installed(program: str | None) -> frozenset[str]:
    """The languages that tesseract has been given."""
    try:
        done = subprocess.run(
            [program or "tesseract", "--list-langs"], capture_output=True, timeout=_LIST_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset((done.stdout + done.stderr).decode("utf-8", "replace").split())


def _partly(read: int, count: int, missed: int) -> str:
    said = [f"only {read} of {count} scanned pages were read"] if read < count else []
    said += [f"{missed} scanned pages could not be read in time"] if missed else []
    return "; ".join(said)

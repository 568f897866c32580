"""PDF: the text of its pages, and that of scanned ones by the program tesseract, where it is installed.

PDFium is native code, and hostile files may crash or swell it. So it reads and draws pages in a process of its own with
bounds on memory and time (`pdf_program.py`). tesseract has a bound in time for every page and every file. What the tick
raises ends whatever program works.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, NamedTuple

from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading.result import MOST_TEXT, ONLY_FIRST, PLAIN, Circumstances, Read, Tick

_INSTALL = "install tesseract to have {} read"  # what is said of scanned pages where the program is missing
_PROGRAM = Path(__file__).with_name("pdf_program.py")
_WAIT_SECONDS = 0.05
FILE_SECONDS = 600.0
_PAGE_SECONDS = 60.0
_NO_TITLE = re.compile(
    r"\A(?:\W{0,99}+untitled\b.{0,99}|\(.{0,99}\)|.{0,300}\w\."
    r"(?:docx?|pptx?|xlsx?|od[tsp]|rtf|tex|dvi|indd|pages|pdf|txt|html?)\s{0,99}+)",
    re.IGNORECASE,
)
"""What programs put for a title: nothing, or the name of a file."""
_NAMED = 10  # attached files that are named
_LIST_SECONDS = 5.0
_SCAN_PIXELS = 250_000
"""The least pixels of a scanned page, at some fifty an inch. A smaller picture among pages of text is an ornament."""
_LONGEST_SIDE = 3000
"""Pixels of a page's longer side as it is drawn: 250 an inch of A4. It bounds memory whatever size a page claims."""
MOST_SCANNED = 500  # scanned pages of one file that are read
_MOST_LETTERS = 1_000_000  # characters of one scanned page
_LANGUAGES = {  # tesseract's names of them
    "en": "eng", "de": "deu", "fr": "fra", "es": "spa", "it": "ita", "pt": "por", "nl": "nld", "ru": "rus",
    "uk": "ukr", "pl": "pol", "cs": "ces", "sv": "swe", "da": "dan", "no": "nor", "fi": "fin", "hu": "hun",
    "ro": "ron", "el": "ell", "tr": "tur", "ar": "ara", "he": "heb", "hi": "hin", "ta": "tam", "th": "tha",
    "vi": "vie", "ja": "jpn", "ko": "kor", "zh": "chi_sim",
}  # fmt: skip


class Pages(NamedTuple):
    """The pages of a PDF.

    pictures: of each page without text the pixels of its largest picture, else 0. unread: how many pages cannot be
    loaded, and are empty here. is_cut: whether there is more text than is kept of one file. attached: names of files.
    """

    title: str
    texts: list[str]
    pictures: list[int]
    unread: int = 0
    is_cut: bool = False
    attached: Sequence[str] = ()

    @property
    def partly(self) -> str:
        """What was not read, in words; "" where everything was."""
        unread = f"{self.unread} of {len(self.texts)} pages could not be read" if self.unread else ""
        names = ", ".join(name or "a file" for name in self.attached[:_NAMED])
        more = f" and {len(self.attached) - _NAMED} more" if len(self.attached) > _NAMED else ""
        attached = f"attached files were not read: {names}{more}" if names else ""
        return _both(unread, ONLY_FIRST if self.is_cut else "", attached)


def read_pdf(content: bytes, around: Circumstances) -> Read:
    """A PDF page by page. Raises Unreadable for scanned pages without tesseract, with the kind "scanned".

    Among pages with text, those that are a picture are read too; without tesseract it is said how many they are.
    """
    with TemporaryFile() as file:
        file.write(content)
        pages = _pages(file, around.tick)
        texts, partly = pages.texts, ""
        is_scan = not any(map(str.strip, texts))
        scanned = [number for number, pixels in enumerate(pages.pictures) if pixels >= (1 if is_scan else _SCAN_PIXELS)]
        if scanned and shutil.which("tesseract") is not None:
            partly = _recognise(file, texts, scanned, around)
        elif scanned and is_scan:
            raise Unreadable(f"is a scanned PDF; {_INSTALL.format('it')}", kind="scanned")
        elif scanned:
            are, them = ("page of {} is a picture", "it") if len(scanned) == 1 else ("pages of {} are pictures", "them")
            partly = f"{len(scanned)} {are.format(len(texts))}; {_INSTALL.format(them)}"
    text = "\n\n".join(filter(None, map(str.strip, texts)))
    if scanned and not text:
        why = f" ({partly})" if partly else ""
        raise Unreadable(f"is a scanned PDF in which no text was made out{why}", kind="empty")
    title = "" if _NO_TITLE.fullmatch(pages.title) else pages.title
    return Read(title, text, partly=_both(pages.partly, partly))


def pdf_pages(content: bytes, *, most: int | None = None) -> Pages:
    """The first `most` pages of a PDF. Raises Unreadable, ImportError without PDFium."""
    with TemporaryFile() as file:
        file.write(content)
        return _pages(file, PLAIN.tick, most)


def could_read(message: str) -> bool:
    """Whether pages of which it was said that tesseract is missing can be read by now."""
    return _INSTALL.partition("{}")[0] in message and shutil.which("tesseract") is not None


def _pages(file: IO[bytes], tick: Tick, most: int | None = None) -> Pages:
    if find_spec("pypdfium2") is None:
        raise ModuleNotFoundError("No module named 'pypdfium2'", name="pypdfium2")
    words = [_PROGRAM, os.getpid(), "text", MOST_TEXT, *([] if most is None else [most])]
    with TemporaryFile() as out:
        try:
            status = python(words, file, out, tick, FILE_SECONDS)
        except TimeoutError:
            raise Unreadable(f"is a PDF that takes more than {FILE_SECONDS:.0f} seconds") from None
        if status:
            raise Unreadable("is not a readable PDF: it breaks its reader, or needs too much memory")
        out.seek(0)
        result = json.load(out)
    if result.get("is_locked"):
        raise Unreadable("is a PDF with a password; save it without one", kind="encrypted")
    if "why" in result:
        raise Unreadable(f"is not a readable PDF: {result['why']}")
    return Pages(**{**result, "attached": tuple(result["attached"])})


def python(words: Sequence[object], file: IO[bytes], out: IO[bytes], tick: Tick, seconds: float) -> int:
    """The exit status of a program in Python that reads a file from its beginning. Raises TimeoutError, and what the
    tick raises; the program is killed then."""
    file.seek(0)
    return _run([sys.executable, "-P", *map(str, words)], tick, seconds=seconds, stdin=file, stdout=out)


def _recognise(file: IO[bytes], texts: list[str], numbers: Sequence[int], around: Circumstances) -> str:
    """Put the texts of these pages, counted from 0, into those of all, and say what was not read."""
    ends = time.monotonic() + FILE_SECONDS
    read = missed = 0
    with TemporaryDirectory(prefix="reground-ocr-") as folder:
        for number in numbers[:MOST_SCANNED]:
            around.tick()
            if time.monotonic() > ends:
                break
            read += 1
            try:
                read_text = _text_of_scan(file, number, Path(folder), around)
                texts[number] = "\n".join(filter(None, (read_text, texts[number])))  # behind it stand its notes
            except OSError:
                missed += 1
    few = f"only {read} of {len(numbers)} scanned pages were read" if read < len(numbers) else ""
    return _both(few, f"{missed} scanned pages could not be read in time" if missed else "")


def _text_of_scan(file: IO[bytes], number: int, folder: Path, around: Circumstances) -> str:
    image, result = folder / "page.pgm", folder / "text.txt"
    with image.open("wb") as out:
        if python([_PROGRAM, os.getpid(), "draw", number, _LONGEST_SIDE], file, out, around.tick, _PAGE_SECONDS):
            return ""
    language = _LANGUAGES.get(around.language, "eng")
    options = ["-l", language] if language in _installed(shutil.which("tesseract")) else []
    _run(["tesseract", str(image), str(result.with_suffix("")), *options], around.tick, seconds=_PAGE_SECONDS)
    if not result.exists():
        return ""
    with result.open(encoding="utf-8", errors="replace") as lines:
        text = lines.read(_MOST_LETTERS)
    result.unlink()
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


def _run(
    command: Sequence[str],
    tick: Tick,
    *,
    seconds: float,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
) -> int:
    """The exit status of a program. Raises TimeoutError, and what the tick raises; the program is killed then."""
    ends = time.monotonic() + seconds
    # tesseract's threads wait for each other more than they help; a program in Python finds what is found here.
    variables = {**os.environ, "OMP_THREAD_LIMIT": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, env=variables) as program:
        try:
            while time.monotonic() < ends:
                with suppress(subprocess.TimeoutExpired):
                    return program.wait(_WAIT_SECONDS)
                tick()
            raise TimeoutError
        except BaseException:
            program.kill()
            raise


def _both(*partly: str) -> str:
    return "; ".join(filter(None, partly))

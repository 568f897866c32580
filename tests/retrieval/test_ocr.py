"""Scanned PDFs: read by a program that stands in for tesseract, and by the real one where it is installed."""

from __future__ import annotations

import os
import shutil
import time
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont
from pypdf import PdfWriter
from pypdf.generic import DictionaryObject, NameObject, NumberObject, StreamObject

from reground.retrieval.documents import SourceFile, read_file
from reground.retrieval.encodings import Unreadable
from reground.retrieval.index import build_index
from reground.retrieval.reading.pdf import MOST_SCANNED
from reground.retrieval.reading.result import Circumstances
from tests.retrieval.corpora import write
from tests.retrieval.files import pdf

TESSERACT = shutil.which("tesseract")
JPEG = b"\xff\xd8\xff\xe0 a picture"


def image(data: bytes, width: int, height: int, bits: int = 8, **more: str) -> StreamObject:
    stream = StreamObject()
    stream._data = data
    entries = {"Subtype": NameObject("/Image"), "Width": NumberObject(width), "Height": NumberObject(height)}
    entries["ColorSpace"] = NameObject("/DeviceGray")
    entries |= {"BitsPerComponent": NumberObject(bits)} | {key: NameObject(value) for key, value in more.items()}
    stream.update({NameObject(f"/{key}"): value for key, value in entries.items()})
    return stream


def scan(*images: StreamObject) -> bytes:
    """A PDF with an image a page and no text."""
    writer = PdfWriter()
    for each in images:
        page = writer.add_blank_page(300, 300)
        held = DictionaryObject({NameObject("/Im0"): writer._add_object(each)})
        drawing = StreamObject()
        drawing._data = b"q 300 0 0 75 0 100 cm /Im0 Do Q"
        page[NameObject("/Contents")] = writer._add_object(drawing)
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/XObject"): held})
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def read(content: bytes, around: Circumstances | None = None) -> str:
    return read_file(SourceFile(Path("a.pdf"), "a.pdf", len(content), 0), content, around or Circumstances()).text


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    path.chmod(0o755)


READS = """
if [ "$1" = --list-langs ]; then echo eng; echo jpn; exit; fi
echo "page of $(head -c 2 "$1" | od -An -tx1 | tr -d ' \\n') $3 $4" > "$2.txt"
"""
"""It says how the image begins and which language it was told."""


def test_a_scan_without_tesseract_is_named_as_one(programs: Path) -> None:
    with pytest.raises(Unreadable, match="is a scanned PDF; install tesseract to have it read") as raised:
        read(scan(image(JPEG, 10, 10, Filter="/DCTDecode")))
    assert raised.value.kind == "scanned"


def test_an_empty_pdf_is_no_scan(programs: Path) -> None:
    with pytest.raises(Unreadable, match="holds no text"):
        read(pdf([""]))


def test_the_pages_of_a_scan_are_read_in_order(programs: Path) -> None:
    install(programs, "tesseract", READS)
    pages = scan(image(bytes(100), 10, 10), image(bytes(20), 10, 10, 1))
    assert read(pages).splitlines() == ["page of 5035 -l eng", "", "page of 5035 -l eng"]
    assert "5035 -l jpn" in read(pages, Circumstances(language="ja"))
    assert read(pages, Circumstances(language="de")).splitlines()[0].strip() == "page of 5035", "it has no German"


def test_a_page_is_drawn_whole_and_in_bounds(programs: Path) -> None:
    install(programs, "tesseract", f'[ "$1" = --list-langs ] || cp "$1" "{programs}/page.pgm"')
    with pytest.raises(Unreadable):
        read(scan(image(bytes(range(0, 200, 2)), 10, 10)))
    with Image.open(programs / "page.pgm") as drawn_page:
        assert (drawn_page.size, drawn_page.mode) == ((3000, 3000), "L")
        assert (drawn_page.getpixel((10, 10)), drawn_page.getpixel((50, 1300))) == (255, 0)


def test_a_pdf_with_text_is_not_recognised(programs: Path) -> None:
    install(programs, "tesseract", "exit 1")
    assert read(pdf(["Text"])) == "Text"


def mixed(*between: StreamObject) -> bytes:
    """A PDF with a page of text before and after these pages of images."""
    writer = PdfWriter()
    for content in (pdf(["Before"]), scan(*between), pdf(["After"])):
        writer.append(BytesIO(content))
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def read_whole(content: bytes) -> tuple[str, str]:
    found = read_file(SourceFile(Path("a.pdf"), "a.pdf", len(content), 0), content, Circumstances())
    return found.text, found.partly


LARGE, SMALL = (image(JPEG, side, side, Filter="/DCTDecode") for side in (1000, 100))


def test_scanned_pages_between_others_are_read_where_they_stand(programs: Path) -> None:
    assert read_whole(mixed(LARGE, SMALL)) == (
        "Before\n\nAfter",
        "1 page of 4 is a picture; install tesseract to have it read",
    )
    assert read_whole(mixed(LARGE, LARGE))[1] == "2 pages of 4 are pictures; install tesseract to have them read"
    many = mixed(*[LARGE] * (MOST_SCANNED + 1))
    assert read_whole(many)[1] == "501 pages of 503 are pictures; install tesseract to have them read"
    install(programs, "tesseract", READS)
    assert read_whole(mixed(LARGE, SMALL)) == ("Before\n\npage of 5035 -l eng\n\nAfter", "")


def test_a_small_picture_alone_on_a_page_is_no_scan(programs: Path) -> None:
    assert read_whole(mixed(SMALL)) == ("Before\n\nAfter", "")


@pytest.mark.parametrize("script", ["exit 1", 'test -z "$2" || echo " " > "$2.txt"', "kill -9 $$"])
def test_a_scan_of_nothing_holds_no_text(programs: Path, script: str) -> None:
    install(programs, "tesseract", script)
    with pytest.raises(Unreadable, match="scanned PDF in which no text was made out") as raised:
        read(scan(image(JPEG, 10, 10, Filter="/DCTDecode")))
    assert raised.value.kind == "empty"


@pytest.mark.parametrize(
    "form", [{"Filter": "/Unknown"}, {"Filter": "/JBIG2Decode"}, {"Filter": "/CCITTFaxDecode"}, {}]
)
def test_an_image_that_is_broken_costs_its_page(programs: Path, form: dict[str, str]) -> None:
    install(programs, "tesseract", READS)
    pages = scan(image(b"\0\1broken", 10**4, 10**4, **form), image(JPEG, 10, 10, Filter="/DCTDecode"))
    assert read(pages).splitlines()[-1] == "page of 5035 -l eng"


def test_what_the_tick_raises_ends_a_slow_page_at_once(programs: Path) -> None:
    install(programs, "tesseract", f'[ "$1" = --list-langs ] || {{ echo $$ > "{programs}/pid"; exec sleep 50; }}')
    started = time.monotonic()

    def tick(share: float = 0.0, /) -> None:
        if (programs / "pid").exists() and (programs / "pid").read_text().strip():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(scan(image(JPEG, 10, 10, Filter="/DCTDecode")), Circumstances(tick=tick))
    assert time.monotonic() - started < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int((programs / "pid").read_text()), 0)


def test_scans_are_read_once_tesseract_is_there(programs: Path, tmp_path: Path) -> None:
    scanned = scan(image(JPEG, 10, 10, Filter="/DCTDecode"))
    write(tmp_path / "docs", {"scan.pdf": scanned, "mixed.pdf": mixed(LARGE), "a.md": "x"})
    for _ in range(2):
        report = build_index(tmp_path / "docs", tmp_path / "idx")
        assert [(each.path, each.kind) for each in report.skipped] == [("scan.pdf", "scanned")]
        assert [each.path for each in report.partly] == ["mixed.pdf"]
    before = sorted((tmp_path / "idx").glob("data-*"))
    build_index(tmp_path / "docs", tmp_path / "idx")
    assert sorted((tmp_path / "idx").glob("data-*")) == before, "no scan is looked at again for nothing"
    install(programs, "tesseract", READS)
    report = build_index(tmp_path / "docs", tmp_path / "idx")
    assert (report.documents, report.read, report.skipped, report.partly) == (3, 2, (), ())
    assert build_index(tmp_path / "docs", tmp_path / "idx").read == 0


def drawn(text: str) -> StreamObject:
    """A text as a picture of a page."""
    page = Image.new("L", (1200, 300), 255)
    ImageDraw.Draw(page).text((60, 100), text, fill=0, font=ImageFont.load_default(size=64))
    return image(page.tobytes(), *page.size)


@pytest.mark.skipif(TESSERACT is None, reason="needs tesseract")
@pytest.mark.slow
def test_the_real_tesseract_reads_a_scan() -> None:
    assert "Danube is 2850 km" in read(scan(drawn("The Danube is 2850 km long.")))

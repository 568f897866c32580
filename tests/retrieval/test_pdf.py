"""The texts of PDFs, as typesetting programs and hostile people make them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    NameObject,
    NullObject,
    NumberObject,
    PdfObject,
    StreamObject,
    TextStringObject,
)  # fmt: skip

from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading import pdf_program
from reground.retrieval.reading.pdf import Pages, pdf_pages, read_pdf
from reground.retrieval.reading.result import PLAIN, Circumstances
from tests.retrieval.files import pdf
from tests.retrieval.programs import is_alive, long_pdf, programs_of, wait_for

_LETTERS = b"""/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange
1 beginbfrange <0041> <005A> <0061> endbfrange endcmap"""


def made(**entries: PdfObject | str | int) -> DictionaryObject:
    kinds = {str: NameObject, int: NumberObject}
    return DictionaryObject(
        {NameObject(f"/{key}"): kinds.get(type(of), lambda of: of)(of) for key, of in entries.items()}
    )


def page(drawing: StreamObject, font: DictionaryObject, *others: PdfObject) -> bytes:
    writer = PdfWriter()
    held = [writer._add_object(each) for each in others]
    if held:
        font[NameObject("/DescendantFonts")], font[NameObject("/ToUnicode")] = ArrayObject(held[:1]), held[1]
    blank = writer.add_blank_page(300, 300)
    blank[NameObject("/Contents")] = writer._add_object(drawing)
    blank[NameObject("/Resources")] = made(Font=made(F1=writer._add_object(font)))
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def stream(data: bytes) -> DecodedStreamObject:
    of = DecodedStreamObject()
    of.set_data(data)
    return of


def test_words_are_apart_where_a_font_has_no_space() -> None:
    """As TeX sets them: the gap between words is a movement, and the 32nd letter of the font is a wide one."""
    system = made(Registry=TextStringObject("Adobe"), Ordering=TextStringObject("Identity"), Supplement=0)
    cid = made(
        Type="/Font", Subtype="/CIDFontType2", BaseFont="/L", CIDSystemInfo=system, DW=500,
        W=ArrayObject([NumberObject(32), ArrayObject([NumberObject(900)])]),
        FontDescriptor=made(Type="/FontDescriptor", FontName="/L", Flags=4),
    )  # fmt: skip
    font = made(Type="/Font", Subtype="/Type0", BaseFont="/L", Encoding="/Identity-H")
    words = [f"<{''.join(f'{ord(letter) - 32:04x}' for letter in word)}>" for word in ("the", "danube", "is", "long")]
    drawing = f"BT /F1 12 Tf 20 200 Td [{' -300 '.join(words)}] TJ ET"
    assert pdf_pages(page(stream(drawing.encode()), font, cid, stream(_LETTERS))).texts == ["the danube is long"]


def test_a_word_divided_at_the_end_of_a_line_is_put_together() -> None:
    drawing = b"BT /F1 12 Tf 20 200 Td (dis-) Tj 0 -14 Td (tribution by Non-) Tj 0 -14 Td (Maintainers) Tj ET"
    font = made(Type="/Font", Subtype="/Type1", BaseFont="/Helvetica")
    assert pdf_pages(page(stream(drawing), font)).texts == ["distribution by Non-Maintainers"]


def test_the_dots_of_a_table_of_contents_are_few() -> None:
    assert pdf_pages(pdf(["1.1 Rivers . . . . . . . . . . 12", "1.2 Lakes......... 13", "And so on ..."])).texts == [
        "1.1 Rivers … 12", "1.2 Lakes … 13", "And so on ...",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_pdf_that_swells_costs_itself_alone() -> None:
    packer = zlib.compressobj(9)
    bomb = StreamObject()
    bomb._data = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(2500)) + packer.flush()
    bomb[NameObject("/Filter")] = NameObject("/FlateDecode")
    with pytest.raises(Unreadable, match="breaks its reader, or needs too much memory"):
        pdf_pages(page(bomb, made()))


def test_what_the_tick_raises_ends_the_reading() -> None:
    def stop(share: float = 0.0, /) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_pdf(pdf(["Danube"] * 2000), Circumstances(tick=stop))


def test_the_first_pages_of_many() -> None:
    assert pdf_pages(pdf(["One", "Two", "Three"], title="Rivers"), most=2) == Pages("Rivers", ["One", "Two"], [0, 0])


def broken(pages: list[str], *numbers: int) -> bytes:
    """A PDF in which nothing stands in the place of some pages."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(pdf(pages))))
    kids = writer.root_object["/Pages"]["/Kids"]
    for number in numbers:
        kids[number] = NullObject()
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def test_a_page_that_cannot_be_loaded_costs_itself_alone() -> None:
    content = broken(["One", "Two", "Three"], 1)
    assert pdf_pages(content) == Pages("", ["One", "", "Three"], [0, 0, 0], unread=1)
    read = read_pdf(content, PLAIN)
    assert (read.text, read.partly) == ("One\n\nThree", "1 of 3 pages could not be read")


def test_a_pdf_without_a_page_that_can_be_loaded_is_refused() -> None:
    with pytest.raises(Unreadable, match="is not a readable PDF: none of its pages can be loaded"):
        read_pdf(broken(["One", "Two"], 0, 1), PLAIN)


def test_a_text_without_end_stops_in_the_program_and_is_said_so() -> None:
    content, program = pdf(["One two", "Three four", "Five"]), str(Path(pdf_program.__file__))
    command = [sys.executable, "-P", program, str(os.getpid()), "text", "12"]
    said = json.loads(subprocess.run(command, input=content, capture_output=True, check=True).stdout)
    assert (said["texts"], said["is_cut"]) == (["One two", "Three"], True)
    assert Pages("", said["texts"], [], is_cut=True).partly == "only its first 100 million characters were read"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_the_program_ends_with_the_process_that_began_it() -> None:
    """Also where that is killed and can end nothing."""
    begins = "import sys; from reground.retrieval.reading.pdf import pdf_pages; pdf_pages(sys.stdin.buffer.read())"
    with TemporaryFile() as given:
        given.write(long_pdf())
        given.seek(0)
        with subprocess.Popen([sys.executable, "-c", begins], stdin=given) as parent:
            child = wait_for(lambda: programs_of(parent.pid))[0]
            parent.kill()
    wait_for(lambda: not is_alive(child))

"""The texts of PDFs, as typesetting programs and hostile people make them.

A program stands in for tesseract, which reads scanned ones.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from PIL import Image, ImageDraw, ImageFont
from pypdf import PdfReader, PdfWriter, generic

from reground.retrieval.documents import Document
from reground.retrieval.encodings import Unreadable
from reground.retrieval.index import build_index
from reground.retrieval.reading import pdf_program
from reground.retrieval.reading.pdf import MOST_SCANNED, Pages, pdf_pages, read_pdf
from reground.retrieval.reading.result import PLAIN, Circumstances
from tests.retrieval import files
from tests.retrieval.corpora import write
from tests.retrieval.files import made, pdf, pdf_of, stream, written
from tests.retrieval.programs import is_alive, long_pdf, programs_of, wait_for

_LETTERS = b"""/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange
1 beginbfrange <0041> <005A> <0061> endbfrange endcmap"""


def test_words_are_apart_where_a_font_has_no_space() -> None:
    """As TeX sets them: the gap between words is a movement, and the 32nd letter of the font is a wide one."""
    system = made(
        Registry=generic.TextStringObject("Adobe"), Ordering=generic.TextStringObject("Identity"), Supplement=0
    )
    cid = made(
        Type="/Font", Subtype="/CIDFontType2", BaseFont="/L", CIDSystemInfo=system, DW=500,
        W=generic.ArrayObject([generic.NumberObject(32), generic.ArrayObject([generic.NumberObject(900)])]),
        FontDescriptor=made(Type="/FontDescriptor", FontName="/L", Flags=4),
    )  # fmt: skip
    words = [f"<{''.join(f'{ord(letter) - 32:04x}' for letter in word)}>" for word in ("the", "danube", "is", "long")]
    drawing = f"BT /F1 12 Tf 20 200 Td [{' -300 '.join(words)}] TJ ET"

    def resources(add: Callable[[generic.PdfObject], generic.PdfObject]) -> generic.DictionaryObject:
        held = {"DescendantFonts": generic.ArrayObject([add(cid)]), "ToUnicode": add(stream(_LETTERS))}
        return made(Font=made(F1=made(Type="/Font", Subtype="/Type0", BaseFont="/L", Encoding="/Identity-H", **held)))

    content = written(pdf_of((stream(drawing.encode()), resources)))
    assert pdf_pages(content).texts == ["the danube is long"]


def test_a_word_divided_at_the_end_of_a_line_is_put_together() -> None:
    content = pdf(["dis-) Tj 0 -14 Td (tribution by Non-) Tj 0 -14 Td (Maintainers"])
    assert pdf_pages(content).texts == ["distribution by Non-Maintainers"]


@pytest.mark.parametrize(
    ("halves", "elsewhere", "said"),
    [
        (("a well-", "known fact"), "It is well known", "a well-known fact"),
        (("a lee-", "side wall"), "the lee-side", "a lee-side wall"),
        (("the under-", "standing of"), "they stand under it; understanding", "the understanding of"),
        (("the wind-", "ward side"), "the wind is strong; north-) Tj 0 -14 Td (ern, northern", "the windward side"),
        (("a wind-", "powered pump"), "the wind is strong", "a wind-powered pump"),
        (("an-", "other day"), "an eel and other fish", "another day"),
        (("an officer-in-", "charge is"), "in full charge", "an officer-in-charge is"),
        (("en h\\371-", "\\371vel"), "", "en h\xf8\xf8vel"),
    ],
)
def test_a_compound_keeps_its_hyphen_at_the_end_of_a_line(halves: tuple[str, str], elsewhere: str, said: str) -> None:
    content = pdf([") Tj 0 -14 Td (".join(halves), elsewhere or "."])
    assert pdf_pages(content).texts[0] == said


def laid_out(*texts: tuple[float, float, str], size: int = 9, bold: Sequence[str] = ()) -> str:
    """The text of a page with each text from a place on. bold: the texts in another font."""
    fonts = {
        name: made(Type="/Font", Subtype="/Type1", BaseFont=f"/{name}") for name in ("Helvetica", "Helvetica-Bold")
    }
    drawn = (
        f"BT /{'Helvetica-Bold' if text in bold else 'Helvetica'} {size} Tf {x} {y} Td ({text}) Tj ET"
        for x, y, text in texts
    )
    page = stream("\n".join(drawn).encode())
    return pdf_pages(written(pdf_of((page, lambda add: made(Font=made(**fonts)))))).texts[0]


def columns(*rows: tuple[str, str]) -> str:
    """The text of a page with two columns that are written row by row, under a line of their own and over another."""
    lines = [(20, 280, "Harbour handbook of the whole north coast, edition of 1931")]
    lines += [(x, 262 - 10 * n, text) for n, row in enumerate(rows) for x, text in zip((20, 160), row, strict=True)]
    return laid_out(*lines, (140, 5, "7"))


def test_columns_of_prose_that_are_written_row_by_row_are_read_one_by_one() -> None:
    left = ["The old harbour was built in", "1931 of granite from Vik and", "has two cranes on the quay"] * 4
    right = ["Ships of more than nine metres", "pay a fee of forty kroner for", "each night in the summer"] * 4
    said = columns(*zip(left, right, strict=True)).split("\n")
    assert [line.strip() for line in said if line.strip()][1:-1] == [*left, *right]


@pytest.mark.parametrize("left", ["Pump {}", "The pump of the quay {}"])
def test_rows_of_a_table_stay_rows(left: str) -> None:
    rows = [(left.format(n), "12 m" if n % 2 else "9 m on Sundays and days of rest") for n in range(12)]
    assert f"{left.format(4)} 9 m on Sundays" in columns(*rows)


DEPTHS = ("Well", "Depth", "Yield"), ("Hollem", "", "9 l"), ("Sande", "41 m", "3 l"), ("Grue", "12 m", "")


def table(*rows: Sequence[str], wide: int = 80, bold: Sequence[str] = ()) -> list[str]:
    """The lines of a page on which there is a table."""
    places = [(20 + wide * x, 250 - 16 * y, cell) for y, row in enumerate(rows) for x, cell in enumerate(row) if cell]
    text = laid_out((20, 280, "Wells of the coast."), *places, (20, 100, "All are old."), bold=bold)
    return [line.strip() for line in text.split("\n") if line.strip()][1:-1]


@pytest.mark.parametrize("bold", [(), DEPTHS[0]])
def test_the_rows_of_a_table_have_the_names_of_their_columns(bold: Sequence[str]) -> None:
    assert table(*DEPTHS, bold=bold) == [
        "Well | Depth | Yield", "Well: Hollem; Yield: 9 l", "Well: Sande; Depth: 41 m; Yield: 3 l",
        "Well: Grue; Depth: 12 m",
    ]  # fmt: skip


def test_years_in_letters_of_their_own_name_columns() -> None:
    head = ("Depot", "2019", "2020")
    assert table(head, ("Vik", "12", "13"), ("Moss", "", "8"), bold=head)[1:] == [
        "Depot: Vik; 2019: 12; 2020: 13", "Depot: Moss; 2020: 8",
    ]  # fmt: skip


def test_a_cell_of_a_table_goes_on_in_the_line_below() -> None:
    rows = [(20, 250, "Berth"), (90, 250, "Use"), (20, 230, "A"), (90, 230, "boats of the"), (90, 220, "pilots")]
    assert "Berth: A; Use: boats of the pilots\n" in laid_out(
        *rows, (20, 200, "B"), (90, 200, "ice"), bold=("Berth", "Use")
    )


@pytest.mark.parametrize(
    "rows",
    [
        (("Name", "Anna"), ("Age", "34"), ("Height", "170")),
        (("Depot", "2019", "2020"), ("Vik", "12", "13"), ("Moss", "9", "8")),
        (("Set", "Train", ""), ("News", "79 168", "58 880"), ("Quiz", "78 785", "60 413")),
    ],
)
def test_what_may_name_no_columns_stays_as_it_is(rows: Sequence[Sequence[str]]) -> None:
    assert table(*rows) == [" ".join(filter(None, row)) for row in rows]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (("3 x 10", "^6", " cells and 2", "^64", " grains."), "3 x 10^6 cells and 2^64 grains."),
        (("It takes 10", "^-7", " s, at 5 m", "^3", "/s."), "It takes 10^-7 s, at 5 m^3/s."),
        (("H", "_2", "O and 101", "_2", " here."), "H2O and 101_2 here."),
        (("by the age of 85.", "^2", " Then it falls."), "by the age of 85.[2] Then it falls."),
        (("a survey", "^12", ", and one more"), "a survey[12], and one more"),
        (("Room 12 and A4, 1931.",), "Room 12 and A4, 1931."),
    ],
)
def test_raised_and_lowered_numbers_stay_apart(pieces: Sequence[str], text: str) -> None:
    drawn = ""
    for piece in pieces:
        size, rise = (7, 5 if piece[0] == "^" else -2) if piece[0] in "^_" else (12, 0)
        drawn += f"/F1 {size} Tf {rise} Ts ({piece.lstrip('^_')}) Tj "
    font = made(Font=made(F1=made(Type="/Font", Subtype="/Type1", BaseFont="/Helvetica")))
    page = stream(f"BT 20 200 Td {drawn} ET".encode())
    assert pdf_pages(written(pdf_of((page, lambda add: font)))).texts == [text]


def letters(shown: str) -> bytes:
    """A page of letters that are drawn from left to right, each beyond ASCII with what it stands for."""
    span = "/Span <</ActualText <FEFF{:04x}>>> BDC (x) Tj EMC"
    drawn = (f"(\\{ord(each):03o}) Tj" if each.isascii() else span.format(ord(each)) for each in shown)
    return pdf([f") Tj {' '.join(drawn)} ("])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("الجسر في سنة 1931 (في الصيف) وهو", "وهو )الصيف في( 1931 سنة في الجسر"),
        ("הגשר בשנת 1931 (ליד הנמל) ועוד", "ועוד )הנמל ליד( 1931 בשנת הגשר"),
        ("يساوي ١٩٣١ متر", "متر ١٩٣١ يساوي"),
        ("The quay (the old one) of שלום in 1931", "The quay (the old one) of שלום in 1931"),
    ],
)
def test_words_from_right_to_left_are_read_in_their_order(text: str, shown: str) -> None:
    """In `shown` the words stand as they are drawn, each from its last letter on."""
    words = [word if word.isdecimal() or word[1:2].isascii() else word[::-1] for word in re.split(r"([ ()])", shown)]
    assert pdf_pages(letters("".join(words))).texts == [text]


def test_the_dots_of_a_table_of_contents_are_few() -> None:
    assert pdf_pages(pdf(["1.1 Rivers . . . . . . . . . . 12", "1.2 Lakes......... 13", "And so on ..."])).texts == [
        "1.1 Rivers … 12", "1.2 Lakes … 13", "And so on ...",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_pdf_that_swells_costs_itself_alone() -> None:
    packer = zlib.compressobj(9)
    bomb = generic.StreamObject()
    bomb._data = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(2500)) + packer.flush()
    bomb[generic.NameObject("/Filter")] = generic.NameObject("/FlateDecode")
    with pytest.raises(Unreadable, match="breaks its reader, or needs too much memory"):
        pdf_pages(written(pdf_of((bomb, lambda add: made()))))


def test_the_first_pages_of_many() -> None:
    assert pdf_pages(pdf(["One", "Two", "Three"], title="Rivers"), most=2) == Pages("Rivers", ["One", "Two"], [0, 0])


def broken(pages: list[str], *numbers: int) -> bytes:
    """A PDF in which nothing stands in the place of some pages."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(pdf(pages))))
    kids = writer.root_object["/Pages"]["/Kids"]
    for number in numbers:
        kids[number] = generic.NullObject()
    return written(writer)


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


TESSERACT = shutil.which("tesseract")
JPEG = b"\xff\xd8\xff\xe0 a picture"


def image(data: bytes, width: int, height: int, bits: int = 8, **more: str) -> generic.StreamObject:
    stream = generic.StreamObject()
    stream._data = data
    size = {"Width": width, "Height": height, "BitsPerComponent": bits}
    stream.update(made(Subtype="/Image", ColorSpace="/DeviceGray", **size, **more))
    return stream


def scan(*images: generic.StreamObject) -> bytes:
    """A PDF with an image a page and no text."""
    drawing = b"q 300 0 0 75 0 100 cm /Im0 Do Q"
    pages = ((stream(drawing), lambda add, each=each: made(XObject=made(Im0=add(each)))) for each in images)
    return written(pdf_of(*pages))


def read(content: bytes, around: Circumstances = PLAIN) -> Document:
    return files.read("a.pdf", content, around)


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


def test_the_pages_of_a_scan_are_read_in_order(programs: Path) -> None:
    install(programs, "tesseract", READS)
    pages = scan(image(bytes(100), 10, 10), image(bytes(20), 10, 10, 1))
    assert read(pages).text.splitlines() == ["page of 5035 -l eng", "", "page of 5035 -l eng"]
    assert "5035 -l jpn" in read(pages, Circumstances(language="ja")).text
    assert read(pages, Circumstances(language="de")).text.splitlines()[0].strip() == "page of 5035", "it has no German"


def test_a_page_is_drawn_whole_and_in_bounds(programs: Path) -> None:
    install(programs, "tesseract", f'[ "$1" = --list-langs ] || cp "$1" "{programs}/page.pgm"')
    with pytest.raises(Unreadable):
        read(scan(image(bytes(range(0, 200, 2)), 10, 10)))
    with Image.open(programs / "page.pgm") as drawn_page:
        assert (drawn_page.size, drawn_page.mode) == ((3000, 3000), "L")
        assert (drawn_page.getpixel((10, 10)), drawn_page.getpixel((50, 1300))) == (255, 0)


def mixed(*between: generic.StreamObject) -> bytes:
    """A PDF with a page of text before and after these pages of images."""
    writer = PdfWriter()
    for content in (pdf(["Before"]), scan(*between), pdf(["After"])):
        writer.append(BytesIO(content))
    return written(writer)


LARGE, SMALL = (image(JPEG, side, side, Filter="/DCTDecode") for side in (1000, 100))


def test_scanned_pages_between_others_are_read_where_they_stand(programs: Path) -> None:
    document = read(mixed(LARGE, SMALL))
    assert document.text == "Before\n\nAfter"
    assert document.partly == "1 page of 4 is a picture; install tesseract to have it read"
    assert read(mixed(LARGE, LARGE)).partly == "2 pages of 4 are pictures; install tesseract to have them read"
    many = mixed(*[LARGE] * (MOST_SCANNED + 1))
    assert read(many).partly == "501 pages of 503 are pictures; install tesseract to have them read"
    install(programs, "tesseract", READS)
    document = read(mixed(LARGE, SMALL))
    assert (document.text, document.partly) == ("Before\n\npage of 5035 -l eng\n\nAfter", "")


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
    assert read(pages).text.splitlines()[-1] == "page of 5035 -l eng"


def test_what_the_tick_raises_ends_a_slow_page_at_once(programs: Path) -> None:
    install(programs, "tesseract", f'[ "$1" = --list-langs ] || {{ echo $$ > "{programs}/pid"; exec sleep 50; }}')

    def tick(share: float = 0.0, /) -> None:
        if (programs / "pid").exists() and (programs / "pid").read_text().strip():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(scan(image(JPEG, 10, 10, Filter="/DCTDecode")), Circumstances(tick=tick))
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


def drawn(text: str) -> generic.StreamObject:
    """A text as a picture of a page."""
    page = Image.new("L", (1200, 300), 255)
    ImageDraw.Draw(page).text((60, 100), text, fill=0, font=ImageFont.load_default(size=64))
    return image(page.tobytes(), *page.size)


@pytest.mark.skipif(TESSERACT is None, reason="needs tesseract")
@pytest.mark.slow
def test_the_real_tesseract_reads_a_scan() -> None:
    assert "Danube is 2850 km" in read(scan(drawn("The Danube is 2850 km long."))).text


def field(left: int, name: str, kind: str, **more: generic.PdfObject | str | int) -> generic.DictionaryObject:
    """A field of a form that stands on the line of the page's text."""
    box = generic.ArrayObject(generic.FloatObject(each) for each in (left, 198, left + 12, 212))
    return made(Type="/Annot", Subtype="/Widget", FT=kind, T=generic.TextStringObject(name), Rect=box, **more)


def form(text: str, *fields: generic.DictionaryObject) -> PdfWriter:
    writer = PdfWriter(clone_from=BytesIO(pdf([text])))
    for looks in (each["/AP"] for each in fields if "/AP" in each):
        assert isinstance(looks, generic.DictionaryObject)
        shown = looks["/N"]
        if isinstance(shown, generic.StreamObject):
            looks[generic.NameObject("/N")] = writer._add_object(shown)
        elif isinstance(shown, generic.DictionaryObject):
            shown.update({name: writer._add_object(each) for name, each in shown.items()})
    kept = generic.ArrayObject(writer._add_object(each) for each in fields)
    writer.pages[0][generic.NameObject("/Annots")] = kept
    writer._root_object[generic.NameObject("/AcroForm")] = made(Fields=kept)
    return writer


def said(text: str) -> generic.TextStringObject:
    return generic.TextStringObject(text)


@pytest.mark.parametrize("with_appearance", [False, True])
def test_what_was_filled_into_a_form_is_read(with_appearance: bool) -> None:
    look = stream(b"/Tx BMC EMC")
    look.update(made(Subtype="/Form", BBox=generic.ArrayObject([generic.NumberObject(9)] * 4)))
    shown = {"AP": made(N=look)} if with_appearance else {}
    fields = (field(200, "skipper", "/Tx", V=said("Ada Ny"), **shown), field(280, "Text1", "/Tx", V=said("  ")))
    assert read(written(form("Skipper:", *fields))).text.split("\n")[1:] == ["Skipper: Ada Ny"]
    nameless = field(5, "Home port", "/Tx", V=said("Vik"))
    assert read(written(form("Berth", nameless))).text.endswith("Home port: Vik")


def test_boxes_are_ticked_or_not_and_named_by_the_words_beside_them() -> None:
    on, off = (made(N=made(Yes=stream(b""), Off=stream(b""))) for _ in range(2))
    ticks = (field(5, "b1", "/Btn", AS="/Yes", V="/Yes", AP=on), field(200, "b2", "/Btn", AS="/Off", V="/Off", AP=off))
    assert read(written(form("Diesel", *ticks))).text.split("\n")[1:] == ["Diesel: ticked", "Diesel: not ticked"]
    looks = (made(N=made(**{each: stream(b""), "Off": stream(b"")})) for each in ("Norway", "Malta"))
    choice = (
        field(5, "flag", "/Btn", Ff=1 << 15, AS="/Off", AP=next(looks)),
        field(9, "flag", "/Btn", Ff=1 << 15, AS="/Malta", V="/Malta", AP=next(looks)),
    )
    assert read(written(form(" ", *choice))).text.endswith("flag Malta: ticked")


def test_notes_of_a_pdf_are_read_and_attached_files_named() -> None:
    box = generic.ArrayObject(generic.FloatObject(each) for each in (9, 9, 20, 20))
    note = made(Type="/Annot", Subtype="/Text", Rect=box, Contents=said("Check the depth."))
    writer = form("The harbour.", note)
    assert read(written(writer)).text.endswith("Note: Check the depth.")
    writer.add_attachment("depths.csv", b"a,b")
    assert read(written(writer)).partly == "attached files were not read: depths.csv"


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_a_form_in_xml_is_read_with_what_was_filled_in(is_dynamic: bool) -> None:
    template = """<template xmlns="http://www.xfa.org/schema/xfa-template/3.3/"><subform>
        <draw><value><text>Berth request</text></value></draw>
        <field name="ship"><caption><value><text>Name of ship</text></value></caption></field>
        <field name="n"><caption><value><exData><p>Length <b>in m</b></p></exData></value></caption></field>
        <field name="n"/><field name="port"><value><text>Vik</text></value></field><field name="empty"/>
        </subform></template>"""
    datasets = """<xfa:datasets xmlns:xfa="http://www.xfa.org/schema/xfa-data/1.0/"><xfa:data><form>
        <ship>Nordlys &amp; IV</ship><n>112</n><n>18</n></form></xfa:data></xfa:datasets>"""
    writer = form("Please wait ...")
    packets = [("template", template), ("datasets", datasets)]
    listed = [part for name, xml in packets for part in (said(name), writer._add_object(stream(xml.encode())))]
    acro = writer._root_object["/AcroForm"]
    assert isinstance(acro, generic.DictionaryObject)
    acro[generic.NameObject("/XFA")] = generic.ArrayObject(listed)
    if is_dynamic:
        writer._root_object[generic.NameObject("/NeedsRendering")] = generic.BooleanObject(True)
    assert read(written(writer)).text.split("\n")[1:] == [
        "Berth request", "Name of ship: Nordlys & IV", "Length in m: 112", "n: 18", "port: Vik",
    ]  # fmt: skip

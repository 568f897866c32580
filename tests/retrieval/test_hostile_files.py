"""Files that are built to do harm, or cut and changed on their way: Unreadable, within bounds of time and memory."""

import contextlib
import json
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.errors import DataError
from reground.retrieval.documents import FORMATS, SourceFile, read_documents
from reground.retrieval.encodings import Unreadable, text_encoding
from reground.retrieval.reading import archive
from reground.retrieval.reading.mail import read_mail
from reground.retrieval.reading.result import MOST_TEXT, PLAIN, Circumstances, Table, Text
from reground.retrieval.reading.text import read_json
from tests.retrieval import files
from tests.retrieval.corpora import write
from tests.retrieval.files import pdf, read

BOMB = (
    '<!DOCTYPE d [<!ENTITY a "aaaaaaaaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 16}">' for n in range(9))
    + "]>"
)


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(content)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


GOOD = {
    "a.docx": files.docx(files.paragraph("Danube") + files.table(("a", "b"))),
    "a.pptx": files.pptx([("Danube", "long")], notes="n"),
    "a.xlsx": files.xlsx({"S": '<row><c r="A1" t="s"><v>0</v></c><c r="B1"><f>1+1</f><v>2</v></c></row>'}, ["Danube"]),
    "a.odt": files.open_document("<office:text><text:p>Danube</text:p></office:text>"),
    "a.ods": files.open_document(
        "<office:spreadsheet><table:table><table:table-row><table:table-cell><text:p>Danube</text:p></table:table-cell>"
        "</table:table-row></table:table></office:spreadsheet>"
    ),
    "a.epub": files.epub({"a": "<html><body><p>Danube</p></body></html>"}),
    "a.eml": files.mail("River", "Danube", html="<p>long</p>", attached="x.pdf"),
    "a.mbox": files.mbox(files.mail("River", "Danube", id_="1@x"), files.mail("Seine", "two")),
    "a.csv": b"river,km\nDanube,2850\n",
    "a.json": b'{"river": "Danube", "km": [1, {"a": null}]}',
    "a.ipynb": files.notebook(("markdown", "# Danube"), ("code", "x = 1")).encode(),
    "a.pdf": pdf(["Danube"]),
    "a.html": b"<html><title>x</title><body><p>Danube</p></body></html>",
    "a.md": b"---\ntitle: x\n---\n# Danube\n",
    "a.py": b"danube = 2850\n",
    "a.xml": b"<?xml version='1.0' encoding='latin-1'?><a>Danube</a>",
    "a.jsonl": b'{"id": "1", "text": "Danube"}\n',
}
XML_PARTS = {
    "a.docx": "word/document.xml", "a.pptx": "ppt/slides/slide1.xml", "a.xlsx": "xl/worksheets/sheet0.xml",
    "a.odt": "content.xml", "a.epub": "OEBPS/b.opf",
}  # fmt: skip


def attempt(name: str, content: bytes, folder: Path) -> str:
    """What a file gives, or why it gives nothing. Anything else that is raised is a fault."""
    path = folder / name
    path.write_bytes(content)
    try:
        return " ".join(document.text for document in read_documents(SourceFile(path, name, len(content), 0)))
    except DataError as error:
        return f"refused: {error}"


@pytest.mark.parametrize("name", GOOD)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_reader_raises_anything_but_what_it_promises(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(GOOD[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(
            st.one_of(st.binary(max_size=8), st.sampled_from([b"\0" * 64, b"<", b'"', b"\xff\xfe", b"&x;"]))
        )
        content[at : at + data.draw(st.integers(0, 16))] = piece
        content = content or bytearray(b"x")
    attempt(name, bytes(content), tmp_path_factory.mktemp("spoiled"))


@pytest.mark.parametrize("name", XML_PARTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_reader_of_an_archive_trips_over_its_parts(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    parts = members(GOOD[name])
    part = data.draw(st.sampled_from(sorted(parts)))
    content = bytearray(parts[part])
    at = data.draw(st.integers(0, len(content) - 1))
    content[at : at + data.draw(st.integers(0, 30))] = data.draw(st.one_of(st.binary(max_size=30), st.just(b'="-9"')))
    attempt(name, files.zipped(parts | {part: bytes(content)}), tmp_path_factory.mktemp("spoiled"))


@pytest.mark.parametrize("name", [name for name in GOOD if GOOD[name].startswith(b"PK")])
def test_an_archive_that_is_cut_is_damaged(name: str) -> None:
    for size in (4, len(GOOD[name]) // 2, len(GOOD[name]) - 10):
        with pytest.raises(Unreadable, match="is damaged: ") as raised:
            read(name, GOOD[name][:size])
        assert raised.value.kind == "damaged"


@pytest.mark.parametrize("name", XML_PARTS)
def test_a_file_that_declares_entities_is_refused(name: str) -> None:
    parts = members(GOOD[name])
    for said in (b"&j;", b""):
        content = BOMB.encode() + parts[XML_PARTS[name]].replace(b"Danube", said)
        with pytest.raises(Unreadable, match="declares entities"):
            read(name, files.zipped(parts | {XML_PARTS[name]: content}))


def test_an_entity_of_a_file_outside_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"secret.txt": "the secret"})
    head = f'<!DOCTYPE d [<!ENTITY x SYSTEM "{(tmp_path / "secret.txt").as_uri()}">]>'
    parts = members(GOOD["a.docx"])
    content = head.encode() + parts["word/document.xml"].replace(b"Danube", b"&x;")
    with pytest.raises(Unreadable, match="declares entities"):
        read("a.docx", files.zipped(parts | {"word/document.xml": content}))
    page = f"{head}<html><body><p>&x; visible</p></body></html>"
    for name, book in (("a.epub", files.epub({"a": page})), ("a.html", page.encode()), ("a.xhtml", page.encode())):
        assert "the secret" not in read(name, book).text


def test_an_element_of_countless_attributes_is_refused_before_what_is_in_it() -> None:
    for count in (1000, 1001):
        given = " ".join(f'a{n}="1"' for n in range(count))
        texts = {
            "a.docx": files.docx(f"<w:x {given}>{files.paragraph('Danube')}</w:x>"),
            "a.odt": files.open_document(f"<office:text {given}><text:p>Danube</text:p></office:text>"),
            "a.epub": files.epub({"a": f"<html><body {given}>Danube</body></html>"}),
        }
        for name, content in texts.items():
            if count == 1000:
                assert "Danube" in read(name, content).text
            else:
                with pytest.raises(Unreadable, match="more than 1,000 attributes"):
                    read(name, content)


COUNT = 20_000


def of_styles() -> bytes:
    """A document of many styles, each based on the same large one."""
    based = "".join(f'<w:style w:styleId="s{n}"><w:basedOn w:val="all"/></w:style>' for n in range(COUNT))
    large = f'<w:style w:styleId="all">{"<w:x/>" * COUNT}</w:style>'
    body = "".join(files.paragraph("Danube", f"s{n}") for n in range(COUNT))
    return files.docx(body, word__styles_xml=f'<w:styles xmlns:w="w">{large}{based}</w:styles>')


def of_links() -> bytes:
    """A document with many links behind a text of many pieces."""
    link = "".join(f'<w:fldChar w:fldCharType="{kind}"/>' for kind in ("begin", "end"))
    link = link.replace("/><", '/><w:instrText>HYPERLINK "http://a.b"</w:instrText><')
    return files.docx(f"<w:p><w:r>{'<w:t>Danube</w:t>' * COUNT}</w:r><w:r>{link * COUNT}</w:r></w:p>")


def of_merged_cells() -> bytes:
    """A sheet of many rows of the same number, in which many cells begin."""
    rows, cells = '<row r="1"><c><v>1</v></c></row>' * COUNT, '<mergeCell ref="A1:C5"/>' * COUNT
    return files.xlsx({"S": f"{rows}</sheetData><mergeCells>{cells}</mergeCells><sheetData>"})


def of_one_sheet() -> bytes:
    """A sheet that many names stand for."""
    parts = members(files.xlsx({"S": '<row r="1"><c><v>1</v></c></row>' * 1000}))
    named = b'<sheet name="S" r:id="r0"/>' * COUNT
    return files.zipped(
        {**parts, "xl/workbook.xml": parts["xl/workbook.xml"].replace(b"</sheets>", named + b"</sheets>")}
    )


def of_runs() -> bytes:
    """A run of many properties and many texts in a font of signs."""
    run = f"<w:rPr>{'<w:x/>' * COUNT}</w:rPr>" + "<w:t>\uf041</w:t>" * COUNT
    return files.docx(f"<w:p><w:r>{run}</w:r></w:p>")


def of_deep_levels() -> bytes:
    """A style of lists whose numbers have a hundred million places each."""
    level = '<text:list-level-style-number text:level="99999999" text:display-levels="99999999"/>'
    style = f'<text:list-style style:name="L">{level * 20}</text:list-style>'
    return files.open_document(f"<office:text>{style}<text:p>Danube</text:p></office:text>")


def of_page() -> bytes:
    """A page of cells over many rows, raised numbers, items and signs that another element hides."""
    cell, hidden = "<td rowspan=999 colspan=99>a<td>b<sup>1</sup>", "<b>a<i aria-hidden=true>a</i></b>"
    return f"<table><ol reversed>{f'<tr>{cell}<li>{hidden}' * (COUNT // 10)}".encode()


def of_one_row() -> bytes:
    """A row of a table with a large branch, which is let go whole."""
    pieces = '<w:pStyle w:val="1"/><w:rPr><w:x w:val="1"/></w:rPr>' * 3 * COUNT
    return files.docx(f"{files.paragraph('Danube')}<w:tr><w:p>{pieces}</w:p></w:tr>")


ASKED_AGAIN = {
    "row.docx": of_one_row,
    "page.html": of_page,
    "levels.odt": of_deep_levels,
    "styles.docx": of_styles,
    "links.docx": of_links,
    "fonts.docx": of_runs,
    "merged.xlsx": of_merged_cells,
    "named.xlsx": of_one_sheet,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ASKED_AGAIN)
def test_what_is_asked_for_again_and_again_takes_no_square(name: str) -> None:
    """Each takes about a second; a minute, where each look goes through all."""
    assert read(name, ASKED_AGAIN[name]()).text


def test_a_part_that_countless_references_name_is_refused() -> None:
    parts = members(files.docx(files.paragraph("Danube"))) | {"word/a.html": b"<p>Rhine</p>" * 1000}
    listed = {count: {f"r{n}": ("aFChunk", "a.html") for n in range(count)} for count in (20, 2000)}
    books = {
        count: files.zipped({**parts, "word/_rels/document.xml.rels": files.relations(**each)})
        for count, each in listed.items()
    }
    assert "Rhine" in read("a.docx", books[20]).text
    with pytest.raises(Unreadable, match="unpacks to more"):
        read("a.docx", books[2000])


def test_rows_that_wait_for_names_of_columns_are_bounded() -> None:
    table = Table(Text())
    assert any(table.lines(["Danube", *[""] * 499]) for _ in range(3000))


def test_a_zip_bomb_is_refused_before_it_is_unpacked() -> None:
    parts = members(GOOD["a.docx"])
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bomb:
        with bomb.open("word/document.xml", "w", force_zip64=True) as part:
            for _ in range((archive.MOST_UNPACKED >> 20) + 1):
                part.write(b" " * (1 << 20))
        bomb.writestr("word/styles.xml", parts["word/styles.xml"])
    assert len(out.getvalue()) < 3 << 20
    with pytest.raises(Unreadable, match="unpacks to more than 256 MB") as raised:
        read("a.docx", out.getvalue())
    assert raised.value.kind == "large"


@pytest.mark.slow
def test_the_limit_of_unpacking_is_one_for_all_parts() -> None:
    chapters = {f"c{n}": " " * (30 << 20) for n in range(10)}
    with pytest.raises(Unreadable, match="unpacks to more than 256 MB"):
        read("a.epub", files.epub(chapters))


def test_an_archive_of_countless_members_is_refused() -> None:
    with pytest.raises(Unreadable, match="more than 20000 members"):
        read("a.docx", files.zipped({str(n): "" for n in range(archive.MOST_MEMBERS + 1)}))


@pytest.mark.slow
def test_countless_elements_are_not_gathered() -> None:
    body = "<w:tbl/>" * (archive.MOST_HELD + 1)
    with pytest.raises(Unreadable, match="elements of XML at once"):
        read("a.docx", files.docx(body))


CHILD = """
import json, resource, sys
from pathlib import Path
from reground.retrieval.index import build_index
from reground.core.errors import DataError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    report = build_index(Path(sys.argv[1]), Path(sys.argv[2]))
    said = [[each.path, each.why] for each in report.skipped]
except DataError as error:
    said = str(error)
print(json.dumps([said, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024]))
"""


def indexed(folder: Path) -> tuple[list[list[str]] | str, int]:
    """What a build says in a process of its own, and how many MB its memory grew by."""
    command = [sys.executable, "-c", CHILD, str(folder / "docs"), str(folder / "idx")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    said, grown = json.loads(done.stdout)
    return said, grown


def line(path: Path, size: int, head: bytes = b"") -> None:
    """A file of one long line. It holds the letter x, so that it is text."""
    with path.open("wb") as file:
        file.write(head)
        for _ in range(size >> 20):
            file.write(b"x" * (1 << 20))


@pytest.mark.slow
def test_a_line_of_300_mb_is_left_out_within_bounds_of_memory(tmp_path: Path) -> None:
    write(tmp_path, {"docs/a.md": "# Danube\n\nLong."})
    docs = tmp_path / "docs"
    line(docs / "line.txt", 300 << 20)
    with (docs / "sparse.txt").open("wb") as file:
        file.truncate(300 << 20)
    line(docs / "mail.mbox", 300 << 20, b"From a@b Mon Jan  1 00:00:00 2024\nSubject: Long\n\nbegin ")
    line(docs / "html.html", 40 << 20)
    line(docs / "table.csv", 60 << 20, b'a,b\n"')
    said, grown = indexed(tmp_path)
    assert [path for path, _ in said] == ["html.html", "line.txt", "sparse.txt"]
    assert grown < 700, "the table of 60 MB is a text and is read; nothing of 300 MB is held"


@pytest.mark.slow
def test_a_line_of_300_mb_in_a_jsonl_corpus_is_named_within_bounds_of_memory(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    line(tmp_path / "docs" / "c.jsonl", 300 << 20, b'{"id": "1", "text": "x"}\n{"id": "2", "text": "')
    said, grown = indexed(tmp_path)
    assert "c.jsonl:2: a line of more than 64 MB" in said
    assert grown < 300


def test_every_suffix_has_a_reader_that_refuses_or_reads_noise() -> None:
    noise = bytes(range(256)) * 20
    for suffix in [suffix for each in FORMATS if each.most is not None for suffix in each.suffixes]:
        with contextlib.suppress(Unreadable):
            read(f"a{suffix}", noise)
            assert suffix in (".html", ".htm", ".xhtml", ".eml"), suffix


KEY = "k" * 200


def test_of_data_beyond_the_limit_its_beginning_is_kept() -> None:
    """One top-level item, of two megabytes, whose lines repeat a long key."""
    ticks: list[float] = []
    content = f'{{"{KEY}": [{", ".join(["[]"] * 600_000)}, {{}}]}}'.encode()
    read = read_json(content, Circumstances(lambda share=0.0, /: ticks.append(share)))
    assert len(read.text) == MOST_TEXT
    assert read.partly == "only its first 100 million characters were read"
    assert len(ticks) > 400


def test_a_path_of_keys_is_cut_altogether() -> None:
    text = read_json(json.dumps({KEY: {KEY: {"city": "Vienna", "river": ["Danube"]}}}).encode(), PLAIN).text
    assert text == f"{KEY}; city: Vienna; river: Danube"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("ISO-8859-1", "cp1252"), ("gb2312", "gb18030"), ("utf-8", "utf-8"), ("utf-16", "utf-16"), ("koi8-r", "koi8-r"),
        ("punycode", ""), ("idna", ""), ("utf-7", ""), ("zlib", ""), ("unicode_escape", ""), ("rot13", ""),
        ("a\0b", ""), ("", ""), ("ä", ""), ("x" * 100_000, ""),
    ],
)  # fmt: skip
def test_encodings_of_texts(name: str, known: str) -> None:
    assert text_encoding(name) == known


@pytest.mark.parametrize(
    "boundary", ['boundary="b%d"', 'boundary ="b%d"', "boundary*=us-ascii''b%d", "boundary*0=b%d", 'BOUNDARY\t= "b%d"']
)
def test_parts_nested_without_end_are_refused_however_they_are_written(boundary: str) -> None:
    heads = [f"Content-Type: multipart/mixed; {boundary % n}\n\n--b{n}\n" for n in range(70)]
    with pytest.raises(Unreadable, match="more than 64 nested parts"):
        read_mail(("Subject: x\n" + "".join(heads) + "Content-Type: text/plain\n\na\n").encode(), PLAIN)


@pytest.mark.parametrize("part", ["\n--b\n\na", "\r--b\r\ra", "\r\n--b\r\n\r\na"])
def test_parts_without_end_are_refused_however_their_lines_end(part: str) -> None:
    mail = "Subject: x\nContent-Type: multipart/mixed; boundary=b\n" + part * 20_001
    with pytest.raises(Unreadable, match="more than 20000 parts"):
        read_mail(mail.encode(), PLAIN)

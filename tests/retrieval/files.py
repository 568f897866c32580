"""Small real files of many formats, made by hand."""

import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from pypdf import PdfWriter, generic

from reground.retrieval.documents import Document, SourceFile, read_file
from reground.retrieval.reading.result import PLAIN, Circumstances

_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "http://schemas.openxmlformats.org/{}/2006/main"


def read(name: str, content: str | bytes, around: Circumstances = PLAIN) -> Document:
    """The document that a file of this name and content holds."""
    data = content.encode() if isinstance(content, str) else content
    return read_file(SourceFile(Path(name), name, len(data), 0), data, around)


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # without the time of day
    return out.getvalue()


def relations(**targets: tuple[str, str]) -> str:
    """The file of a part's relations: id, kind, target."""
    each = "".join(
        f'<Relationship Id="{id_}" Type="{_RELATIONS}/{kind}" Target="{target}"/>'
        for id_, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{each}</Relationships>'


def word_part(body: str, root: str = "document", before: str = "") -> str:
    return f'{before}<w:{root} xmlns:w="{_MAIN.format("wordprocessingml")}"><w:body>{body}</w:body></w:{root}>'


def paragraph(text: str, style: str = "") -> str:
    style = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{style}<w:r><w:t>{escape(text)}</w:t></w:r></w:p>"


def table(*rows: Sequence[str]) -> str:
    said = "".join(f"<w:tr>{''.join(f'<w:tc>{paragraph(cell)}</w:tc>' for cell in row)}</w:tr>" for row in rows)
    return f"<w:tbl>{said}</w:tbl>"


STYLES = (
    f'<w:styles xmlns:w="{_MAIN.format("wordprocessingml")}"><w:style w:styleId="berschrift1">'
    '<w:name w:val="heading 1"/></w:style><w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>'
    "</w:styles>"
)


def _name(name: str) -> str:
    """The member that an argument names: word__styles_xml, word__rels__document_xml_rels."""
    return re.sub(r"_(xml|rels)", r".\1", name.replace("__rels__", "/!rels/").replace("__", "/")).replace("!", "_")


def docx(body: str, **more: str | bytes) -> bytes:
    parts = {_name(name): content for name, content in more.items()}
    return zipped({"word/document.xml": word_part(body), "word/styles.xml": STYLES, **parts})


def pptx(slides: Sequence[Sequence[str]], notes: str = "", more: str = "", **parts: str) -> bytes:
    """A show whose files are numbered against its order. more: XML on its first slide. parts: by their names."""
    main = f'xmlns:p="{_MAIN.format("presentationml")}" xmlns:r="{_RELATIONS}"'
    drawing = f'xmlns:a="{_MAIN.format("drawingml")}"'
    members: dict[str, str | bytes] = {_name(name): content for name, content in parts.items()}
    count = len(slides)
    for place, lines in enumerate(slides):
        said = "".join(f"<a:p><a:r><a:t>{escape(line)}</a:t></a:r></a:p>" for line in lines)
        said += "" if place else more
        field = '<a:p><a:fld type="slidenum"><a:t>77</a:t></a:fld></a:p>'
        members[f"ppt/slides/slide{count - place}.xml"] = f"<p:sld {main} {drawing}>{said}{field}</p:sld>"
    if notes:
        members["ppt/notesSlides/n.xml"] = (
            f"<p:notes {main} {drawing}><a:p><a:r><a:t>{notes}</a:t></a:r></a:p></p:notes>"
        )
        members[f"ppt/slides/_rels/slide{count}.xml.rels"] = relations(r1=("notesSlide", "../notesSlides/n.xml"))
    ids = "".join(f'<p:sldId id="{place}" r:id="r{place}"/>' for place in range(count))
    members["ppt/presentation.xml"] = f"<p:presentation {main}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>"
    targets = {f"r{place}": ("slide", f"slides/slide{count - place}.xml") for place in range(count)}
    members["ppt/_rels/presentation.xml.rels"] = relations(**targets)
    return zipped(members)


def xlsx(sheets: Mapping[str, str], strings: Sequence[str] = (), formats: str = "") -> bytes:
    """A workbook of sheets, each given as the XML of its rows. Style 1 is a date, style 2 the format `formats`."""
    main = f'xmlns="{_MAIN.format("spreadsheetml")}" xmlns:r="{_RELATIONS}"'
    listed = "".join(f'<sheet name="{escape(name)}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(sheets))
    shared = "".join(f"<si><t>{escape(string)}</t></si>" for string in strings)
    members: dict[str, str | bytes] = {
        "xl/workbook.xml": f"<workbook {main}><sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": relations(
            **{f"r{n}": ("worksheet", f"worksheets/sheet{n}.xml") for n in range(len(sheets))}
        ),
        "xl/sharedStrings.xml": f"<sst {main}>{shared}</sst>",
        "xl/styles.xml": f"<styleSheet {main}><numFmts>"
        f'<numFmt numFmtId="170" formatCode={quoteattr(formats)}/></numFmts>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/></cellXfs></styleSheet>',
    }
    for n, rows in enumerate(sheets.values()):
        members[f"xl/worksheets/sheet{n}.xml"] = f"<worksheet {main}><sheetData>{rows}</sheetData></worksheet>"
    return zipped(members)


def open_document(body: str, *, title: str = "", encrypted: bool = False) -> bytes:
    spaces = (
        " ".join(
            f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"'
            for short in ("office", "text", "table", "presentation", "style")
        )
        + ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    )
    lock = '<m:encryption-data xmlns:m="urn:m"/>' if encrypted else ""
    return zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<office:document-content {spaces}><office:body>{body}</office:body>"
            "</office:document-content>",
            "meta.xml": f'<meta xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></meta>',
            "META-INF/manifest.xml": f"<manifest>{lock}</manifest>",
        }
    )


def epub(chapters: Mapping[str, str], *, title: str = "", locked: Sequence[str] = ()) -> bytes:
    """A book whose spine has the chapters in this order and whose manifest has them in another."""
    items = "".join(
        f'<item id="{name}" href="{name}%20x.xhtml" media-type="application/xhtml+xml"/>' for name in sorted(chapters)
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    members: dict[str, str | bytes] = {
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OEBPS/b.opf"/></rootfiles></container>',
        "OEBPS/b.opf": f'<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>{title}</dc:title>'
        f"</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>",
    }
    if locked:
        refs = "".join(f'<CipherReference URI="OEBPS/{name}%20x.xhtml"/>' for name in locked)
        members["META-INF/encryption.xml"] = f"<encryption>{refs}</encryption>"
    return zipped(members | {f"OEBPS/{name} x.xhtml": content for name, content in chapters.items()})


def mail(
    subject: str, text: str, *, id_: str = "", html: str = "", attached: str = "", charset: str = "utf-8"
) -> bytes:
    message = EmailMessage()
    message["From"] = "Ada <ada@example.org>"
    message["To"] = "Bob <bob@example.org>"
    message["Subject"] = subject
    if id_:
        message["Message-ID"] = f"<{id_}>"
    if text:
        message.set_content(text, charset=charset)
    if html:
        (message.add_alternative if text else message.set_content)(html, subtype="html")
    if attached:
        message.add_attachment(b"\0secret bytes", maintype="application", subtype="pdf", filename=attached)
    return message.as_bytes()


def mbox(*messages: bytes) -> bytes:
    return b"".join(b"From ada@example.org Mon Jan  1 00:00:00 2024\n" + each.rstrip() + b"\n\n" for each in messages)


def notebook(*cells: tuple[str, str]) -> str:
    return json.dumps(
        {
            "nbformat": 4,
            "cells": [
                {"cell_type": kind, "source": source.splitlines(keepends=True), "outputs": [{"text": "printed words"}]}
                for kind, source in cells
            ],
        }
    )


def made(**entries: generic.PdfObject | str | int) -> generic.DictionaryObject:
    """A dictionary of a PDF, whose texts are names."""
    kinds = {str: generic.NameObject, int: generic.NumberObject}
    return generic.DictionaryObject(
        {generic.NameObject(f"/{key}"): kinds.get(type(of), lambda of: of)(of) for key, of in entries.items()}
    )


def stream(data: bytes) -> generic.DecodedStreamObject:
    of = generic.DecodedStreamObject()
    of.set_data(data)
    return of


def written(writer: PdfWriter) -> bytes:
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def pdf_of(
    *pages: tuple[
        generic.StreamObject, Callable[[Callable[[generic.PdfObject], generic.PdfObject]], generic.DictionaryObject]
    ],
) -> PdfWriter:
    """A PDF of drawings, each with what makes its resources with a function that takes in streams."""
    writer = PdfWriter()
    for drawing, resources in pages:
        page = writer.add_blank_page(300, 300)
        page[generic.NameObject("/Contents")] = writer._add_object(drawing)
        page[generic.NameObject("/Resources")] = resources(writer._add_object)
    return writer


def pdf(pages: Sequence[str], title: str = "", password: str = "") -> bytes:
    """A PDF made by hand with one line a page."""
    font = made(F1=made(Type="/Font", Subtype="/Type1", BaseFont="/Helvetica"))
    drawings = (stream(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode()) for text in pages)
    writer = pdf_of(*((drawing, lambda add: made(Font=font)) for drawing in drawings))
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    return written(writer)

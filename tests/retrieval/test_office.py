"""Word, PowerPoint, Excel, OpenDocument and EPUB."""

import re
import zipfile
from collections.abc import Callable
from io import BytesIO

import pytest

from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading.numbering import numeral
from tests.retrieval import files
from tests.retrieval.files import read


def test_word_gives_headings_paragraphs_and_rows() -> None:
    body = (
        files.paragraph("Rivers", "berschrift1") + files.paragraph("The Danube <is> long.") + files.paragraph("  ")
        + files.paragraph("Lengths", "berschrift2") + files.table(("River", "km"), ("Danube", "2850"))
    )  # fmt: skip
    document = read("a/report.docx", files.docx(body))
    assert document.text == "# Rivers\n\nThe Danube <is> long.\n\n## Lengths\n\nRiver | km\n\nRiver: Danube; km: 2850"
    assert (document.title, document.id, document.url) == ("Rivers", "a/report.docx", "a/report.docx")


def test_word_keeps_what_stands_and_not_what_was_struck_out() -> None:
    old = "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
    box = "<w:p><w:r><w:t>Before</w:t><w:br/><w:t>after</w:t><w:tab/><w:t>tab</w:t></w:r>" + old
    box += f"<mc:AlternateContent xmlns:mc='urn:mc'><mc:Choice>{files.paragraph('In a box')}</mc:Choice>"
    box += f"<mc:Fallback>{files.paragraph('In a box')}</mc:Fallback></mc:AlternateContent></w:p>"
    notes = files.word_part(files.paragraph("A footnote."), "footnotes")
    document = read("a.docx", files.docx(box, word__footnotes_xml=notes))
    assert document.text == "Before\nafter\ttab\nIn a box\n\nA footnote."
    assert document.title == "a"


def test_every_table_of_word_has_columns_of_its_own() -> None:
    first, second = files.table(("River", "km"), ("Danube", "2850")), files.table(("a" * 200, "b"), ("c", "d"))
    document = read("a.docx", files.docx(first + files.table(("Peak", "m"), ("Elbrus", "5642")) + second))
    assert document.text.split("\n\n") == [
        "River | km", "River: Danube; km: 2850", "Peak | m", "Peak: Elbrus; m: 5642", f"{'a' * 200}; b", "c; d",
    ]  # fmt: skip


def test_word_keeps_cells_and_rows_that_stand_in_content_controls() -> None:
    def control(inner: str) -> str:
        return f"<w:sdt><w:sdtPr/><w:sdtContent>{inner}</w:sdtContent></w:sdt>"

    cells = [f"<w:tc>{files.paragraph(text)}</w:tc>" for text in ("Name", "City", "Ada", "London", "Bob", "Vienna")]
    rows = f"<w:tr>{cells[0]}{cells[1]}</w:tr><w:tr>{cells[2]}{control(cells[3])}</w:tr>"
    rows += control(f"<w:tr>{cells[4]}{cells[5]}</w:tr>")
    document = read("form.docx", files.docx(f"<w:tbl>{rows}</w:tbl>"))
    assert document.text == "Name | City\n\nName: Ada; City: London\n\nName: Bob; City: Vienna"


def test_a_cell_of_word_over_two_columns_leaves_the_next_in_theirs() -> None:
    def cell(text: str, columns: str = "") -> str:
        span = f'<w:tcPr><w:gridSpan w:val="{columns}"/></w:tcPr>' if columns else ""
        return f"<w:tc>{span}{files.paragraph(text)}</w:tc>"

    names, ada = [cell("Name"), cell("Spring", "2"), cell("Sum", "x")], [cell("Ada"), cell("1"), cell("2"), cell("3")]
    rows = "".join(f"<w:tr>{''.join(row)}</w:tr>" for row in (names, ada, [cell("Both", "3"), cell("6", "0")]))
    document = read("a.docx", files.docx(f"<w:tbl>{rows}</w:tbl>"))
    assert document.text == "Name | Spring | Sum\n\nName: Ada; Spring: 1; 2; Sum: 3\n\nName: Both; Sum: 6"


def run(text: str, shift: str = "") -> str:
    properties = f'<w:rPr><w:vertAlign w:val="{shift}script"/></w:rPr>' if shift else ""
    return f"<w:r>{properties}<w:t>{text}</w:t></w:r>"


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([run("A load of 3 x 10"), run("-", "super"), run("9", "super"), run(" g")], "A load of 3 x 10^-9 g"),
        ([run("In 1931"), run("2 ", "super"), run("and (2"), run("n+1", "super"), run(")")], "In 1931^2 and (2^(n+1))"),
        ([run("CO"), run("2", "sub"), run(" of x"), run("i", "sub")], "CO2 of xi"),
        ([run("On the 21"), run("st", "super"), run(" of May")], "On the 21st of May"),
        ([run("2", "super"), run(" See above.")], "2 See above."),
    ],
)
def test_raised_and_lowered_text_stays_apart(runs: list[str], text: str) -> None:
    assert read("a.docx", files.docx(f"<w:p>{''.join(runs)}</w:p>")).text == text


def test_raised_text_of_slides_sheets_and_open_documents() -> None:
    drawn = (
        '<a:p><a:r><a:t>Up to 10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>7</a:t></a:r><a:r><a:t> H</a:t></a:r>'
    )
    drawn += '<a:r><a:rPr baseline="-25000"/><a:t>2</a:t></a:r></a:p>'
    assert read("a.pptx", files.pptx([()], more=drawn)).text == "Slide 1\nUp to 10^7 H2"
    power = '<r><rPr><vertAlign val="superscript"/></rPr><t>7</t></r>'
    rows = f'<row><c r="A1" t="inlineStr"><is><r><t>Up to 10</t></r>{power}<r><t> H</t></r></is></c></row>'
    assert read("a.xlsx", files.xlsx({"S": rows})).text == "# S\n\nUp to 10^7 H"
    style = "<style:style style:name='T{}'><style:text-properties style:text-position='{} 58%'/></style:style>"
    styles = "".join(style.format(*each) for each in enumerate(("super", "sub", "33%", "-33%", "0%")))
    spans = "".join(f"x<text:span text:style-name='T{number}'>4</text:span> " for number in range(5))
    note = (
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>See B.</text:p></text:note-body>"
    )
    body = f"<text:p>{spans}1931{note}</text:note>.</text:p>"
    body = f"<office:styles>{styles}</office:styles><office:text>{body}</office:text>"
    assert read("a.odt", files.open_document(body)).text == "x^4 x4 x^4 x4 x4 1931[1] (See B.)."


def test_a_style_is_a_heading_by_its_outline_or_by_the_one_that_it_is_based_on() -> None:
    style = '<w:style w:styleId="{}"><w:basedOn w:val="{}"/>{}</w:style>'
    outline = '<w:pPr><w:outlineLvl w:val="{}"/></w:pPr>'
    own = [("Clause", "berschrift2", ""), ("Part", "Clause", ""), ("Annex", "Normal", outline.format(2)),
           ("Body", "berschrift1", outline.format(9)), ("Loop", "Loop", "")]  # fmt: skip
    listed = files.STYLES.replace("</w:styles>", "".join(style.format(*each) for each in own) + "</w:styles>")
    body = "".join(files.paragraph(name, name) for name, *_ in own)
    text = read("a.docx", files.docx(body, word__styles_xml=listed)).text
    assert text.split("\n\n") == ["## Clause", "## Part", "### Annex", "Body", "Loop"]


def test_a_style_that_raises_is_known() -> None:
    style = '<w:style w:styleId="Power"><w:rPr><w:vertAlign w:val="superscript"/></w:rPr></w:style>'
    styles = files.STYLES.replace("</w:styles>", f"{style}</w:styles>")
    power = '<w:r><w:rPr><w:rStyle w:val="Power"/></w:rPr><w:t>64</w:t></w:r>'
    assert read("a.docx", files.docx(f"<w:p>{run('2')}{power}</w:p>", word__styles_xml=styles)).text == "2^64"


def math(inner: str) -> str:
    inner = re.sub(r"\{(.*?)\}", r"<m:r><m:t>\1</m:t></m:r>", inner)
    return f'<w:p xmlns:m="urn:m">{run("Take ")}<m:oMath>{inner}</m:oMath>{run(" metres.")}</w:p>'


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ("<m:f><m:num>{7}</m:num><m:den>{16}</m:den></m:f>", "7/16"),
        ("<m:f><m:num>{a+b}</m:num><m:den>{2c}</m:den></m:f>", "(a+b)/2c"),
        ("<m:sSup><m:e>{x-1}</m:e><m:sup>{3}</m:sup></m:sSup>", "(x-1)^3"),
        ("<m:sSubSup><m:e>{v}</m:e><m:sub>{10}</m:sub><m:sup>{2}</m:sup></m:sSubSup>", "v_10^2"),
        ("<m:rad><m:radPr><m:degHide m:val='1'/></m:radPr><m:deg/><m:e>{16}</m:e></m:rad>", "√16"),
        ("<m:rad><m:deg>{3}</m:deg><m:e>{a+b}</m:e></m:rad>", "³√(a+b)"),
        ("<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>{i=1}</m:sub><m:sup>{n}</m:sup><m:e>{i}</m:e></m:nary>",
         "∑_(i=1)^n i"),
        ("<m:d><m:dPr><m:begChr m:val='['/><m:endChr m:val=']'/></m:dPr><m:e>{a}</m:e><m:e>{b}</m:e></m:d>", "[a|b]"),
        ("<m:m><m:mr><m:e>{1}</m:e><m:e>{0}</m:e></m:mr><m:mr><m:e>{2}</m:e></m:mr></m:m>", "[1, 0; 2]"),
        ("<m:func><m:fName>{sin}</m:fName><m:e>{2x}</m:e></m:func>", "sin 2x"),
    ],
)  # fmt: skip
def test_equations_keep_their_parts_apart(inner: str, said: str) -> None:
    assert read("a.docx", files.docx(math(inner))).text == f"Take {said} metres."


def numbered(text: str, level: int | None = None, list_: int | None = None, style: str = "") -> str:
    """A paragraph with a number of its own or of its style."""
    style = f'<w:pStyle w:val="{style}"/>' if style else ""
    own = f'<w:ilvl w:val="{level}"/>' if level is not None else ""
    own += f'<w:numId w:val="{list_}"/>' if list_ is not None else ""
    return f"<w:p><w:pPr>{style}<w:numPr>{own}</w:numPr></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def numbering(*levels: tuple[str, str, str], nums: str = "") -> str:
    """The part of numbers: one list, each level as format, text and more."""
    made = "".join(
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{format_}"/><w:lvlText w:val="{text}"/>'
        f"{more}</w:lvl>"
        for at, (format_, text, more) in enumerate(levels)
    )
    said = f'<w:abstractNum w:abstractNumId="7">{made}</w:abstractNum>'
    said += '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    return files.word_part("", "numbering").replace("<w:body></w:body>", said + nums)


def test_the_numbers_of_word_stand_before_their_paragraphs() -> None:
    part = numbering(("upperRoman", "Part %1:", ""), ("decimal", "%1.%2", "<w:isLgl/>"), ("lowerLetter", "(%3)", ""))
    levels = (0, 1, 2, 2, 1, 2, 0, 1)
    body = "".join(numbered(f"p{at}", level, 1) for at, level in enumerate(levels)) + files.paragraph("end")
    assert read("a.docx", files.docx(body, word__numbering_xml=part)).text.split("\n\n") == [
        "Part I: p0", "1.1 p1", "(a) p2", "(b) p3", "1.2 p4", "(a) p5", "Part II: p6", "2.1 p7", "end",
    ]  # fmt: skip


def test_a_list_of_word_may_begin_elsewhere_and_signs_are_no_numbers() -> None:
    again = '<w:num w:numId="2"><w:abstractNumId w:val="7"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="{}"/>'
    part = numbering(("decimalZero", "%1)", ""), ("bullet", "•", ""), nums=again.format(5) + "</w:lvlOverride></w:num>")
    body = numbered("a", 0, 1) + numbered("b", 1, 1) + numbered("c", 0, 1) + numbered("d", 0, 2) + numbered("e", 0, 2)
    body += (
        numbered("f", 0, 0)
        + numbered("g", 0, 99)
        + "<w:tbl><w:tr><w:tc>"
        + numbered("h", 0, 2)
        + "</w:tc></w:tr></w:tbl>"
    )
    said = read("a.docx", files.docx(body, word__numbering_xml=part)).text.split("\n\n")
    assert said == ["01) a", "b", "02) c", "05) d", "06) e", "f", "g", "07) h"]


def test_headings_have_the_numbers_of_their_style() -> None:
    part = numbering(
        ("decimal", "%1", '<w:pStyle w:val="berschrift1"/>'), ("decimal", "%1.%2", '<w:pStyle w:val="berschrift2"/>')
    )
    own = '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    body = files.paragraph("Scope", "berschrift1") + files.paragraph("Goods", "berschrift2")
    body += files.paragraph("Time", "berschrift2") + files.paragraph("Money", "berschrift1")
    document = read(
        "a.docx", files.docx(body, word__numbering_xml=part, word__styles_xml=files.STYLES.replace("</w:style>", own))
    )
    assert document.text.split("\n\n") == ["# 1 Scope", "## 1.1 Goods", "## 1.2 Time", "# 2 Money"]
    assert document.title == "Scope"


def test_the_numbers_of_slides_stand_before_their_paragraphs() -> None:
    def line(text: str, kind: str = "", level: int = 0, start: int = 1) -> str:
        made = f'<a:buAutoNum type="{kind}" startAt="{start}"/>' if kind else ""
        return f'<a:p><a:pPr lvl="{level}">{made}</a:pPr><a:r><a:t>{text}</a:t></a:r></a:p>'

    first = line("a", "arabicPeriod") + line("b", "alphaLcParenR", 1) + line("c", "alphaLcParenR", 1)
    first += line("d", "arabicPeriod") + line("e") + line("f", "arabicPeriod")
    second = line("g", "romanUcPeriod", start=4) + line("h", "romanUcPeriod", start=4) + line("i", "other")
    page = "".join(f"<p:txBody>{each}</p:txBody>" for each in (first, second))
    said = "1. a\na) b\nb) c\n2. d\ne\n1. f\nIV. g\nV. h\n6. i"
    assert read("a.pptx", files.pptx([()], more=page)).text == f"Slide 1\n{said}"


OPEN_LIST = (
    '<text:list-style style:name="L">'
    '<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>'
    '<text:list-level-style-number text:level="2" style:num-format="a" style:num-suffix=")" text:display-levels="2"/>'
    '<text:list-level-style-bullet text:level="3"/></text:list-style>'
)


def test_the_numbers_of_open_documents_stand_before_their_paragraphs() -> None:
    def items(*texts: str) -> str:
        return "".join(f"<text:list-item><text:p>{text}</text:p></text:list-item>" for text in texts)

    inner = f"<text:p>b</text:p><text:p>more</text:p><text:list>{items('c', 'd')}</text:list>"
    inner = f"<text:list-item>{inner}</text:list-item>"
    lists = f'<text:list text:style-name="L">{items("a")}{inner}{items("e")}</text:list><text:p>between</text:p>'
    lists += f'<text:list text:style-name="L" text:continue-numbering="true">{items("f")}</text:list>'
    lists += f'<text:list text:style-name="L">{items("g")}'
    lists += '<text:list-item text:start-value="7"><text:p>h</text:p></text:list-item>'
    body = f"<office:styles>{OPEN_LIST}</office:styles><office:text>{lists}</text:list></office:text>"
    assert read("a.odt", files.open_document(body)).text.split("\n\n") == [
        "1. a", "2. b", "more", "2.a) c", "2.b) d", "3. e", "between", "4. f", "1. g", "7. h",
    ]  # fmt: skip


def test_headings_of_open_documents_have_their_numbers() -> None:
    outline = "".join(
        f'<text:outline-level-style text:level="{level}" style:num-format="1" text:display-levels="{level}"/>'
        for level in (1, 2)
    )
    levels = (1, 2, 2, 1, 3)
    headings = "".join(f'<text:h text:outline-level="{level}">h{at}</text:h>' for at, level in enumerate(levels))
    styles = f"<office:styles><text:outline-style>{outline}</text:outline-style></office:styles>"
    body = f"{styles}<office:text>{headings}</office:text>"
    assert read("a.odt", files.open_document(body)).text.split("\n\n") == [
        "# 1 h0", "## 1.1 h1", "## 1.2 h2", "# 2 h3", "### h4",
    ]  # fmt: skip


def test_numbers_in_letters_and_roman_numerals() -> None:
    said = [
        numeral(number, format_) for number, format_ in ((28, "lowerLetter"), (1994, "upperRoman"), (0, "upperRoman"))
    ]
    assert [*said, numeral(10**8, "upperLetter"), numeral(3, "none")] == ["bb", "MCMXCIV", "0", "100000000", ""]


def chart(*series: str, title: str = "") -> str:
    """A chart of series, each as `name|category value|...`."""
    said = f"<c:title><a:p xmlns:a='urn:a'><a:r><a:t>{title}</a:t></a:r></a:p></c:title>" if title else ""
    for each in series:
        name, *pairs = each.split("|")
        labels, values = zip(*(pair.split() for pair in pairs), strict=True)
        points = [
            "".join(f'<c:pt idx="{at}"><c:v>{value}</c:v></c:pt>' for at, value in enumerate(part))
            for part in (labels, values)
        ]
        said += (
            f"<c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>{name}</c:v></c:pt></c:strCache></c:strRef></c:tx>"
        )
        said += f"<c:cat><c:strCache>{points[0]}</c:strCache></c:cat><c:val><c:numRef><c:numCache>"
        said += f"<c:formatCode>0%</c:formatCode>{points[1]}</c:numCache></c:numRef></c:val></c:ser>"
    return f'<c:chartSpace xmlns:c="urn:c"><c:chart>{said}</c:chart></c:chartSpace>'


SHARES = chart("Wheat|North 0.25|South 0.5", "Rye|North 0.1|South 0.2", title="Harvest")
SHARES_SAID = "Chart: Harvest\nWheat: North: 25%; South: 50%\nRye: North: 10%; South: 20%"


def test_charts_give_the_values_that_they_were_drawn_with() -> None:
    shown = files.relations(r9=("chart", "../charts/c.xml"))
    document = read("a.pptx", files.pptx([("A",)], ppt__charts__c_xml=SHARES, ppt__slides__rels__slide1_xml_rels=shown))
    assert document.text == f"Slide 1\nA\n{SHARES_SAID}"
    drawn = '<c:chart xmlns:c="urn:c" xmlns:r="urn:r" r:id="r9"/>'
    drawn = f"<w:p><w:r><w:t>Before</w:t><w:drawing>{drawn}</w:drawing></w:r></w:p>"
    parts = {"word__rels__document_xml_rels": files.relations(r9=("chart", "c.xml")), "word__c_xml": SHARES}
    document = read("a.docx", files.docx(drawn + files.paragraph("after"), **parts))
    assert document.text == f"Before\n{SHARES_SAID}\n\nafter"
    book = joined(files.xlsx({"S": f"<row>{cell('A1', '1')}</row>"}), files.zipped({
        "xl/worksheets/_rels/sheet0.xml.rels": files.relations(r1=("drawing", "../drawings/d.xml")),
        "xl/drawings/d.xml": '<d xmlns:a="urn:a"><a:p><a:r><a:t>In a box</a:t></a:r></a:p></d>',
        "xl/drawings/_rels/d.xml.rels": files.relations(r1=("chart", "../charts/c.xml"), r2=("drawing", "d.xml")),
        "xl/charts/c.xml": SHARES,
    }))  # fmt: skip
    assert read("a.xlsx", book).text.replace("\n\n", "\n") == f"# S\n1\nIn a box\n{SHARES_SAID}"


def test_a_chart_without_values_is_named() -> None:
    for kind, part in (("chart", '<c xmlns:c="urn:c"><c:ser><c:val/></c:ser></c>'), ("chartEx", "<c/>")):
        shown = files.relations(r9=(kind, "../charts/c.xml"))
        show = files.pptx([("A",)], ppt__charts__c_xml=part, ppt__slides__rels__slide1_xml_rels=shown)
        assert "not all of its charts" in read("a.pptx", show).partly


def test_diagrams_give_their_texts() -> None:
    points = "".join(f"<d:pt><d:t><a:p><a:r><a:t>{step}</a:t></a:r></a:p></d:t></d:pt>" for step in ("Plan", "Build"))
    diagram = f'<d:dataModel xmlns:d="urn:d" xmlns:a="urn:a">{points}<d:pt type="pres"/></d:dataModel>'
    shown = files.relations(r9=("diagramData", "../diagrams/d.xml"))
    show = files.pptx([("A",)], ppt__diagrams__d_xml=diagram, ppt__slides__rels__slide1_xml_rels=shown)
    assert read("a.pptx", show).text == "Slide 1\nA\nPlan\nBuild"
    drawn = '<w:p><w:r><w:drawing><d:relIds xmlns:d="urn:d" xmlns:r="urn:r" r:dm="r9"/></w:drawing></w:r></w:p>'
    parts = {"word__rels__document_xml_rels": files.relations(r9=("diagramData", "d.xml")), "word__d_xml": diagram}
    assert read("a.docx", files.docx(drawn, **parts)).text == "Plan\nBuild"


def test_links_keep_their_addresses() -> None:
    relation = '<Relationship Id="r{}" Type="x/hyperlink" Target="{}" TargetMode="External"/>'
    targets = enumerate(("https://a.example/leaks", "mailto:b@a.example", "https://a.example/"))
    listed = f"<Relationships>{''.join(relation.format(*each) for each in targets)}</Relationships>"
    link = '<w:hyperlink xmlns:r="urn:r" r:id="r{}"><w:r><w:t>{}</w:t></w:r></w:hyperlink>'
    body = f"<w:p>{link.format(0, 'here')} {link.format(1, ', mail')}{link.format(2, ', https://a.example')}</w:p>"
    said = read("a.docx", files.docx(body, word__rels__document_xml_rels=listed)).text
    assert said == "here (https://a.example/leaks), mail (b@a.example), https://a.example"
    run = '<a:p><a:r><a:rPr><a:hlinkClick xmlns:r="urn:r" r:id="r0"/></a:rPr><a:t>Leaks</a:t></a:r></a:p>'
    show = files.pptx([()], more=run, ppt__slides__rels__slide1_xml_rels=listed)
    assert read("a.pptx", show).text == "Slide 1\nLeaks (https://a.example/leaks)"
    body = '<text:p>See <text:a xlink:href="https://a.example/leaks" xmlns:xlink="urn:x">here</text:a>.</text:p>'
    office = files.open_document(f"<office:text>{body}</office:text>")
    assert read("a.odt", office).text == "See here (https://a.example/leaks)."


FIELD = '<w:r><w:fldChar w:fldCharType="{}">{}</w:fldChar></w:r>'


def field(code: str, result: str, form: str = "") -> str:
    shown = f"<w:r><w:t>{result}</w:t></w:r>" if result else ""
    return (
        f"{FIELD.format('begin', form)}<w:r><w:instrText>{code}</w:instrText></w:r>"
        f"{FIELD.format('separate', '')}{shown}{FIELD.format('end', '')}"
    )


def test_fields_that_are_links_keep_their_addresses() -> None:
    link = ' HYPERLINK "https://b.example/leaks" '
    simple = f"<w:fldSimple w:instr='{link}'><w:r><w:t>form</w:t></w:r></w:fldSimple>"
    inner = field("HYPERLINK \\l top", "up") + field(link, "https://b.example/leaks") + field("PAGE", "7")
    body = f"<w:p>{field(link, 'here')} {simple}</w:p><w:p>{inner}</w:p><w:p>{FIELD.format('end', '')}</w:p>"
    said = "here (https://b.example/leaks)form (https://b.example/leaks)\n\nuphttps://b.example/leaks7"
    assert read("a.docx", files.docx(body)).text == said


def test_what_is_ticked_and_chosen_in_fields_of_a_form_is_read() -> None:
    boxes = ("<w:checkBox><w:checked/></w:checkBox>", '<w:checkBox><w:default w:val="0"/></w:checkBox>',
             '<w:checkBox><w:default w:val="1"/><w:checked w:val="0"/></w:checkBox>')  # fmt: skip
    entries = "".join(f'<w:listEntry w:val="{each}"/>' for each in ("Diesel", "Steam"))
    choice = f'<w:ddList><w:result w:val="1"/>{entries}</w:ddList>'
    said = "".join(field("FORM", "", f"<w:ffData>{each}</w:ffData>") for each in (*boxes, choice))
    assert read("a.docx", files.docx(f"<w:p>{said}</w:p>")).text == "[x][ ][ ]Steam"


def test_characters_of_fonts_of_signs_are_read_as_they_are_shown() -> None:
    signs = (("Symbol", "F06D"), ("Symbol", "F0B3"), ("Wingdings", "F0FE"), ("Wingdings", "F041"), ("Webdings", "no"))
    said = "".join(f'<w:r><w:sym w:font="{font}" w:char="{code}"/></w:r>' for font, code in signs)
    own = '<w:r><w:rPr><w:rFonts w:ascii="Symbol"/></w:rPr><w:t>5 \uf057</w:t></w:r><w:r><w:t>\uf057</w:t></w:r>'
    assert read("a.docx", files.docx(f"<w:p>{said}{own}</w:p>")).text == "μ≥☑5 Ω\uf057"


def test_hidden_text_of_word_is_not_read() -> None:
    run = "<w:r><w:rPr><w:vanish{}/></w:rPr><w:t>{}</w:t></w:r>"
    said = run.format("", "No.") + run.format(' w:val="false"', "Yes.")
    assert read("a.docx", files.docx(f"<w:p>{said}</w:p>")).text == "Yes."


def test_what_is_said_of_pictures_is_read_and_names_of_files_are_not() -> None:
    drawn = '<w:r><w:drawing><wp:docPr xmlns:wp="urn:wp" descr="{}"/></w:drawing></w:r>'
    said = "".join(map(drawn.format, ("A red crane", "scan 7.jpeg", "")))
    assert read("a.docx", files.docx(f"<w:p>{said}<w:r><w:t>.</w:t></w:r></w:p>")).text == "[picture: A red crane] ."
    show = files.pptx([["Cranes"]], more='<p:pic><p:cNvPr descr="Two cranes"/></p:pic>')
    assert read("a.pptx", show).text == "Slide 1\nCranes\n[picture: Two cranes]"


def test_pages_in_a_word_document_are_read_and_other_files_named() -> None:
    listed = files.relations(r1=("aFChunk", "p.html"), r2=("aFChunk", "q.mht"))
    parts = {"word/p.html": "<p>The <b>quay</b></p>", "word/q.mht": "x", "word__rels__document_xml_rels": listed}
    document = read("a.docx", files.docx("<w:altChunk/>", **parts))
    assert (document.text, document.partly) == ("The quay", "embedded files in it were not read")
    listed = files.relations(r1=("package", "../embeddings/b.xlsx"))
    show = files.pptx([["Cranes"]], ppt__slides__rels__slide1_xml_rels=listed, **{"ppt/embeddings/b.xlsx": ""})
    assert read("a.pptx", show).partly == "embedded files in it were not read"


def test_text_in_a_frame_stands_apart_from_that_around_it() -> None:
    box = "<draw:text-box><text:p>Crane</text:p></draw:text-box>"
    frame = f"<draw:frame>{box}<svg:desc xmlns:svg='urn:s'>Red</svg:desc></draw:frame>"
    office = files.open_document(f"<office:text><text:p>See{frame}It lifts.</text:p></office:text>")
    assert read("a.odt", office).text == "See Crane Red It lifts."


def test_headers_footers_and_comments_of_word_come_last() -> None:
    parts = {
        "word__h1_xml": files.word_part(files.paragraph("Mill Rules, 4th edition"), "hdr"),
        "word__h2_xml": files.word_part(files.paragraph("Mill Rules, 4th edition") + files.paragraph("7"), "hdr"),
        "word__f_xml": files.word_part(files.table(("Draft", "Secret")), "ftr"),
        "word__c_xml": files.word_part(
            f'<w:comment w:author="Ida">{files.paragraph("Check it.")}</w:comment>', "comments"
        ),
        "word__rels__document_xml_rels": files.relations(
            r1=("header", "h1.xml"), r2=("header", "h2.xml"), r3=("footer", "f.xml"), r4=("comments", "c.xml")
        ),
    }
    assert read("a.docx", files.docx(files.paragraph("Body"), **parts)).text.split("\n\n") == [
        "Body", "Mill Rules, 4th edition", "Draft", "Secret", "Comment by Ida: Check it.",
    ]  # fmt: skip


def test_comments_of_slides_come_last_with_who_wrote_them() -> None:
    people = '<x><author id="{7}" name="Ida"/><cmAuthor id="0" name="Bo"/></x>'
    body = "<txBody><a:p xmlns:a='urn:a'><a:r><a:t>{}</a:t></a:r></a:p></txBody>"
    reply = f'<reply authorId="9">{body.format("Done.")}</reply>'
    talk = f'<x><cm authorId="{{7}}"><replies>{reply}</replies>{body.format("Check it.")}</cm>'
    talk += '<cm authorId="0"><text>Too long?</text></cm></x>'
    parts = {"ppt__authors_xml": people, "ppt__c_xml": talk}
    parts["ppt__slides__rels__slide1_xml_rels"] = files.relations(r8=("comments", "../c.xml"))
    main = files.relations(r0=("slide", "slides/slide1.xml"), r5=("authors", "authors.xml"))
    show = joined(files.pptx([("Cranes",)], **parts), files.zipped({"ppt/_rels/presentation.xml.rels": main}))
    said = "Comment by Ida: Check it.\nComment: Done.\nComment by Bo: Too long?"
    assert read("a.pptx", show).text == f"Slide 1\nCranes\n{said}"


def test_comments_of_a_sheet_have_their_cells_and_are_read_once() -> None:
    run = "<text><r><t>Ida:</t></r><r><t xml:space='preserve'>\nToo </t></r><r><t>high.</t></r></text>"
    old = (
        f'<x><authors><author>Ida</author><author>tc=1</author></authors><comment ref="B2" authorId="0">{run}</comment>'
    )
    old += '<comment ref="C4" authorId="1"><text><t>[Threaded comment] Why?</t></text></comment></x>'
    new = '<x><threadedComment ref="C4" personId="{7}"><text>Why?</text></threadedComment></x>'
    people = files.relations(r0=("worksheet", "worksheets/sheet0.xml"), r5=("person", "p.xml"))
    comments = files.relations(r1=("comments", "c.xml"), r2=("threadedComment", "t.xml"))
    book = joined(files.xlsx({"Depths": f"<row>{cell('A1', '1')}</row>"}), files.zipped({
        "xl/_rels/workbook.xml.rels": people, "xl/p.xml": '<x><person displayName="Bo" id="{7}"/></x>',
        "xl/worksheets/_rels/sheet0.xml.rels": comments, "xl/worksheets/c.xml": old, "xl/worksheets/t.xml": new,
    }))  # fmt: skip
    said = "Comment on B2 by Ida: Too high.\n\nComment on C4 by Bo: Why?"
    assert read("a.xlsx", book).text == f"# Depths\n\n1\n\n{said}"


VALLEYS = (
    ("Valley", "Mill", "Wheels"),
    ("Upper", "Aker", "3"),
    ("", "Bern", "2"),
    ("", "Cole", "5"),
    ("Low", "Dal", "1"),
)


def valleys(cell: Callable[[str, int, int], str], row: str) -> str:
    """A table of them, each cell made from its text, its row and its column."""
    rows = ("".join(cell(text, at, column) for column, text in enumerate(texts)) for at, texts in enumerate(VALLEYS))
    return "".join(f"<{row}>{each}</{row}>" for each in rows)


def test_a_cell_over_several_rows_holds_for_all_of_them() -> None:
    def word(text: str, row: int, column: int) -> str:
        merged = "" if column or row in (0, 4) else '<w:vMerge w:val="restart"/>' if text else "<w:vMerge/>"
        return f"<w:tc><w:tcPr>{merged}</w:tcPr>{files.paragraph(text)}</w:tc>"

    def slide(text: str, row: int, column: int) -> str:
        merged = ' rowSpan="3"' if text == "Upper" else "" if text else ' vMerge="1"'
        return f"<a:tc{merged}><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>"

    def office(text: str, row: int, column: int) -> str:
        merged = ' table:number-rows-spanned="3"' if text == "Upper" else ""
        name = "table-cell" if text else "covered-table-cell"
        return f"<table:{name}{merged}><text:p>{text}</text:p></table:{name}>"

    book = f"<table:table>{valleys(office, 'table:table-row')}</table:table>"
    for name, content in (
        ("a.docx", files.docx(f"<w:tbl>{valleys(word, 'w:tr')}</w:tbl>")),
        ("a.pptx", files.pptx([()], more=f"<a:tbl>{valleys(slide, 'a:tr')}</a:tbl>")),
        ("a.odt", files.open_document(f"<office:text>{book}</office:text>")),
    ):
        text = read(name, content).text
        assert "Valley: Upper; Mill: Bern; Wheels: 2" in text
        assert "Valley: Upper; Mill: Cole; Wheels: 5" in text
        assert text.endswith("Valley: Low; Mill: Dal; Wheels: 1")


def test_a_wide_name_of_an_open_document_stands_over_its_columns() -> None:
    wide = '<table:table-cell table:number-columns-spanned="2"><text:p>Flow</text:p></table:table-cell>'
    wide += "<table:covered-table-cell/>"
    tall = '<table:table-cell table:number-rows-spanned="2"><text:p>Mill</text:p></table:table-cell>'
    names = sheet_row("<table:covered-table-cell/>", *map(sheet_cell, ("mean", "max")))
    rows = [sheet_row(tall, wide), names, sheet_row(*map(sheet_cell, ("Old", "2", "9")))]
    assert read("a.ods", sheet(*rows)).text.endswith(
        "Mill | Flow mean | Flow max\n\nMill: Old; Flow mean: 2; Flow max: 9"
    )
    title = '<table:table-cell table:number-columns-spanned="1024"><text:p>Mills</text:p></table:table-cell>'
    covered = '<table:covered-table-cell table:number-columns-repeated="1023"/>'
    assert read("a.ods", sheet(sheet_row(title, covered))).partly == ""


def test_charts_of_open_documents_are_read_and_other_objects_named() -> None:
    table = f"<office:chart><table:table>{sheet_row(sheet_cell(''), sheet_cell('Ships'))}"
    table += f"{sheet_row(sheet_cell('2024'), sheet_cell('388'))}</table:table></office:chart>"
    body = files.open_document("<office:text><text:p>Before</text:p></office:text>")
    chart_part = renamed(files.open_document(table), ("content.xml", "Object 1/content.xml"))
    document = read("a.odt", joined(chart_part, body))
    assert (document.text, document.partly) == ("Before\n\nShips\n\n2024; 388", "")
    power = '<math xmlns="http://www.w3.org/1998/Math/MathML"><msup><mn>5</mn><mn>2</mn></msup></math>'
    equation = files.zipped({"Object 1/content.xml": power})
    assert read("a.odt", joined(equation, body)).text == "Before\n\n5^2"
    other = files.zipped({"Object 1/content.xml": "<other/>"})
    assert "objects of other programs" in read("a.odt", joined(other, body)).partly


def test_covered_cells_of_a_wide_cell_are_empty() -> None:
    wide = '<table:table-cell table:number-columns-spanned="2"><text:p>{}</text:p></table:table-cell>'
    wide += "<table:covered-table-cell/>"
    rows = [sheet_row(*map(sheet_cell, ("a", "b", "c"))), sheet_row(wide.format("x"), sheet_cell("y"))]
    assert read("a.ods", sheet(*rows)).text.endswith("a: x; c: y")


def test_a_paragraph_of_a_slide_keeps_the_fields_inside_of_it() -> None:
    field = '<a:fld type="{}"><a:t>{}</a:t></a:fld>'
    date = (
        f"<a:p><a:r><a:t>As of </a:t></a:r>{field.format('datetime1', '3 May')}<a:r><a:t>: 5 mills.</a:t></a:r></a:p>"
    )
    page = f"<a:p>{field.format('slidenum', '7')}<a:r><a:t> of 9: mills</a:t></a:r></a:p>"
    page += f"<a:p>{field.format('x', '8')}</a:p>"
    assert read("a.pptx", files.pptx([()], more=date + page)).text == "Slide 1\nAs of 3 May: 5 mills.\n7 of 9: mills"


def test_word_takes_its_title_from_its_properties() -> None:
    core = '<c:p xmlns:c="urn:c" xmlns:dc="urn:dc"><dc:title>On rivers</dc:title></c:p>'
    assert read("a.docx", files.docx(files.paragraph("x"), docProps__core_xml=core)).title == "On rivers"


def test_slides_come_in_the_order_of_the_show_with_their_notes() -> None:
    document = read("show.pptx", files.pptx([("First", "The Danube"), ("Second",), ()], notes="Say hello"))
    assert document.text == "Slide 1\nFirst\nThe Danube\nNotes:\nSay hello\n\nSlide 2\nSecond"
    assert document.title == "First"


def cell(reference: str, value: str, type_: str = "", style: int = 0, formula: str = "") -> str:
    kind = f' t="{type_}"' if type_ else ""
    return f'<c r="{reference}" s="{style}"{kind}>{f"<f>{formula}</f>" if formula else ""}<v>{value}</v></c>'


def test_a_sheet_gives_rows_with_the_names_of_columns_and_the_values_of_formulas() -> None:
    rows = (
        f"<row>{cell('A1', '0', 's')}{cell('B1', '1', 's')}{cell('D1', '2', 's')}</row>"
        f"<row>{cell('A2', '3', 's')}{cell('B2', '2850')}{cell('D2', '45000', style=1)}</row>"
        f"<row>{cell('A3', 'Both', 'str')}{cell('B3', '0.30000000000000004', formula='SUM(B2:B2)')}"
        f"{cell('D3', '45000.5', style=2)}</row>"
        f"<row>{cell('A4', '1', 'b')}{cell('B4', '#DIV/0!', 'e', formula='1/0')}"
        '<c r="C4" t="inlineStr"><is><t>in </t><t>line</t></is></c></row>'
        f"<row><c r='A5'><f>NOW()</f></c></row>"
    )
    document = read(
        "b.xlsx", files.xlsx({"Rivers": rows, "Empty": ""}, ["River", "km", "Seen", "Danube"], "yyyy-mm-dd")
    )
    assert document.text.split("\n\n") == [
        "# Rivers",
        "River | km | Seen",
        "River: Danube; km: 2850; Seen: 2023-03-15",
        "River: Both; km: 0.3; Seen: 2023-03-15 12:00:00",
        "River: TRUE; km: #DIV/0!; in line",
        "River: =NOW()",
    ]
    assert document.title == "b"
    assert "formulas have no value" in document.partly


@pytest.mark.parametrize(
    "format_", ["d. mmmm yyyy", "hh:mm", "_-yyyy_-", "[$-F800]dddd, mmmm dd, yyyy", "mm:ss.0", "yyyy;@", "m/d/yyyy"]
)
def test_a_date_of_any_format_is_read_as_one(format_: str) -> None:
    rows = f"<row>{cell('A1', '45000', style=2)}</row>"
    assert read("b.xlsx", files.xlsx({"S": rows}, (), format_)).text.endswith("2023-03-15")


@pytest.mark.parametrize(
    ("format_", "stored", "said"),
    [
        ('0.0" days"', "45000", "45000.0 days"), ("[Red]0.00", "2.345", "2.35"),
        (r"_-* #,##0.00\ _D_M_-", "1234.5", "1,234.50"), (r"#,##0\ _d_i_n_.", "45000", "45,000"), ("*d0", "7", "7"),
        ("0.0%", "0.125", "12.5%"), ("0%", "-0.5", "-50%"), ("0.00%", "1", "100.00%"), ("[h]:mm", "1.5", "36:00"),
        ("[h]:mm:ss", "0.0208333333", "0:30:00"), ("[mm]:ss", "0.0625", "90:00"), ('[h]" h "mm', "-1.25", "-30 h 00"),
        ("[s].00", "0.0000231", "2.00"), ('"CHF "#,##0.00', "1234567.891", "CHF 1,234,567.89"),
        ("#,##0.00 [$€-407]", "-3.5", "-3.50 €"), ("$#,##0;($#,##0)", "-1200", "($1,200)"),
        ('0;-0;"none"', "0", "none"), ('_-* #,##0_-;-* #,##0_-;_-* "-"??_-', "0", "-"), ("00000", "420", "00420"),
        (r"000\-0000", "5551234", "555-1234"), ("0.##", "2.5", "2.5"), ("#,##0,", "1234567", "1,235"),
        ('0.0,," m"', "2500000", "2.5 m"), ("0.00E+00", "12345", "1.23E+04"), ("# ?/?", "0.5", "1/2"),
        ("# ??/??", "-2.28", "-2 7/25"), ("# ?/8", "3.5", "3 4/8"), ("?/?", "1.5", "3/2"),
        ('0"l"/"ha"', "12", "12l/ha"),
        (";;;", "12", "12"), ("[>=100]0;0.0", "12.34", "12.34"), ('General" km"', "12.5", "12.5 km"), ("@", "7", "7"),
        ("General", "0.1", "0.1"), ("0.00", "x", "x"), ("0.00", "1E+40", "1E+40"), ("0.0", "nan", "NaN"),
        ("[h]:mm", "inf", "inf"), ("yyyy", "-3", "-3"), ("[$-409]0.00", "2.5", "2.50"),
    ],
)  # fmt: skip
def test_a_number_is_shown_as_excel_shows_it(format_: str, stored: str, said: str) -> None:
    rows = f"<row>{cell('A1', stored, style=2)}</row>"
    assert read("b.xlsx", files.xlsx({"S": rows}, (), format_)).text == f"# S\n\n{said}"


def test_formats_without_a_code_are_known() -> None:
    styles = "".join(f'<xf numFmtId="{id_}"/>' for id_ in (0, 10, 46, 9, 4, 22, 49, 999))
    row = "".join(cell(f"{letter}1", "1.25", style=style) for style, letter in enumerate("ABCDEFGH"))
    book = renamed(
        files.xlsx({"S": f"<row>{row}</row>"}), ('<xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/>', styles)
    )
    said = "1.25; 125.00%; 30:00:00; 125%; 1.25; 1900-01-01 06:00:00; 1.25; 1.25"
    assert read("b.xlsx", book).text == f"# S\n\n{said}"


def test_merged_cells_of_a_sheet_hold_for_all_their_rows() -> None:
    def row(number: int, *texts: str) -> str:
        cells = (cell(f"{letter}{number}", text, "str") for letter, text in zip("ABCD", texts, strict=False) if text)
        return f'<row r="{number}">{"".join(cells)}</row>'

    rows = [row(1, "Valley", "Mills", "", "Note"), row(2, "", "Name", "Wheels"), row(3, "Upper", "Aker", "3", "old")]
    rows += [row(4, "", "Bern", "2"), row(5, "Low", "Cole", "1")]
    merged = '</sheetData><mergeCells><mergeCell ref="A1:A2"/><mergeCell ref="B1:C1"/><mergeCell ref="D1:D2"/>'
    merged += '<mergeCell ref="A3:A4"/><mergeCell ref="D3:D1048576"/></mergeCells>'
    book = renamed(files.xlsx({"S": "".join(rows)}), ("</sheetData>", merged))
    assert read("b.xlsx", book).text.split("\n\n")[1:] == [
        "Valley | Mills Name | Mills Wheels | Note",
        "Valley: Upper; Mills Name: Aker; Mills Wheels: 3; Note: old",
        "Valley: Upper; Mills Name: Bern; Mills Wheels: 2; Note: old",
        "Valley: Low; Mills Name: Cole; Mills Wheels: 1; Note: old",
    ]


def test_formulas_that_nobody_has_computed_are_named() -> None:
    total = '<c r="B1"><f>SUM(B2:B9)</f></c><c r="C1"><f t="shared" si="0"/></c><c r="D1"><f>B1*2</f><v/></c>'
    total = f"<row>{cell('A1', 'Total', 'str')}{total}</row>"
    document = read("b.xlsx", files.xlsx({"S": total}))
    assert document.text == "# S\n\nTotal; =SUM(B2:B9); =B1*2"
    assert "formulas have no value" in document.partly
    empty = f"<row>{cell('A1', 'Total', 'str')}{cell('B1', '', 'str', formula='T(C1)')}</row>"
    assert read("b.xlsx", files.xlsx({"S": empty})).partly == ""
    office = '<table:table-cell table:formula="of:=SUM([.B2])"/>'
    assert read("a.ods", sheet(sheet_row(sheet_cell("Total"), office))).text == "# Lengths\n\nTotal; =SUM([.B2])"


def test_a_sheet_s_escaped_characters_are_read() -> None:
    row = cell("A1", "0", "s") + cell("B1", "a_x000D_\nb", "str") + cell("C1", "1", "s")
    document = read("b.xlsx", files.xlsx({"S": f"<row>{row}</row>"}, ["one_x000d_\ntwo", "x_x005F_x000D_ _xD800_ x_y"]))
    assert document.text == "# S\n\none two | a b | x_x000D_ \ufffd x_y"


def test_a_number_beyond_the_last_date_leaves_the_file_readable() -> None:
    rows = f"<row>{cell('A1', '2958465.9999999', style=1)}{cell('B1', '2958465', style=1)}</row>"
    assert read("b.xlsx", files.xlsx({"S": rows})).text == "# S\n\n2958465.9999999; 9999-12-31"


def test_a_wide_or_broken_sheet_stays_in_bounds() -> None:
    rows = f"<row>{cell('XFD1', '7')}{cell('A9', '8')}</row><row>{cell('A1', '99', 's')}{cell('A1', 'x')}</row>"
    document = read("b.xlsx", files.xlsx({"S": rows}))
    assert document.text == "# S\n\nx"
    assert "500 columns" in document.partly


TEXT = (
    "<office:text><text:tracked-changes><text:p>struck out</text:p></text:tracked-changes>"
    '<text:h text:outline-level="2">Rivers</text:h>'
    '<text:p>The<text:s text:c="3"/>Danube<text:line-break/>is <text:span>long</text:span>.'
    "<office:annotation><text:p>remark</text:p></office:annotation> Yes.</text:p><table:table table:name='T'>"
    "<table:table-row><table:table-cell><text:p>River</text:p></table:table-cell><table:table-cell><text:p>km</text:p>"
    "</table:table-cell></table:table-row><table:table-row><table:table-cell><text:p>Danube</text:p></table:table-cell>"
    "<table:table-cell><text:p>2850</text:p></table:table-cell></table:table-row></table:table></office:text>"
)


def test_an_open_document_text() -> None:
    document = read("a.odt", files.open_document(TEXT, title="On rivers"))
    assert document.text == "## Rivers\n\nThe Danube is long. Yes.\n\nRiver | km\n\nRiver: Danube; km: 2850"
    assert document.title == "On rivers"


def sheet(*rows: str) -> bytes:
    table = f'<table:table table:name="Lengths">{"".join(rows)}</table:table>'
    return files.open_document(f"<office:spreadsheet>{table}</office:spreadsheet>")


def sheet_row(*cells: str) -> str:
    return f'<table:table-row table:number-rows-repeated="999999">{"".join(cells)}</table:table-row>'


def sheet_cell(text: str, times: int = 1, remark: str = "") -> str:
    inner = f"<text:p>{text}</text:p>" if text else ""
    return f'<table:table-cell table:number-columns-repeated="{times}">{remark}{inner}</table:table-cell>'


def test_an_open_document_sheet_with_repeated_cells() -> None:
    names = sheet_row(sheet_cell("River"), sheet_cell("", 2), sheet_cell("km"))
    danube = sheet_row(sheet_cell("Danube"), sheet_cell("", 2), sheet_cell("2850"), sheet_cell("", 10**8))
    document = read("a.ods", sheet(names, danube))
    assert document.text == "# Lengths\n\nRiver | km\n\nRiver: Danube; km: 2850"


def test_remarks_on_a_cell_or_a_slide_are_not_read() -> None:
    remark = "<office:annotation><text:p>check this</text:p></office:annotation>"
    names, danube = sheet_row(*map(sheet_cell, ("River", "km"))), sheet_cell("Danube") + sheet_cell("28", 1, remark)
    assert read("a.ods", sheet(names, sheet_row(danube))).text.endswith("River: Danube; km: 28")
    page = f"<draw:page>{remark}<text:p>First</text:p></draw:page>"
    show = files.open_document(f"<office:presentation>{page}</office:presentation>")
    assert read("a.odp", show).text == "Slide 1\nFirst"


def test_the_empty_rest_of_a_sheet_is_not_told_as_left_out() -> None:
    rows = [sheet_row(sheet_cell(text), sheet_cell("", 1023)) for text in ("Danube", "Rhine")]
    assert read("a.ods", sheet(*rows)).partly == ""
    for cells in ([sheet_cell("x", 501)], [sheet_cell("", 500), sheet_cell("x")], [sheet_cell("x")] * 501):
        assert "500 columns" in read("a.ods", sheet(sheet_row(sheet_cell("y")), sheet_row(*cells))).partly
    assert read("a.ods", sheet(sheet_row(*[sheet_cell("", 499), sheet_cell("x")]))).partly == ""


def test_equal_cells_side_by_side_stand_each_in_its_column() -> None:
    names = sheet_row(*map(sheet_cell, ("Year", "Spring", "Autumn", "Sum")))
    document = read("a.ods", sheet(names, sheet_row(sheet_cell("2020"), sheet_cell("5", 2), sheet_cell("10"))))
    assert document.text.endswith("Year: 2020; Spring: 5; Autumn: 5; Sum: 10")
    assert read("a.ods", sheet(sheet_row(sheet_cell("x", 10**7)))).text.count("x") == 500


def test_an_open_document_show() -> None:
    pages = "<draw:page><text:p>First</text:p><text:p>Danube</text:p></draw:page>"
    pages += "<draw:page><text:p>Last</text:p></draw:page>"
    document = read("a.odp", files.open_document(f"<office:presentation>{pages}</office:presentation>"))
    assert document.text == "Slide 1\nFirst\nDanube\n\nSlide 2\nLast"


def chapter(text: str) -> str:
    head = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://x/xhtml11.dtd">'
    return f"{head}<html><head><title>x</title></head><body><h1>Chapter</h1><p>{text}</p></body></html>"


def test_a_book_comes_in_the_order_of_reading() -> None:
    document = read("a.epub", files.epub({"b": chapter("The Danube."), "a": chapter("The Seine.")}, title="Rivers"))
    assert document.text == "# Chapter\n\nThe Danube.\n\n# Chapter\n\nThe Seine."
    assert document.title == "Rivers"


def test_what_is_locked_says_so() -> None:
    locked = {
        "a.epub": files.epub({"a": "noise"}, locked=["a"]),
        "a.odt": files.open_document("noise", encrypted=True),
        "a.docx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
        "b.xlsx": files.zipped({"xl/workbook.xml": "x"}).replace(b"\x14\0\0\0\x08", b"\x14\0\1\0\x08"),
    }
    for name, content in locked.items():
        with pytest.raises(Unreadable, match="protected") as raised:
            read(name, content)
        assert raised.value.kind == "encrypted", name
    with pytest.raises(Unreadable, match="old Office file"):
        read("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 old")


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.odt", "a.epub"])
def test_an_archive_of_something_else_is_damaged(name: str) -> None:
    with pytest.raises(Unreadable, match="is damaged: it holds no"):
        read(name, files.zipped({"x.txt": "x"}))


def renamed(content: bytes, *names: tuple[str, str]) -> bytes:
    """An archive whose members' names, and what is written of them, are changed."""
    with zipfile.ZipFile(BytesIO(content)) as opened:
        members = {name: opened.read(name).decode() for name in opened.namelist()}
    for old, new in names:
        members = {name.replace(old, new): text.replace(old, new) for name, text in members.items()}
    return files.zipped(members)


def main_part(target: str) -> bytes:
    return files.zipped({"_rels/.rels": files.relations(r1=("officeDocument", target))})


def joined(*archives: bytes) -> bytes:
    members: dict[str, str | bytes] = {}
    for content in archives:
        with zipfile.ZipFile(BytesIO(content)) as opened:
            members |= {name: opened.read(name) for name in opened.namelist()}
    return files.zipped(members)


def test_the_parts_of_a_file_are_found_by_what_refers_to_them() -> None:
    body = files.paragraph("Rivers", "berschrift1") + files.paragraph("The Danube.")
    word = renamed(files.docx(body), ("word/document.xml", "word/main2.xml"))
    assert read("a.docx", joined(word, main_part("/word/main2.xml"))).text == "# Rivers\n\nThe Danube."
    show = renamed(files.pptx([("First", "Danube")], notes="Hello"), ("ppt/", "show/"), ("presentation.xml", "p3.xml"))
    assert read("a.pptx", joined(show, main_part("show/p3.xml"))).text == "Slide 1\nFirst\nDanube\nNotes:\nHello"
    rows = f"<row>{cell('A1', '0', 's')}{cell('B1', '45000', style=1)}</row>"
    book = renamed(files.xlsx({"S": rows}, ["Danube"]), ("xl/", "books/"), ("workbook.xml", "wb.xml"))
    assert read("a.xlsx", joined(book, main_part("books/wb.xml"))).text == "# S\n\nDanube; 2023-03-15"


def test_the_parts_of_a_file_are_found_whatever_their_case_and_slashes() -> None:
    body = files.paragraph("Rivers", "berschrift1") + files.paragraph("The Danube.")
    rows = f"<row>{cell('A1', '0', 's')}{cell('B1', '45000', style=1)}</row>"
    show, book = files.pptx([("First",)]), files.xlsx({"S": rows}, ["Danube"])
    for names in ([("word/", "word\\")], [("word/", "Word/"), ("document.xml", "Document.XML")]):
        assert read("a.docx", renamed(files.docx(body), *names)).text == "# Rivers\n\nThe Danube."
    for name in (("ppt/", "ppt\\"), ("ppt/", "/PPT/")):
        assert read("a.pptx", renamed(show, name, ("slides/", f"slides{name[1][-1]}"))).text == "Slide 1\nFirst"
    assert read("a.xlsx", renamed(book, ("xl/", "xl\\"))).text == "# S\n\nDanube; 2023-03-15"


def test_parts_of_the_usual_names_need_no_references() -> None:
    rows = f"<row>{cell('A1', '0', 's')}</row>"
    for name, content in (("a.pptx", files.pptx([("First",)])), ("a.xlsx", files.xlsx({"S": rows}, ["Danube"]))):
        assert read(name, renamed(content, (".rels", ".lost"), ("sheet0", "sheet1"))).text.split()[-1] in "First Danube"

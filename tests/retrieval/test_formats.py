"""E-mail, tables, data, notebooks and source code."""

import codecs
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError
from reground.retrieval.documents import Document, Format, SourceFile, read_as, read_documents
from reground.retrieval.encodings import Unreadable
from reground.retrieval.index import build_index
from reground.retrieval.reading.web import plain
from tests.retrieval import files
from tests.retrieval.corpora import write
from tests.retrieval.files import read


def mailbox(folder: Path, content: bytes) -> list[Document]:
    write(folder, {"in.mbox": content})
    return list(read_documents(SourceFile(folder / "in.mbox", "in.mbox", len(content), 0)))


def test_a_message_has_its_subject_as_title_and_names_its_attachments() -> None:
    document = read("a.eml", files.mail("Über die Donau", "It is long.\n", html="<p>no</p>", attached="map.pdf"))
    assert document.title == "Über die Donau"
    assert document.text == (
        "From: Ada <ada@example.org>\nTo: Bob <bob@example.org>\n\nIt is long.\n\nAttachments (not read): map.pdf"
    )


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<header>Rivers</header><main>Long<hr>Wide</main><footer>2024</footer>", "Rivers\nLong\nWide\n2024"),
        ("<blockquote>One.</blockquote><blockquote>Two.</blockquote>", "One.\nTwo."),
        ("<button>Go</button><button>Stop</button>", "Go Stop"),
        ("<p>The <b>Dan</b>ube</p>", "The Danube"),
    ],
)
def test_what_stands_apart_on_a_page_is_no_single_word(html: str, text: str) -> None:
    assert plain(html) == (text, "")


def test_deep_pages_in_messages_and_books_are_read_to_their_end() -> None:
    page = f"{'<div>' * 300}<p>The Danube.</p>"
    assert "The Danube." in read("a.eml", files.mail("Rivers", "", html=page)).text
    assert read("a.epub", files.epub({"a": page, "b": "<p>The Seine.</p>"})).text == "The Danube.\n\nThe Seine."
    deeper = "<div>" * 3000
    for name, content in (("a.eml", files.mail("R", "", html=deeper)), ("a.epub", files.epub({"a": "x" + deeper}))):
        assert "was not read" in read(name, content).partly


def parts(kind: str, *said: str) -> str:
    each = "".join(f"\n--{kind}\nContent-Type: {part}" for part in said)
    return f"multipart/{kind}; boundary={kind}\n{each}\n--{kind}--\n"


def test_a_page_with_a_list_s_footer_beside_it_is_read_whole() -> None:
    page, footer = "text/html\n\n<p>The Danube is long.</p>", "text/plain\n\nRivers mailing list"
    document = read("a.eml", f"Subject: s\nContent-Type: {parts('mixed', page, footer)}")
    assert document.text == "The Danube is long.\n\nRivers mailing list"
    both = parts("alternative", "text/plain\n\nIt is long.", parts("related", page, "image/png\n\nx"))
    document = read("a.eml", f"Subject: s\nContent-Type: {parts('mixed', both, footer)}")
    assert document.text == "It is long.\n\nRivers mailing list\n\nAttachments (not read): image/png"
    blank = parts("alternative", "text/plain\n\n ", page)
    assert read("a.eml", f"Subject: s\nContent-Type: {blank}").text == "The Danube is long."


@pytest.mark.parametrize("charset", ["koi8-r", "utf-8", "iso-8859-5"])
def test_a_message_in_another_encoding(charset: str) -> None:
    assert "Дунай длинный" in read("a.eml", files.mail("Река", "Дунай длинный", charset=charset)).text


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1"])
def test_a_message_with_letters_in_its_headers_as_they_are(charset: str) -> None:
    raw = "From: Jürgen Groß <j@x>\nSubject: Grüße aus Köln\nContent-Disposition: inline\n\nHallo"
    document = read("a.eml", raw.encode(charset))
    assert (document.title, document.text) == ("Grüße aus Köln", "From: Jürgen Groß <j@x>\n\nHallo")
    attached = 'Subject: s\nContent-Type: application/pdf; name="Übersicht.pdf"\n\nx'
    assert read("a.eml", attached.encode(charset)).text == "Attachments (not read): Übersicht.pdf"


def test_a_message_that_lies_about_its_encoding_is_made_out() -> None:
    raw = b"Subject: =?broken?x?=\nContent-Type: text/plain; charset=nonsense\n\n"
    russian = "Дунай берёт начало в Шварцвальде и течёт через десять стран к Чёрному морю."
    assert russian in read("a.eml", raw + russian.encode("cp1251")).text
    assert russian in read("a.eml", raw + russian.encode()).text


def test_a_message_with_half_a_surrogate_pair_does_not_end_a_build(tmp_path: Path) -> None:
    message = b"From: a@x\nSubject: s\nContent-Type: text/plain; charset=utf-7\n\n+2AA- half\n"
    write(tmp_path / "docs", {"a.eml": message, "in.mbox": files.mbox(message), "b.txt": "The Danube."})
    assert build_index(tmp_path / "docs", tmp_path / "idx").documents == 3
    assert read("a.eml", message).text.endswith("\ufffd half")


CALENDAR = """BEGIN:VCALENDAR\r
BEGIN:VTIMEZONE\r\nTZID:Europe/Oslo\r\nDTSTART:19700329T020000\r\nEND:VTIMEZONE\r
BEGIN:VEVENT\r
SUMMARY:Review of the quay\\, part 2\r
DTSTART;TZID=Europe/Oslo:20260314T093000\r
DTEND:20260314T103000Z\r
LOCATION:Room\r
 \tN\u00f6ck\r
ORGANIZER;CN="Ada L.":mailto:ada@quay.example\r
END:VEVENT\r\nBEGIN:VTODO\r\nSUMMARY:Paint it\r\nDUE;VALUE=DATE:20260401\r\nEND:VTODO\r\nEND:VCALENDAR\r\n"""
EVENTS = (
    "Event: Review of the quay, part 2\nBegins: 2026-03-14 09:30 Europe/Oslo\nEnds: 2026-03-14 10:30 UTC\n"
    "Place: Room\tN\u00f6ck\nOrganizer: Ada L. (ada@quay.example)\n\nEvent: Paint it\nDue: 2026-04-01"
)


def test_a_calendar_and_an_invitation_say_what_when_and_where() -> None:
    assert read("plan.ics", CALENDAR).text == EVENTS
    message = EmailMessage()
    message["Subject"] = "Invitation"
    message.set_content("Please come.\n")
    message.add_alternative(CALENDAR, subtype="calendar")
    message.add_attachment(CALENDAR, subtype="calendar", filename="invite.ics")
    assert read("a.eml", message.as_bytes()).text == f"Please come.\n\n{EVENTS}"


def test_messages_inside_of_a_message_are_read_under_their_subjects() -> None:
    message = EmailMessage()
    message["Subject"] = "Fwd: two"
    message.set_content("See below.\n")
    for subject, text in (("Crane 4", "It lifts 12 t.\n"), ("Crane 5", "It lifts 30 t.\n")):
        message.add_attachment(
            message_from_bytes(files.mail(subject, text, attached="plan.pdf"), policy=policy.default)
        )
    assert read("a.eml", message.as_bytes()).text == (
        "See below.\n\nSubject: Crane 4\nFrom: Ada <ada@example.org>\nTo: Bob <bob@example.org>\n\nIt lifts 12 t."
        "\n\nSubject: Crane 5\nFrom: Ada <ada@example.org>\nTo: Bob <bob@example.org>\n\nIt lifts 30 t."
        "\n\nAttachments (not read): plan.pdf, plan.pdf"
    )


def test_what_a_server_says_of_a_delivery_is_read() -> None:
    report = parts(
        "report",
        "text/plain\n\nIt failed.",
        "message/delivery-status\n\nReporting-MTA: dns; mx.example\n\n"
        "Final-Recipient: rfc822; bo@quay.example\nDiagnostic-Code: smtp; 552 Mailbox is full",
    )
    text = read("a.eml", f"Subject: Undelivered\nContent-Type: {report}").text
    assert "It failed." in text and "Diagnostic-Code: smtp; 552 Mailbox is full" in text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_that_flow_are_joined_as_their_message_says(newline: str) -> None:
    lines = newline.join(["The crane lif ", "ted it. ", "It was late.", "> As  ", "> planned.", "-- ", "Bo"])
    flowed = f"Subject: Crane\nContent-Type: text/plain; format=flowed{{}}\n\n{lines}"
    joined = read("a.eml", flowed.format("; DelSp=Yes")).text
    assert joined.splitlines() == ["The crane lifted it.It was late.", "> As planned.", "-- ", "Bo"]
    assert "lif \nted" in read("a.eml", flowed.format("")).text.replace("\r", "")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_message_and_its_text_in_utf_16(encoding: str) -> None:
    mark = {"utf-16": b"", "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}[encoding]
    text = "Subject: Крюк\nContent-Type: text/plain; charset=utf-16\n\nThe hook, как было."
    document = read("a.eml", mark + text.encode(encoding))
    assert (document.title, document.text) == ("Крюк", "The hook, как было.")


def test_a_mailbox_gives_a_document_a_message(tmp_path: Path) -> None:
    one = files.mail("One", ">From the source\nFrom here\n\nFrom Vienna it is far.", id_="1@x")
    content = files.mbox(one, files.mail("", "Two"), one, files.mail("Three", "Other", id_="1@x")).replace(
        b"\n\nFrom Vienna", b"\n\n>From Vienna"
    )
    first, second, third = mailbox(tmp_path, content)
    assert (first.id, first.title, first.url) == ("in.mbox/1@x", "One", "in.mbox")
    assert first.text.endswith("From the source\nFrom here\n\nFrom Vienna it is far.")
    assert (second.title, "Two" in second.text) == ("(no subject)", True)
    assert third.id.startswith("in.mbox/1@x~") and third.title == "Three"


def test_a_mailbox_is_updated_message_by_message(tmp_path: Path) -> None:
    messages = [files.mail(f"Mail {n}", f"text {n}", id_=f"{n}@x") for n in range(4)]
    write(tmp_path / "docs", {"in.mbox": files.mbox(*messages[:3]), "a.txt": "x"})
    first = build_index(tmp_path / "docs", tmp_path / "idx")
    assert (first.documents, first.read) == (4, 4)
    assert build_index(tmp_path / "docs", tmp_path / "idx").read == 0
    write(tmp_path / "docs", {"in.mbox": files.mbox(*messages[1:])}, old=False)
    second = build_index(tmp_path / "docs", tmp_path / "idx")
    assert (second.documents, second.read, second.removed) == (4, 1, 1)
    write(tmp_path / "docs", {"in.mbox": b"no mailbox any more"}, old=False)
    third = build_index(tmp_path / "docs", tmp_path / "idx")
    assert (third.documents, third.removed) == (1, 3)
    assert [(each.path, each.kind) for each in third.skipped] == [("in.mbox", "damaged")]
    (tmp_path / "docs" / "in.mbox").unlink()
    assert not build_index(tmp_path / "docs", tmp_path / "idx").skipped


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'River,km\nDanube,2850\n\n"Rhine, ""the""\nold",1230,x\n'),
        ("a.csv", 'River;km\nDanube;2850\n"Rhine, ""the"" old";1230;x\n'),
        ("a.csv", 'sep=;\nRiver;km\nDanube;2850\n"Rhine, ""the"" old";1230;x\n'),
        ("a.csv", '\ufeffSEP=\t\r\nRiver\tkm\nDanube\t2850\n"Rhine, ""the"" old"\t1230\tx\n'),
        ("a.tsv", 'River\tkm\nDanube\t2850\nRhine, "the" old\t1230\tx\n'),
    ],
)
def test_a_table_gives_rows_with_the_names_of_columns(name: str, content: str) -> None:
    document = read(name, content)
    assert document.text == 'River | km\n\nRiver: Danube; km: 2850\n\nRiver: Rhine, "the" old; km: 1230; x'


@pytest.mark.parametrize(
    ("content", "row"),
    [
        ("River, stream, canal\tkm\nDanube\t2850\nRhine\t1230\n", "River, stream, canal: Danube; km: 2850"),
        ("Rivers, streams, canals\nRiver;km\nDanube;2850,5\nRhine;1230,1\n", "River: Danube; km: 2850,5"),
    ],
)
def test_the_mark_is_the_one_that_the_lines_agree_on(content: str, row: str) -> None:
    assert row in read("a.tsv", content).text.split("\n\n")


@pytest.mark.parametrize(
    ("rows", "last"),
    [
        ("Country,2019,2020\nFrance,10,20\nGermany,unknown,none\nSpain,5,6", "Country: Spain; 2019: 5; 2020: 6"),
        (",2010,2020\nOslo,1955,709000\nRome,n/a,2748109", "Rome; 2010: n/a; 2020: 2748109"),
        ("Land,2023,2024\nA,5.5,6\nB,7,8\nC,1,2", "Land: C; 2023: 1; 2024: 2"),
        ("2019,2020,2021\n5.5,6,9", "2019: 5.5; 2020: 6; 2021: 9"),
        (",2020-01,2020-03\nFalun,7,8", "Falun; 2020-01: 7; 2020-03: 8"),
        ("Well,10%,50%,90%\nA,3,8,9", "Well: A; 10%: 3; 50%: 8; 90%: 9"),
        ("City,2019\nOslo,681000", "City: Oslo; 2019: 681000"),
        ("#,River,%\n1,Danube,5\n2,Seine,6", "#: 2; River: Seine; %: 6"),
        ("Gauge,10:00,11:30\nNorth,3.1,3.4", "Gauge: North; 10:00: 3.1; 11:30: 3.4"),
        ("Age,0-14,15-64,65+\nwomen,3,8,2", "Age: women; 0-14: 3; 15-64: 8; 65+: 2"),
        ("Team,Goals,Games,Goals,Games\nBrann,3,2,1,2", "Team: Brann; Goals: 3; Games: 2; Goals: 1; Games: 2"),
        ("Rivers\nSeen,2024\nRiver,km,Source\nDanube,2850,Breg", "River: Danube; km: 2850; Source: Breg"),
    ],
)
def test_signs_numbers_and_equal_words_name_columns_of_another_kind(rows: str, last: str) -> None:
    assert read("a.csv", rows).text.split("\n\n")[-1] == last


@pytest.mark.parametrize(
    "rows",
    [
        "Anna,1984\nBob,1990", "Danube,2850,1.5\nSeine,777,2", "Pier,10:05,11:05\nDock,10:15,11:20", "1,2,3\n5,1,9",
        "Oslo,yes,yes\nRome,no,yes", "A,1,2,3\nB,4,5,6", "Ajax,2-1\nBrann,0-0",
        "5%,20%\n0.1,7",
    ],
)  # fmt: skip
def test_the_first_row_of_data_names_nothing(rows: str) -> None:
    assert read("a.csv", rows).text == rows.replace(",", "; ").replace("\n", "\n\n")


@pytest.mark.parametrize(
    ("rows", "names", "last"),
    [
        (",2023,,2024,\nRegion,Sales,Costs,Sales,Costs\nNorth,5,4,6,3",
         "Region | 2023 Sales | 2023 Costs | 2024 Sales | 2024 Costs",
         "Region: North; 2023 Sales: 5; 2023 Costs: 4; 2024 Sales: 6; 2024 Costs: 3"),
        ("Mill,Inflow,\nMill,mean,max\nOld,2.1,9.4", "Mill | Inflow mean | Inflow max",
         "Mill: Old; Inflow mean: 2.1; Inflow max: 9.4"),
        ("In millions of CHF,June 2023\nSegment,Revenue,Costs,Result\nRail,12,9,3",
         "Segment | Revenue | Costs | Result", "Segment: Rail; Revenue: 12; Costs: 9; Result: 3"),
        (",Type,Country\nDanube,river,Austria\nSeine,river,France", "Type | Country",
         "Seine; Type: river; Country: France"),
    ],
)  # fmt: skip
def test_a_head_of_two_rows(rows: str, names: str, last: str) -> None:
    lines = read("a.csv", rows).text.split("\n\n")
    assert names in lines
    assert lines[-1] == last


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_table_with_an_open_quote_is_read_as_text(end: str) -> None:
    for last in ('"Rhine,1230\nSeine,777', '"', '"' + "x\n" * 200_000):
        content = f"River,km\nDanube,2850\n{last}{end}"
        assert read("a.csv", content).text == content


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_harmless_quotes_leave_a_table_a_table(end: str) -> None:
    document = read("a.csv", f'Film,Said\n"Jaws" he said,5" wide\nend,"end"{end}')
    assert document.text == 'Film | Said\n\nFilm: Jaws he said; Said: 5" wide\n\nFilm: end; Said: end'


def test_a_long_table_is_cut_and_says_so() -> None:
    document = read("a.csv", "name,value\n" + "x,1\n" * 200_001)
    assert document.text.count("name: x") == 199_999
    assert "200,000 rows" in document.partly


def test_data_becomes_lines_with_their_keys() -> None:
    content = (
        '{"title": "Rivers", "data": {"danube": {"km": 2850, "through": ["Vienna", "Linz"]}}, "ok": true, "n": null}'
    )
    document = read("a.json", content)
    assert document.text == ("title: Rivers\n\ndata > danube; km: 2850; through: Vienna, Linz\n\nok: true\n\nn: null")
    assert document.title == "Rivers"
    listed = '[{"a": 1, "b": [{"c": 2, "d": "e; f", "g": 4}]}, "x"]'
    assert read("a.json", listed).text == "a: 1\nb; c: 2; g: 4\nb > d: e; f\n\nx"
    assert read("a.json", '{"a": "half \\ud83d"}').text == "a: half ?"


@pytest.mark.parametrize("content", ['{"a": 1} // so\n', '{"a": 1}\n{"b": 2}\n', "[" * 100_000, f"[{'9' * 5000}]"])
def test_what_is_no_json_is_read_as_text(content: str) -> None:
    assert read("a.json", content).text == content


def test_deep_data_stays_json() -> None:
    deep = '{"k":' * 20 + "1" + "}" * 20
    assert read("a.json", deep).text == f"k{' > k' * 7}: " + ('{"k": ' * 12 + "1" + "}" * 12)
    listed = '{"r": {"a": [{"b": [{"c": [{"d": [{"e": "Danube"}]}]}]}]}}'
    assert read("a.json", listed).text == 'r > a > b > c > d: [{"e": "Danube"}]'


def test_a_notebook_gives_texts_and_code_without_results() -> None:
    document = read(
        "a.ipynb", files.notebook(("markdown", "# Rivers\n\nLong ones."), ("code", "x = 1\ny = 2"), ("code", ""))
    )
    assert document.text == "# Rivers\n\nLong ones.\n\n```\nx = 1\ny = 2\n```"
    assert document.title == "Rivers"
    old = '{"worksheets": [{"cells": [{"cell_type": "code", "input": "x = 1"}, 5, null]}, 3]}'
    assert read("a.ipynb", old).text == "```\nx = 1\n```"
    for broken in ("[1]", "{", '"x"'):
        with pytest.raises(Unreadable, match="not a notebook"):
            read("a.ipynb", broken)


def test_source_code_is_titled_by_its_file() -> None:
    for name in ("src/parser.py", "a/Makefile", "b.rs", "c.xml"):
        document = read(name, "x = 1\n")
        assert (document.title, document.text) == (Path(name).name, "x = 1\n")


@pytest.mark.parametrize(
    "stub",
    [
        "View in browser: https://example.org/n/1",
        "Your program cannot show this message. Please use another one to read it.",
        "The bridge at Linz is closed",
    ],
)
def test_a_page_that_says_more_than_its_text_is_read(stub: str) -> None:
    page = "<p>The bridge at Linz is closed from 7 June until autumn; ferries leave every half hour.</p>"
    text = read("a.eml", files.mail("News", stub, html=page)).text
    assert "ferries leave every half hour" in text
    assert text.count("The bridge") == 1
    full = "The bridge at Linz is closed from 7 June until autumn; ferries leave every half hour."
    assert read("a.eml", files.mail("News", full, html=page + "<p>Imprint</p>")).text.endswith(full)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.rst", ".. note:: x\n\nThe Rhine\n=========\n\nLong.\n"),
        ("a.rst", "*********\nThe Rhine\n*********\n\nPart\n----\n"),
        ("a.adoc", "// remark\n= The Rhine\n:toc:\n\n== Part\n"),
        ("a.org", "#+AUTHOR: Ada\n#+TITLE: The Rhine\n* Part\n"),
        ("a.org", "\n* The Rhine\nLong.\n"),
        ("a.tex", "\\documentclass{article}\n\\title[Rhine]{The Rhine}\n\\section{Part}\n"),
        ("a.md", "+++\ntitle = \"The Rhine\" # remark\n[extra]\n+++\n# Part\n"),
        ("a.md", "---\nlayout: x\ntitle: 'The Rhine'\n...\n# Part\n"),
        ("a.md", "---\n\"title\": \"The Rhine\"   # remark\n---\n# Part\n"),
        ("a.md", "---\nTitle: The Rhine # remark\n---\n# Part\n"),
        ("a.md", "---\nmeta:\n  title: No\ntitle: >-\n  The\n  Rhine\nx: 1\n---\n# Part\n"),
        ("a.md", "+++\ndraft = true\ntitle = 'The Rhine'\n[page]\ntitle = 'No'\n+++\n# Part\n"),
        ("a.md", "+++\n[page]\ntitle = 'No'\n+++\n# The Rhine\n"),
        ("a.md", '{\n  "draft": true, "title": "The Rhine"\n}\n\n# Part\n'),
        ("a.md", '{ "a" }\n# The Rhine\n'),
        ("a.md", '<p><img src="r.png"></p>\n<h1 align="center">The <i>Rhine</i></h1>\n\n## Part\n'),
        ("a.tex", r"\documentclass{article}\title{The \emph{Rhine}}\begin{document}\section{Part}Long."),
        ("a.md", "\n\n---\ntitle: The Rhine\n---\n# Part\n"),
        ("a.md", "% The Rhine\n% Ada\n\n# Part\n"),
        ("a.md", "Title: The Rhine\nAuthor: Ada\n\n# Part\n"),
        ("a.md", "# The [Rhine](https://q.example/r) ![map](m.png) {#rhine}\n"),
        ("a.md", '<h1 align="center">\n  <img src="r.png">\n  The Rhine\n</h1>\n\n## Part\n'),
        ("a.md", "# The Rhine\n\n<h1>\nPart\n</h1>\n"),
        ("a.qmd", "---\ntitle: The Rhine\n---\n# Part\n"),
        ("a.wiki", "= The Rhine =\nLong.\n"),
        ("a.tex", "% \\title{No}\n\\title[R]{The\n  Rhine}\n"),
        ("a.tex", r"\begin{document}\section* {The Rhine}Long \% \section{Part}"),
    ],
)  # fmt: skip
def test_the_title_that_a_text_marks(name: str, text: str) -> None:
    assert read(name, text).title == "The Rhine"


def test_quotes_and_rules_are_no_titles() -> None:
    assert read("a.md", '---\ntitle: "The \\"old\\" Rhine"\n---\nx').title == 'The "old" Rhine'
    assert read("a.md", "---\ntitle: 'Ada''s Rhine'\n---\nx").title == "Ada's Rhine"
    assert read("b.rst", "Long.\n\n----\n\n* Wide.\n* Deep.\n").title == "b"
    assert (
        read("b.ipynb", files.notebook(("raw", "---\ntitle: The Rhine\n---"), ("markdown", "# Part"))).title
        == "The Rhine"
    )
    assert read("b.adoc", "Long.\n").title == "b"
    assert read("b.md", '{"title": "No"}\n').text == '{"title": "No"}\n'
    assert "{" not in read("b.md", '{"title": "Rhine"}\r\nLong.').text
    assert read("b.md", "# list<T>\n").title == "list<T>"
    assert read("b.md", "+++\nnothing of this kind\n+++\n").text.startswith("+++")


BRINE = "   * - Fluid\n     - Seal\n   * - Brine\n     - Viton,\n       black\n"
LISTED = f".. list-table::\n   :header-rows: 1\n\n{BRINE}   * - Diesel\n     - Neoprene\n"
RULED = "  ====  =====\n  Bolt  Nm\n  ====  =====\n  M10   46\n  M12   117,\n        oiled\n  ====  =====\n"
BARRED = ":unit: tonnes\n= Crane\n|===\n|Radius |Load\n\n|10 m\n|12 {unit}\n|20 m |5 \\| 6 {tare}\n|===\n"


VALUES = '.. csv-table::\n   :header: Bolt, Nm\n\n   M10, 46\n   M12, "117, oiled"\n'
TABULAR = r"""\begin{tabular}{@{}l S[table-format=1.2]@{}}  % 99
\toprule \textbf{Fluid} & {Price} \\
\midrule
Brine & \$4.50 \\[2pt]

Oil \& gas & \SI{7}{EUR} \\ \cmidrule(lr){1-2}
\multicolumn{2}{c}{3 in all} \\
\end{tabular}
"""


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.rst", LISTED, {6: "Fluid: Brine; Seal: Viton, black", 9: "Fluid: Diesel; Seal: Neoprene"}),
        ("a.rst", RULED, {2: "Bolt | Nm", 4: "Bolt: M10; Nm: 46", 5: "Bolt: M12; Nm: 117, oiled"}),
        ("a.adoc", BARRED, {6: "Radius: 10 m; Load: 12 tonnes", 8: "Radius: 20 m; Load: 5 | 6 {tare}"}),
        ("a.rst", VALUES, {2: "Bolt | Nm", 4: "Bolt: M10; Nm: 46", 5: "Bolt: M12; Nm: 117, oiled"}),
        ("a.rst", f"{VALUES}   M14, {'9' * 200_000}\n", {4: "Bolt: M10; Nm: 46"}),
        ("a.adoc", ",===\nBolt,Nm\nM10,46\n,===\n", {3: "Bolt: M10; Nm: 46"}),
        ("a.adoc", '[%header,format=csv]\n|===\nBolt,Nm\nM12,"7, oiled"\n|===\n', {4: "Bolt: M12; Nm: 7, oiled"}),
        ("a.tex", TABULAR, {2: "Fluid | Price", 4: "Fluid: Brine; Price: $4.50", 6: "Fluid: Oil & gas; Price: 7 EUR"}),
        ("a.tex", TABULAR, {7: "Fluid: 3 in all"}),
    ],
)
def test_rows_of_written_tables_name_their_columns(name: str, content: str, rows: dict[int, str]) -> None:
    lines = read(name, content.replace("\n", "\r\n")).text.replace("\r", "").split("\n")
    assert {number: lines[number - 1] for number in rows} == rows
    assert len(lines) == len(content.split("\n"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.md", "\n3 gates.<!--\n5 -->\n\n```\n<!-- kept -->\n```\n`<!-- kept -->`<!--5-->\n<!-- kept"),
        ("a.adoc", "// 5 gates\n3 gates.\n\n////\n5\n\n5\n////\n\n----\n// kept\n----\nhttp://kept"),
        ("a.rst", "\n3 gates.\n\n.. 5 gates\n\n   and 5\n\n.. note:: kept\n\n.. _kept:\n"),
        ("a.org", "# 5\n3 gates.\n#+BEGIN_COMMENT\n5\n#+END_COMMENT\n#+begin_src sh\n# kept\n#+end_src\n* kept"),
        ("a.tex", "%5\n3 gates.%5\n\\begin{verbatim}\n% kept\n\\end{verbatim}\n\\% kept\\url{a%kept}\\verb|% kept|"),
    ],
)
def test_a_remark_is_no_text_but_in_code(name: str, content: str) -> None:
    text = read(name, content).text
    assert (text.split("\n")[1].strip(), len(text.split("\n"))) == ("3 gates.", len(content.split("\n")))
    assert (text.count("kept"), "5" in text) == (content.count("kept"), False)


def test_a_table_of_html_in_markdown_has_rows_and_lines_but_not_in_code() -> None:
    table = "<table>\n<tr><th>Gate<th>Width</tr>\n<tr><td>East<td>14 m</tr>\n</table>"
    text = f"It is so.\n\n{table}\n\n```html\n{table}\n```\nThe end.\n"
    assert read("a.md", text).text == text.replace(table, "Gate | Width\nGate: East; Width: 14 m\n\n", 1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.rst", LISTED.replace("   :header-rows: 1\n", "")), ("a.rst", "=====  ===\nM10    46\n=====  ===\n"),
        ("a.rst", f"{LISTED}     - black\n     - red\n"), ("a.adoc", "|===\n|===\n"),
    ],
)  # fmt: skip
def test_a_table_without_names_stays_as_it_was_written(name: str, content: str) -> None:
    assert content.splitlines()[-2:] == read(name, content).text.splitlines()[-2:]


def test_a_reader_that_does_not_fit_is_named_and_no_file_is_called_damaged() -> None:
    for reader, why in (("none", "mail.py is no reader: it has no none"), ("calendar", "mail.py: calendar.. takes 1")):
        with pytest.raises(ConfigurationError, match=why):
            read_as(Format((".x",), f"mail.{reader}"), b"x")
    with pytest.raises(ConfigurationError, match=r"result.py: Placed gave .*, not a Read"):
        read_as(Format((".x",), "result.Placed"), b"x")

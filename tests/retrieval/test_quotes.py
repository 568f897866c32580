"""Where a quote stands in its file."""

from __future__ import annotations

from pathlib import Path

import pytest

import reground
from reground.core.answers import Answer, Citation, Sentence
from reground.models.scripted import ScriptedModel
from reground.retrieval.quotes import Places, located
from reground.retrieval.reading.result import MOST_ROWS, Table, Text
from tests.retrieval.corpora import write
from tests.retrieval.files import docx, epub, notebook, open_document, paragraph, pdf, pptx, table, xlsx

TEXT = "# Danube\n\nThe Danube flows through Vienna, where\nmany bridges cross it. It is\n2850 km long.\n"


@pytest.mark.parametrize(
    ("quote", "line"),
    [
        ("The Danube flows through Vienna, where many bridges cross it.", 3),
        ("It is 2850 km long.", 4),
        ("It is [not] there.", None),
        ("", None),
    ],
)
def test_a_quote_is_found_whatever_its_line_breaks(quote: str, line: int | None) -> None:
    assert Places(TEXT, has_lines=True).of(quote).get("line") == line


def test_ask_gives_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "danube.md").write_text(TEXT)
    result = reground.ask(
        "How long is the Danube?", method="rag", model=ScriptedModel(["The Danube is 2850 km long [1]."]),
        corpus=tmp_path / "docs", home=tmp_path / "home",
    )  # fmt: skip
    ((quote,),) = (sentence.supports for sentence in result.sentences)
    assert (quote.url, quote.line, quote.quote) == ("danube.md", 4, "It is 2850 km long.")
    assert result.to_dict()["sentences"][0]["supports"][0]["line"] == 4
    assert result.answered and result.faithfulness == 1.0


def at(quote: str, url: str, corpus: Path) -> Citation:
    """Where a quote of this address is found."""
    cited = Citation(marker=1, passage_id=url, url=url, quote=quote)
    answer = Answer(text="Long.", sentences=(Sentence(text="Long.", score=1.0, supports=(cited,)),))
    ((found,),) = (sentence.supports for sentence in located(answer, corpus).sentences)
    return found


def test_a_quote_of_a_pdf_has_a_page_and_one_of_mail_a_line(tmp_path: Path) -> None:
    mail = "From: a@example.org\nDate: today\n\nThe Danube is long.\n"
    write(tmp_path, {"a.PDF": pdf(["The Seine is short.", "The Danube is long."]), "1:2,S": mail})
    found = at("The Danube is long.", "a.PDF", tmp_path)
    assert (found.page, found.line) == (2, None)
    assert at("The Danube is long.", "1:2,S", tmp_path).line == 4


@pytest.mark.parametrize("url", ["gone.md", "binary.md", "changed.md", "../secret.md", "https://example.org/a"])
def test_what_does_not_hold_the_quote_has_no_line(url: str, tmp_path: Path) -> None:
    files = {"docs/binary.md": b"\0\1\2", "docs/changed.md": "It was changed.", "secret.md": "It is long."}
    write(tmp_path, files)
    found = at("It is long.", url, tmp_path / "docs")
    assert (found.line, found.page, found.heading) == (None, None, "")


GUIDE = """---
title: Guide
# no heading: x
---
# Guide

## Install

```sh
# no heading
```

It is quick.

### Linux

It is easy.

## Use

It is fun.
"""


@pytest.mark.parametrize(
    ("quote", "line", "heading"),
    [
        ("It is quick.", 13, "Guide > Install"),
        ("It is easy.", 17, "Guide > Install > Linux"),
        ("It is fun.", 21, "Guide > Use"),
        ("title: Guide", None, ""),  # of the front matter, which no passage holds
        ("Guide", 5, "Guide"),
    ],
)
def test_a_place_in_markdown_has_the_headings_above_it(quote: str, line: int, heading: str, tmp_path: Path) -> None:
    found = at(quote, "guide.md", write(tmp_path, {"guide.md": GUIDE}))
    assert (found.line, found.heading, found.fragment) == (line, heading, None)


PAGE = """<html><head><title>It is fun.</title></head><body><h1>Guide</h1><p>Of <b>rivers</b>.</p>
<section id="install"><h2>Install</h2><p>It <i>is</i>
quick.</p><h3><a name="linux"></a>Linux</h3><script>h = "It is easy."</script>Yes. It is easy.</section>
<h2>Use</h2><p>It is fun.</p></body></html>"""


@pytest.mark.parametrize(
    ("quote", "heading", "fragment"),
    [
        ("Of rivers.", "Guide", None),
        ("It is quick.", "Guide > Install", "install"),
        ("It is easy.", "Guide > Install > Linux", "linux"),
        ("Yes.", "Guide > Install > Linux", "linux"),
        ("It is fun.", "Guide > Use", "linux"),
        ("It is gone.", "", None),
    ],
)
def test_a_place_in_html_has_the_nearest_id(quote: str, heading: str, fragment: str | None, tmp_path: Path) -> None:
    found = at(quote, "page.html", write(tmp_path, {"page.html": PAGE}))
    assert (found.line, found.heading, found.fragment) == (None, heading, fragment)


SHEETS = xlsx(
    {
        "Rivers": '<row r="2"><c t="str"><v>river</v></c><c t="str"><v>km</v></c></row>'
        '<row r="9"><c t="str"><v>Danube</v></c><c><v>2850</v></c></row>',
        "Lakes": '<row><c t="str"><v>Lake Neusiedl</v></c></row>',
    }
)
ROW = "<table:table-row{}>{}</table:table-row>"
CELL = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
CALC = open_document(
    '<office:spreadsheet><table:table table:name="Rivers">'
    + ROW.format("", CELL.format("river") + CELL.format("km"))
    + ROW.format(' table:number-rows-repeated="6"', "<table:table-cell/>")
    + ROW.format("", CELL.format("Danube") + CELL.format("2850"))
    + "</table:table></office:spreadsheet>"
)
LETTER = docx(
    paragraph("Dear reader,") + paragraph("it is long.") + paragraph("Guide", "berschrift1")
    + paragraph("It is easy.") + table(("river", "km"), ("Danube", "2850"))
)  # fmt: skip
TALK = open_document(
    "<office:presentation>"
    + "".join(f"<draw:page><text:p>{said}</text:p></draw:page>" for said in ("It is short.", "It is long."))
    + "</office:presentation>"
)
BOOK = epub({"a": "<h1>The Storm</h1><p>It was night.</p>", "b": f"<p>{'On and on. ' * 9}It is long.</p>"})
CELLS = notebook(("markdown", "# Rivers"), ("code", "length = 2850"), ("markdown", "It is long."))


@pytest.mark.parametrize(
    ("name", "content", "quote", "place", "heading"),
    [
        ("a.pptx", pptx([["It is short."], ["Title", "It is long."]]), "It is long.", "slide 2", ""),
        ("a.odp", TALK, "It is long.", "slide 2", ""),
        ("a.xlsx", SHEETS, "river: Danube; km: 2850", "Rivers, row 9", ""),
        ("a.xlsx", SHEETS, "river | km", "Rivers, row 2", ""),
        ("a.xlsx", SHEETS, "Lake Neusiedl", "Lakes, row 1", ""),
        ("a.ods", CALC, "river: Danube; km: 2850", "Rivers, row 8", ""),
        ("a.csv", "river,km\n\nSeine,775\nDanube,2850\n", "river: Danube; km: 2850", "row 4", ""),
        ("a.csv", f"said,n\n{'so ' * 20},1\n{'so ' * 20},2\n", f"said: {'so ' * 19}so; n: 2", "row 3", ""),
        ("a.tsv", 'river\tsaid\nSeine\t"It\nis."\nDanube\tlong\n', "river: Danube; said: long", "row 3", ""),
        ("a.docx", LETTER, "it is long.", "paragraph 2", ""),
        ("a.docx", LETTER, "It is easy.", "paragraph 4", "Guide"),
        ("a.docx", LETTER, "river: Danube; km: 2850", "table 1, row 2", "Guide"),
        ("a.epub", BOOK, "It was night.", "part 1", "The Storm"),
        ("a.epub", BOOK, "It is long.", "part 2", "The Storm"),
        ("a.ipynb", CELLS, "length = 2850", "cell 2", "Rivers"),
        ("a.ipynb", CELLS, "It is long.", "cell 3", "Rivers"),
        ("a.json", '{"long": "It is long."}', "long: It is long.", "", ""),
        ("a.rst", "=====\nGuide\n=====\n\nUse\n---\n\nIt is fun.\n\nMore\n----\n\nIt is long.\n", "It is long.", "",
         "Guide > More"),
        ("a.adoc", "= Guide\n\n== Use\n\nIt is fun.\n\n=== More\n\nIt is long.\n", "It is long.", "",
         "Guide > Use > More"),
        ("a.org", "* Guide\n*bold* text\n** Use\nIt is long.\n", "It is long.", "", "Guide > Use"),
    ],
)  # fmt: skip
def test_a_quote_of_a_file_without_pages_has_a_place(
    name: str, content: str | bytes, quote: str, place: str, heading: str, tmp_path: Path
) -> None:
    found = at(quote, name, write(tmp_path, {name: content}))
    assert (found.place, found.heading, found.page) == (place, heading, None)


def test_of_too_many_places_the_last_are_not_told() -> None:
    text = Text()
    Table(text).extend((number, ["a"]) for number in range(MOST_ROWS))
    Table(text).extend([(MOST_ROWS, ["b"]), (0, ["c"])])
    assert text.read().places[-1][1] == ""

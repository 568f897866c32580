"""Where a quote stands in its file."""

from pathlib import Path

import pytest

from reground.core.answers import Answer, Citation, Sentence
from reground.retrieval.quotes import Places, locate
from reground.retrieval.reading.result import MOST_ROWS, Table, Text
from tests.retrieval.corpora import write
from tests.retrieval.files import docx, epub, notebook, open_document, paragraph, pdf, pptx, table, xlsx

TEXT = "# Danube\n\nThe Danube flows through Vienna, where\nmany bridges cross it. It is\n2850 km long.\n"


@pytest.mark.parametrize(
    ("quote", "line"),
    [
        ("The Danube flows through Vienna, where many", 3),
        ("It is 2850 km long.", 4),
        ("It is [not] so.", None),
        ("", None),
    ],
)
def test_a_quote_is_found_whatever_its_line_breaks(quote: str, line: int | None) -> None:
    assert Places(TEXT, has_lines=True).of(quote).get("line") == line


MAIL = "From: a@example.org\nDate: today\n\nThe Danube is long.\n"
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
PAGE = """<html><head><title>It is fun.</title></head><body><h1>Guide</h1><p>Of <b>rivers</b>.</p>
<section id="install"><h2>Install</h2><p>It <i>is</i>
quick.</p><h3><a name="linux"></a>Linux</h3><script>h = "It is easy."</script>Yes. It is easy.</section>
<h2>Use</h2><p>It is fun.</p></body></html>"""
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
BOOK = epub({"a": "<h1>The Storm</h1><p>It was night.</p>", "b": "<p>It is long.</p>"})
CELLS = notebook(("markdown", "# Rivers"), ("code", "length = 2850"), ("markdown", "It is long."))
RST = "=====\nGuide\n=====\n\nUse\n---\n\nIt is fun.\n\nMore\n----\n\nIt is long.\n"
ROWS = f"said,n\n\n{'so ' * 20},1\n{'so ' * 20},2\n"


@pytest.mark.parametrize(
    ("name", "content", "quote", "where"),
    [
        ("a.PDF", pdf(["The Seine is short.", "The Danube is long."]), "The Danube is long.", {"page": 2}),
        ("1:2,S", MAIL, "The Danube is long.", {"line": 4}),
        ("a.md", GUIDE, "It is quick.", {"line": 13, "heading": "Guide > Install"}),
        ("a.md", GUIDE, "It is easy.", {"line": 17, "heading": "Guide > Install > Linux"}),
        ("a.md", GUIDE, "It is fun.", {"line": 21, "heading": "Guide > Use"}),
        ("a.md", GUIDE, "title: Guide", {}),  # of the front matter, which no passage holds
        ("a.md", GUIDE, "Guide", {"line": 5, "heading": "Guide"}),
        ("a.rst", RST, "It is long.", {"line": 13, "heading": "Guide > More"}),
        ("a.adoc", "= Guide\n\n== Use\n\nIt is long.\n", "It is long.", {"line": 5, "heading": "Guide > Use"}),
        ("a.org", "* Guide\n*bold* text\n** Use\nIt is long.\n", "It is long.", {"line": 4, "heading": "Guide > Use"}),
        ("a.html", PAGE, "Of rivers.", {"heading": "Guide"}),
        ("a.html", PAGE, "It is quick.", {"heading": "Guide > Install", "fragment": "install"}),
        ("a.html", PAGE, "It is easy.", {"heading": "Guide > Install > Linux", "fragment": "linux"}),
        ("a.html", PAGE, "It is fun.", {"heading": "Guide > Use", "fragment": "linux"}),
        ("a.pptx", pptx([["It is short."], ["Title", "It is long."]]), "It is long.", {"place": "slide 2"}),
        ("a.odp", TALK, "It is long.", {"place": "slide 2"}),
        ("a.xlsx", SHEETS, "river: Danube; km: 2850", {"place": "Rivers, row 9"}),
        ("a.xlsx", SHEETS, "river | km", {"place": "Rivers, row 2"}),
        ("a.xlsx", SHEETS, "Lake Neusiedl", {"place": "Lakes, row 1"}),
        ("a.ods", CALC, "river: Danube; km: 2850", {"place": "Rivers, row 8"}),
        ("a.csv", ROWS, f"said: {'so ' * 19}so; n: 2", {"place": "row 4"}),
        ("a.tsv", 'river\tsaid\nSeine\t"It\nis."\nDanube\tlong\n', "river: Danube; said: long", {"place": "row 3"}),
        ("a.docx", LETTER, "it is long.", {"place": "paragraph 2"}),
        ("a.docx", LETTER, "It is easy.", {"place": "paragraph 4", "heading": "Guide"}),
        ("a.docx", LETTER, "river: Danube; km: 2850", {"place": "table 1, row 2", "heading": "Guide"}),
        ("a.epub", BOOK, "It was night.", {"place": "part 1", "heading": "The Storm"}),
        ("a.epub", BOOK, "It is long.", {"place": "part 2"}),
        ("a.ipynb", CELLS, "length = 2850", {"place": "cell 2", "heading": "Rivers"}),
        ("a.json", '{"long": "It is long."}', "long: It is long.", {}),
        ("binary.md", b"\0\1\2", "It is long.", {}),
        ("../secret.md", "It is long.", "It is long.", {}),
    ],
)
def test_a_quote_has_its_place(
    name: str, content: str | bytes, quote: str, where: dict[str, object], tmp_path: Path
) -> None:
    cited = Citation(marker=1, passage_id=name, url=name, quote=quote)
    answer = Answer(text="Long.", sentences=(Sentence(text="Long.", score=1.0, supports=(cited,)),))
    (tmp_path / "docs").mkdir()
    write(tmp_path / "docs", {name: content})
    ((found,),) = (sentence.supports for sentence in locate(answer, tmp_path / "docs").sentences)
    assert found == cited.model_copy(update={"fragment": None, **where})


@pytest.mark.parametrize("url", ["gone.md", "loop/a.md", "https://example.org/a"])
def test_what_is_no_file_has_no_place(url: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    cited = Citation(marker=1, passage_id=url, url=url, quote="It is long.")
    assert locate(Answer(text="Long.", quoted=(cited,)), tmp_path).quoted == (cited,)


def test_of_too_many_places_the_last_are_not_told() -> None:
    text = Text()
    Table(text).extend((number, ["a"]) for number in range(MOST_ROWS))
    Table(text).extend([(MOST_ROWS, ["b"]), (0, ["c"])])
    assert text.read().places[-1][1] == ""

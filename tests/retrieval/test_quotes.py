"""Where a quote stands in its file."""

from __future__ import annotations

from pathlib import Path

import pytest

import reground
from reground.core.answers import Answer, Citation, Sentence
from reground.models.scripted import ScriptedModel
from reground.retrieval.quotes import Places, located
from tests.retrieval.corpora import write
from tests.retrieval.files import pdf

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

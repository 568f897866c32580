"""Where a quote stands in its file."""

from __future__ import annotations

from pathlib import Path

import pytest

import reground
from reground.core.answers import Answer, Citation, Sentence
from reground.models.scripted import ScriptedModel
from reground.retrieval.quotes import line_of, located
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
    assert line_of(quote, TEXT) == line


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


def test_a_quote_of_a_pdf_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "a.PDF").write_bytes(pdf(["The Seine is short.", "The Danube is long."]))
    quote = Citation(marker=1, passage_id="a.PDF", url="a.PDF", quote="The Danube is long.")
    answer = Answer(text="Long.", sentences=(Sentence(text="Long.", score=1.0, supports=(quote,)),))
    ((found,),) = (sentence.supports for sentence in located(answer, tmp_path).sentences)
    assert (found.page, found.line) == (2, None)


def test_a_quote_of_a_message_without_a_suffix_has_a_line(tmp_path: Path) -> None:
    (tmp_path / "1:2,S").write_text("From: a@example.org\nDate: today\n\nThe Danube is long.\n")
    quote = Citation(marker=1, passage_id="1:2,S", url="1:2,S", quote="The Danube is long.")
    answer = Answer(text="Long.", sentences=(Sentence(text="Long.", score=1.0, supports=(quote,)),))
    ((found,),) = (sentence.supports for sentence in located(answer, tmp_path).sentences)
    assert found.line == 4


@pytest.mark.parametrize("content", [None, b"\0\1\2", b"It was changed."])
def test_a_file_that_is_gone_or_changed_has_no_line(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a.md").write_bytes(content)
    quote = Citation(marker=1, passage_id="a.md", url="a.md", quote="It is long.")
    answer = Answer(text="Long.", sentences=(Sentence(text="Long.", score=1.0, supports=(quote,)),))
    assert located(answer, tmp_path) == answer


def test_the_web_has_no_lines(tmp_path: Path) -> None:
    quote = Citation(marker=1, passage_id="a", url="https://example.org/a", quote="It is long.")
    answer = Answer(text="Long.", sentences=(Sentence(text="Long.", score=1.0, supports=(quote,)),))
    assert located(answer, tmp_path) == answer


def test_no_file_outside_the_corpus_is_read(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret.md").write_text("It is long.")
    quote = Citation(marker=1, passage_id="a", url="../secret.md", quote="It is long.")
    answer = Answer(text="Long.", sentences=(Sentence(text="Long.", score=1.0, supports=(quote,)),))
    assert located(answer, tmp_path / "docs") == answer


def at(quote: str, name: str, content: str, tmp_path: Path) -> Citation:
    (tmp_path / name).write_text(content)
    cited = Citation(marker=1, passage_id=name, url=name, quote=quote)
    answer = Answer(text="Long.", sentences=(Sentence(text="Long.", score=1.0, supports=(cited,)),))
    ((found,),) = (sentence.supports for sentence in located(answer, tmp_path).sentences)
    return found


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
    found = at(quote, "guide.md", GUIDE, tmp_path)
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
    found = at(quote, "page.html", PAGE, tmp_path)
    assert (found.line, found.heading, found.fragment) == (None, heading, fragment)

"""Where a quote stands in its file."""

from __future__ import annotations

from pathlib import Path

import pytest

import reground
from reground.app.locating import line_of, located
from reground.core.answers import Answer, Citation, Sentence
from reground.models.scripted import ScriptedModel
from tests.retrieval.test_documents import pdf

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

"""Folders in other scripts and encodings find what they hold, with the language named and without."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reground.retrieval.index import build_index, open_index
from reground.retrieval.settings import IndexSettings
from tests.retrieval import files, scripts
from tests.retrieval.corpora import write

FOLDERS = {
    "ja": (scripts.JAPANESE, scripts.JAPANESE_QUESTIONS),
    "zh": (scripts.CHINESE, scripts.CHINESE_QUESTIONS),
    "ru": (scripts.RUSSIAN, scripts.RUSSIAN_QUESTIONS),
}


def first(index: Path, questions: dict[str, str]) -> dict[str, str]:
    """The name of the file that comes first for each question."""
    retriever = open_index(index)
    found = {question: asyncio.run(retriever.retrieve(question, k=1)) for question in questions}
    return {question: Path(passages[0].id).stem if passages else "" for question, passages in found.items()}


@pytest.mark.parametrize("language", FOLDERS)
def test_every_format_holds_every_script(tmp_path: Path, language: str) -> None:
    texts, questions = FOLDERS[language]
    made = {
        "docx": lambda text: files.docx(files.paragraph(text)),
        "pptx": lambda text: files.pptx([(text,)]),
        "xlsx": lambda text: files.xlsx({"S": '<row><c r="A1" t="s"><v>0</v></c></row>'}, [text]),
        "odt": lambda text: files.open_document(f"<office:text><text:p>{text}</text:p></office:text>"),
        "epub": lambda text: files.epub({"a": f"<p>{text}</p>"}),
        "eml": lambda text: files.mail("s", text),
        "csv": lambda text: f"a,b\n{text},x\n".encode(),
        "json": lambda text: b'{"a": "%s"}' % text.encode("ascii", "backslashreplace"),
        "ipynb": lambda text: files.notebook(("markdown", text)).encode(),
    }  # fmt: skip
    kinds = list(made)
    folder = {f"{name}.{kinds[n % 9]}": made[kinds[n % 9]](text) for n, (name, text) in enumerate(texts.items())}
    write(tmp_path / "docs", folder)
    assert not build_index(tmp_path / "docs", tmp_path / "idx", IndexSettings(language="ru")).skipped
    assert first(tmp_path / "idx", questions) == questions

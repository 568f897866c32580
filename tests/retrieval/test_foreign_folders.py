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


@pytest.mark.parametrize(
    ("language", "encoding"),
    [
        ("ja", "utf-8"), ("ja", "shift_jis"), ("ja", "euc_jp"), ("zh", "utf-8"), ("zh", "gb18030"), ("zh", "utf-16"),
        ("ru", "utf-8"), ("ru", "cp1251"), ("ru", "koi8-r"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("named", [False, True])
def test_a_folder_in_another_script_and_encoding(tmp_path: Path, language: str, encoding: str, named: bool) -> None:
    texts, questions = FOLDERS[language]
    # The two that cp1251 and koi8-r lack are written as Russians write them there.
    plain = {name: text.replace("—", "-") for name, text in texts.items()} if encoding == "koi8-r" else texts
    plain = {n: t.replace("«", '"').replace("»", '"') for n, t in plain.items()} if encoding == "koi8-r" else plain
    write(tmp_path / "docs", {f"{name}.txt": text.encode(encoding) for name, text in plain.items()})
    settings = IndexSettings(language=language if named and language != "zh" else "en")
    report = build_index(tmp_path / "docs", tmp_path / "idx", settings)
    assert not report.skipped
    found = first(tmp_path / "idx", questions)
    right = [question for question in questions if found[question] == questions[question]]
    assert len(right) >= (len(questions) if named or language != "ru" else 5), (found, report.notes)


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

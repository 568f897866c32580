"""A reader of a new version reads the files of its kind again, and no others."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from pathlib import Path

import pytest

from reground.retrieval.index import build_index, open_index
from reground.retrieval.settings import IndexSettings, Kind
from tests.retrieval.corpora import WordEmbedder, write
from tests.retrieval.files import pdf

OLDER = "UPDATE files SET reader = reader - 1 WHERE name LIKE '%.pdf'"
OTHER_TEXTS = "UPDATE documents SET content = content - 1"
"""As if every document had been read with another text."""


def changed(index: Path, *statements: str) -> None:
    """Change an index's ledger, and what its manifest says of it."""
    manifest = json.loads((index / "manifest.json").read_text())
    ledger = index / manifest["generation"] / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(ledger)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    content = ledger.read_bytes()
    manifest["files"]["ledger.sqlite"] = {"size": len(content), "crc32": zlib.crc32(content)}
    (index / "manifest.json").write_text(json.dumps(manifest))


def test_files_of_a_kind_are_read_again_by_a_new_reader(tmp_path: Path) -> None:
    write(tmp_path / "notes", {"a.pdf": pdf(["Owls hoot."]), "b.PDF": pdf(["Owls fly."]), "cats.txt": "Cats purr."})
    build_index(tmp_path / "notes", tmp_path / "index")
    changed(tmp_path / "index", OTHER_TEXTS)
    assert build_index(tmp_path / "notes", tmp_path / "index").read == 0
    changed(tmp_path / "index", OLDER)
    again = build_index(tmp_path / "notes", tmp_path / "index")
    assert (again.read, again.kept, again.documents) == (2, 1, 3)
    assert build_index(tmp_path / "notes", tmp_path / "index").read == 0


def test_the_same_text_is_not_indexed_again(tmp_path: Path) -> None:
    write(tmp_path / "notes", {"a.pdf": pdf(["Owls hoot."])})
    first = build_index(tmp_path / "notes", tmp_path / "index")
    changed(tmp_path / "index", OLDER)
    again = build_index(tmp_path / "notes", tmp_path / "index")
    assert (again.read, again.name) == (0, first.name)


@pytest.mark.parametrize("kind", ["bm25", "dense"])
def test_an_index_by_words_of_other_terms_is_made_again(kind: Kind, tmp_path: Path) -> None:
    write(tmp_path / "notes", {"a.txt": "Owls hoot."})
    embedder = WordEmbedder()
    made = IndexSettings(kind=kind, embedder=None if kind == "bm25" else embedder.name)
    given = None if kind == "bm25" else embedder
    index = tmp_path / "index"
    first = build_index(tmp_path / "notes", index, made, embedder=given)
    manifest = json.loads((index / "manifest.json").read_text())
    manifest["terms"] = 1
    (index / "manifest.json").write_text(json.dumps(manifest))
    assert open_index(index, embedder=given).name == first.name
    again = build_index(tmp_path / "notes", index, made, embedder=given)
    assert (again.read, again.name) == (int(kind == "bm25"), first.name)

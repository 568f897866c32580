"""An index of vectors is tied to the weights of its embedder, which training may replace in the same folder."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from reground.core.errors import IndexRefused
from reground.retrieval.embedders import create_embedder
from reground.retrieval.index import build_index, open_index
from reground.retrieval.settings import IndexSettings
from tests.retrieval.corpora import WordEmbedder, write

pytest.importorskip("lancedb", reason="needs the extra [dense]")
DENSE = IndexSettings(kind="dense", embedder="openai/words")


class Weighted(WordEmbedder):
    def __init__(self, weights: str) -> None:
        super().__init__()
        self.weights = weights


async def test_other_weights_under_the_same_name_make_the_index_again(tmp_path: Path) -> None:
    notes = write(tmp_path / "notes", {"a.md": "# Cats\n\nCats purr.", "b.md": "# Dogs\n\nDogs bark."})
    first = await asyncio.to_thread(build_index, notes, tmp_path / "index", DENSE, embedder=Weighted("one"))
    same = Weighted("one")
    again = await asyncio.to_thread(build_index, notes, tmp_path / "index", DENSE, embedder=same)
    assert (again.read, again.name, same.texts) == (0, first.name, [])
    with pytest.raises(IndexRefused, match=r"other weights of openai/words.*build it again"):
        open_index(tmp_path / "index", embedder=Weighted("two"))
    trained = Weighted("two")
    other = await asyncio.to_thread(build_index, notes, tmp_path / "index", DENSE, embedder=trained)
    assert (other.read, len(trained.texts)) == (2, 2)
    assert other.name != first.name
    assert len(await open_index(tmp_path / "index", embedder=trained).retrieve("cats", k=2)) == 2


def test_the_weights_of_a_folder_are_known_without_loading_them(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"one")
    embedder = create_embedder(f"st/{tmp_path}")
    before = embedder.weights
    assert before == create_embedder(f"st/{tmp_path}").weights
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert create_embedder(f"st/{tmp_path}").weights != before
    assert create_embedder("st/some/model-of-a-hub").weights is None


@pytest.mark.parametrize(
    ("model", "file"),
    [
        ("st", "query_0_StaticEmbedding/model.safetensors"),
        ("onnx", "onnx/model.onnx"),
        ("onnx", "1_Pooling/config.json"),
    ],
)
def test_the_weights_of_a_folder_are_those_of_its_parts_too(model: str, file: str, tmp_path: Path) -> None:
    write(tmp_path, {"model.safetensors": "one"})
    flat = create_embedder(f"{model}/{tmp_path}").weights
    assert flat == hashlib.blake2b(b"model.safetensors\x003\x00one", digest_size=16).hexdigest()
    write(tmp_path, {"checkpoint-500/model.safetensors": "of a training that goes on"})
    assert create_embedder(f"{model}/{tmp_path}").weights == flat
    write(tmp_path, {file: "one"})
    before = create_embedder(f"{model}/{tmp_path}").weights
    write(tmp_path, {file: "two"})
    assert len({flat, before, create_embedder(f"{model}/{tmp_path}").weights}) == 3

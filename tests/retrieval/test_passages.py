"""Pages put together from passages, and rankings joined."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.evidence import Pages, Passage
from reground.retrieval.build import passages_of
from reground.retrieval.chunking import MOST, reciprocal_rank_fusion, whole
from reground.retrieval.documents import Document
from reground.retrieval.index import build_index, open_index
from reground.retrieval.settings import IndexSettings
from tests.retrieval.corpora import WordEmbedder, jsonl, write

LONG = "# Rivers\n\n" + "\n\n".join(f"Paragraph {i} is about river number {i}, it's long." for i in range(30))


@pytest.mark.parametrize("kind", ["bm25", "dense", "hybrid"])
async def test_an_index_opens_the_page_of_a_passage(tmp_path: Path, kind: str) -> None:
    embedder = None
    if kind != "bm25":
        pytest.importorskip("lancedb", reason="needs the extra [dense]")
        embedder = WordEmbedder()
    files = {"long.md": LONG, "short.md": "Rivers flow.", "c.jsonl": jsonl([{"id": "long.md#9", "text": "Odd river."}])}
    write(tmp_path / "notes", files)
    name = None if embedder is None else embedder.name
    settings = IndexSettings(kind=kind, embedder=name, chunk_tokens=40, overlap=8)  # type: ignore[arg-type]
    await asyncio.to_thread(build_index, tmp_path / "notes", tmp_path / "index", settings, embedder=embedder)
    retriever = open_index(tmp_path / "index", embedder=embedder)
    assert isinstance(retriever, Pages)
    page = await retriever.page("long.md#3")
    assert page is not None
    assert (page.id, page.title, page.url) == ("long.md", "Rivers", "long.md")
    assert page.text.split() == LONG.split()
    short = await retriever.page("short.md")
    assert short is not None and (short.id, short.text) == ("short.md", "Rivers flow.")
    odd = await retriever.page("long.md#9")
    assert odd is not None and odd.text == "Odd river.", "an id that is a document's own comes first"
    assert await retriever.page("nowhere#1") is None


@given(st.lists(st.sampled_from(["river", "lake", "is", "long.", "\n\n", "a"]), max_size=80), st.integers(0, 6))
def test_a_page_has_every_word_of_its_document_once(words: list[str], overlap: int) -> None:
    text = " ".join(f"{i}{word}" if word.strip() else word for i, word in enumerate(words))  # no two words are alike
    pieces = [passage for passage, _ in passages_of(Document("d", "t", text), 12, overlap)]
    if pieces:
        assert whole(pieces[::-1], "d", around="d#1", overlapping=overlap > 0).text.split() == text.split()


@pytest.mark.parametrize("overlap", [0, 20])
def test_a_page_has_the_head_of_a_long_table_once(overlap: int) -> None:
    text = "Words.\n\n| Port | Depth |\n|---|---|\n" + "\n".join(f"| Port{n} | {n} m |" for n in range(60))
    pieces = [passage for passage, _ in passages_of(Document("d", "t", text), 60, overlap)]
    assert all(piece.text.startswith("| Port | Depth |") for piece in pieces[1:])
    assert whole(pieces, "d", around="d#1", overlapping=overlap > 0).text.split() == text.split()


def test_a_book_is_opened_around_the_passage() -> None:
    pieces = [Passage(id=f"d#{i}", text=f"w{i}") for i in range(1, 201)]
    words = whole(pieces, "d", around="d#120", overlapping=True).text.split()
    assert len(words) == MOST and "w120" in words
    assert whole(pieces, "d", around="d#200", overlapping=True).text.split()[-1] == "w200"


def test_pieces_beside_one_that_was_left_out_share_nothing() -> None:
    pieces = [Passage(id="d#1", text="It is a"), Passage(id="d#3", text="a lake.")]
    assert whole(pieces, "d", around="d#1", overlapping=True).text == "It is a\na lake."


RANKINGS = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=10), min_size=1, max_size=5)


@given(RANKINGS, st.randoms())
def test_the_order_of_the_rankings_makes_no_difference(rankings: list[list[int]], random: object) -> None:
    shuffled = list(rankings)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert reciprocal_rank_fusion(shuffled) == reciprocal_rank_fusion(rankings)


def test_rankings_are_joined_by_the_formula_and_an_item_counts_once_in_each() -> None:
    fused = dict(reciprocal_rank_fusion([["a", "b"], ["b", "c"]], k=60))
    assert fused == pytest.approx({"b": 1 / 62 + 1 / 61, "a": 1 / 61, "c": 1 / 62})
    assert list(fused) == ["b", "a", "c"]
    assert reciprocal_rank_fusion([["a", "a", "b"]]) == reciprocal_rank_fusion([["a", "b"]])
    assert reciprocal_rank_fusion([[], []]) == reciprocal_rank_fusion([]) == []

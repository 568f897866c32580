from hashlib import sha256
from pathlib import Path

import pytest

from reground.core.answers import Answer
from reground.core.errors import DataError
from reground.core.evidence import Pages, Passage, SearchResults, Skipped
from reground.core.files import replace_lines, with_sum, without_sum
from reground.core.run import Run
from reground.core.trajectory import Trajectory
from reground.methods.rewrite_retrieve_read import open_pages
from reground.web.frozen import UNKEPT, FrozenRetriever, searches, write

SNIPPET = Passage(id="https://a/1", text="A snippet of the bridge.", title="Bridge", url="https://a/1")
READ = Passage(id="https://a/2", text="The tower of 1889.", title="Tower", url="https://a/2", fetched="2026-01-01")
GONE = Skipped(skipped="https://a/3", why="its server answered 410")


class Web:
    def __init__(self, private: bool) -> None:
        self.name = f"web:listed{' (private)' if private else ''} pages 200 words"

    async def retrieve(self, query: str, /, *, k: int) -> SearchResults:
        return SearchResults([SNIPPET, READ][:k], [GONE])

    async def page(self, passage_id: str, /) -> Passage | None:
        return READ.model_copy(update={"text": "The whole page.", "id": passage_id})


async def trajectory(*, private: bool = False) -> Trajectory:
    run, web = Run(), Web(private)
    found = await run.retrieve(web, "bridge", k=2)
    await run.retrieve(web, "bridge", k=2)
    await open_pages(run, web, [found[1:]])
    return Trajectory(id="1", question="q", method="m", steps=run.steps, answer=Answer(text="a"))


async def frozen(path: Path, *, private: bool = False, all_texts: bool = False) -> FrozenRetriever:
    found = searches([await trajectory(private=private)], all_texts=all_texts)
    assert write(path, found, made="2026-01-02") == 2
    return FrozenRetriever(path)


async def test_the_same_search_finds_the_same(tmp_path: Path) -> None:
    snapshot = await frozen(tmp_path / "web.jsonl")
    assert isinstance(snapshot, Pages)
    assert snapshot.name == "web:listed pages 200 words"
    found = await snapshot.retrieve("bridge", k=2)
    assert found == (SNIPPET, READ) and found.skipped == (GONE,)
    opened = await snapshot.page(READ.id)
    assert opened is not None and opened.text == "The whole page."
    assert await snapshot.page("https://a/9") is None


async def test_another_query_finds_the_closest_texts(tmp_path: Path) -> None:
    snapshot = await frozen(tmp_path / "web.jsonl")
    assert [p.id for p in await snapshot.retrieve("which tower", k=3)] == [READ.id]
    assert list(await snapshot.retrieve("nothing alike", k=3)) == []


async def test_a_snippet_whose_engine_forbids_it_is_not_kept(tmp_path: Path) -> None:
    snapshot = await frozen(tmp_path / "web.jsonl", private=True)
    assert "snippet of" not in (tmp_path / "web.jsonl").read_text()
    found = await snapshot.retrieve("bridge", k=2)
    assert found == (READ,)
    assert found.skipped == (GONE, Skipped(skipped=SNIPPET.id, why=UNKEPT))
    own = await frozen(tmp_path / "own.jsonl", private=True, all_texts=True)
    assert await own.retrieve("bridge", k=2) == (SNIPPET, READ)


async def test_a_text_that_is_not_the_one_that_was_found_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "web.jsonl"
    await frozen(path)
    lines = [without_sum(line).decode() for line in path.read_bytes().splitlines()]
    for old, new in (("The tower of 1889.", "The tower of 1989."), (sha256(READ.text.encode()).hexdigest(), "0" * 64)):
        replace_lines(path, [with_sum(line.replace(old, new)) for line in lines])
        with pytest.raises(DataError, match="hash"):
            FrozenRetriever(path)


async def test_what_is_no_snapshot_is_said(tmp_path: Path) -> None:
    path = tmp_path / "web.jsonl"
    with pytest.raises(DataError, match="reground freeze"):
        FrozenRetriever(path)
    for lines in (["{}"], ['{"kind":"snapshot","version":9,"made":""}'], ['{"kind":"snapshot","made":""}', "{}"]):
        replace_lines(path, map(with_sum, lines))
        with pytest.raises(DataError, match=r"snapshot"):
            FrozenRetriever(path)
    path.write_bytes(b"\n")
    with pytest.raises(DataError, match="nothing is in it"):
        FrozenRetriever(path)


async def test_searches_of_documents_are_left_out() -> None:
    found = (await trajectory()).model_copy(
        update={"steps": tuple(s.model_copy(update={"retriever": "bm25@1"}) for s in (await trajectory()).steps)}
    )
    assert list(searches([found])) == []

"""The rows a retriever is trained on: negatives are wrong, and the same seed gives the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reground.core.errors import DataError
from reground.retrieval.index import build_index, open_index
from reground.retrieval.retriever import IndexRetriever
from reground.retrieval.settings import IndexSettings
from reground.training.retriever import data
from reground.training.retriever.data import Contrast, Mined, Pieces, Question, is_held_out, mine
from reground.training.retriever.folder import Config, TrainingFolder
from reground.training.retriever.questions import clozes, documents_of, own_questions
from reground.training.retriever.settings import Mining
from reground.training.rows import read_rows, write_rows
from tests.retrieval.corpora import jsonl, write

PIECES = Pieces(size=60, overlap=0)
TOWERS = [
    {"id": f"t{n}", "title": f"Tower {n}", "text": f"The iron tower number {n} was built by Maker{n} in {1900 + n}."}
    for n in range(30)
]
TWIN = {"id": "twin", "title": "A copy", "text": "The copy of the iron tower number 3 was built by Maker3 as well."}
LONG = {
    "id": "long",
    "title": "Iron tower chronicle",
    "text": " ".join(f"Chapter {n} tells of other matters of the town, its fairs and its people." for n in range(20))
    + " At last the chronicle says that the gate was built by Maker77.",
}


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> IndexRetriever:
    folder = tmp_path_factory.mktemp("towers")
    write(folder / "docs", {"towers.jsonl": jsonl([*TOWERS, TWIN, LONG])})
    build_index(folder / "docs", folder / "index", IndexSettings(chunk_tokens=60, overlap=0))
    return open_index(folder / "index")


def questions(count: int = 30) -> list[Question]:
    return [
        Question(id=f"q{n}", text=f"Who built the iron tower number {n}?", gold=(f"t{n}",), answers=(f"Maker{n}",))
        for n in range(count)
    ]


def all_rows(mined: Mined) -> list[Contrast]:
    return mined.rows + mined.held_out


async def test_negatives_are_ranked_high_by_bm25_and_never_right(towers: IndexRetriever) -> None:
    mined = await mine(questions(), towers, PIECES, Mining(negatives=4, depth=8))
    rows = all_rows(mined)
    assert len(rows) == 30
    for row in rows:
        number = row.question.removeprefix("q")
        assert row.positive_id == f"t{number}"
        assert row.positive.startswith(f"Tower {number}\nThe iron tower")
        assert len(row.negatives) == len(set(row.negative_ids)) == 4
        assert row.positive_id not in row.negative_ids
        assert not any(f"Maker{number} " in text for text in row.negatives)
        top = [passage.id for passage in await towers.retrieve(row.anchor, k=8)]
        assert set(row.negative_ids) <= set(top)
    (third,) = [row for row in rows if row.question == "q3"]
    assert "twin" in [passage.id for passage in await towers.retrieve(third.anchor, k=8)]
    assert "twin" not in third.negative_ids  # it holds the answer


async def test_two_gold_passages_make_two_rows_with_other_negatives(towers: IndexRetriever) -> None:
    asked = [Question(id="both", text="Who built the iron towers 1 and 2?", gold=("t1", "t2"))]
    mined = await mine(asked, towers, PIECES, Mining(negatives=3, held_out=0))
    assert [row.positive_id for row in mined.rows] == ["t1", "t2"]
    first, second = (set(row.negative_ids) for row in mined.rows)
    assert not first & second
    assert not (first | second) & {"t1", "t2"}


async def test_the_piece_of_a_long_document_that_holds_the_answer_is_the_positive(towers: IndexRetriever) -> None:
    asked = [Question(id="gate", text="Who built the gate?", gold=("long",), answers=("Maker77",))]
    (row,) = (await mine(asked, towers, PIECES, Mining(held_out=0))).rows
    assert row.positive.startswith("Iron tower chronicle\n")
    assert "Maker77" in row.positive
    assert row.positive_id.startswith("long#")
    assert not any(id_.startswith("long") for id_ in row.negative_ids)


async def test_without_a_gold_passage_one_that_holds_the_answer_stands_in(towers: IndexRetriever) -> None:
    asked = [Question(id="a", text="iron tower number 7", gold=(), answers=("Maker7",))]
    asked += [Question(id="b", text="iron tower", gold=(), answers=("nobody at all",))]
    mined = await mine(asked, towers, PIECES, Mining(held_out=0))
    assert [row.positive_id for row in mined.rows] == ["t7"]
    assert mined.left_out["gold passages that the corpus lacks"] == 1


async def test_the_same_seed_gives_the_same_rows_and_another_one_others(towers: IndexRetriever) -> None:
    first, again, other = [await mine(questions(), towers, PIECES, Mining(seed=seed)) for seed in (1, 1, 2)]
    assert first == again
    assert all_rows(first) != all_rows(other)
    assert {row.question for row in first.held_out} != {row.question for row in other.held_out}


async def test_questions_are_held_out_whole_and_whatever_else_there_is(towers: IndexRetriever) -> None:
    mined = await mine(questions(), towers, PIECES, Mining(held_out=0.3))
    assert mined.held_out
    assert not {row.question for row in mined.rows} & {row.question for row in mined.held_out}
    few = await mine(questions(10), towers, PIECES, Mining(held_out=0.3))
    assert {row.question for row in few.held_out} == {
        row.question for row in mined.held_out if int(row.question[1:]) < 10
    }
    assert is_held_out("Who  BUILT it?", Mining(seed=4)) is is_held_out("who built it?", Mining(seed=4))


async def test_a_corpus_without_the_gold_passages_is_no_data(towers: IndexRetriever) -> None:
    with pytest.raises(DataError, match="no question has a gold passage in the corpus"):
        await mine([Question(id="x", text="iron", gold=("absent",))], towers, PIECES, Mining())


async def test_rows_are_flat_in_a_file_and_come_back(towers: IndexRetriever, tmp_path: Path) -> None:
    rows = (await mine(questions(12), towers, PIECES, Mining(negatives=11, depth=20))).rows
    write_rows(tmp_path / "rows.jsonl", rows)
    first = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])
    assert {"anchor", "positive", "negative_1", "negative_11", "question"} <= first.keys()
    assert first["negative_2"] == rows[0].negatives[1]
    assert read_rows(tmp_path / "rows.jsonl", Contrast) == rows


async def test_own_questions_name_documents_by_id_or_title(towers: IndexRetriever, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(jsonl([{"question": "a", "passage": "t3"}, {"question": "b", "passage": "tower 4", "id": "own"}]))
    found = await own_questions(file, towers)
    assert [(each.id, each.gold) for each in found] == [("line-1", ("t3",)), ("own", ("t4",))]
    file.write_text(jsonl([{"question": "a", "passage": "t3"}, {"question": "b", "passage": "Tower of Babel"}]))
    with pytest.raises(DataError, match=r"questions\.jsonl:2: the corpus has no document .* 'Tower of Babel'"):
        await own_questions(file, towers)


async def test_sentences_stand_in_for_questions(towers: IndexRetriever, tmp_path: Path) -> None:
    text = "The mill stands at the river. It grinds the flour of the whole valley. Nobody knows its age."
    docs = write(tmp_path / "docs", {f"mill{n}.txt": f"{text} It is number {n} of them." for n in range(20)})
    made = clozes(documents_of(docs), PIECES, count=12, seed=0)
    assert made == clozes(documents_of(docs), PIECES, count=12, seed=0)
    assert len({cloze.question.id for cloze in made}) == 12
    taken = [cloze for cloze in made if cloze.question.text not in cloze.passage.text]
    assert len(taken) >= 9
    assert all(len(cloze.question.text.split()) >= 4 for cloze in made)
    given = {cloze.question.id: cloze.passage for cloze in made}
    index = tmp_path / "index"
    build_index(docs, index)
    mined = await mine([cloze.question for cloze in made], open_index(index), PIECES, Mining(), given=given)
    for row in all_rows(mined):
        assert row.positive.endswith(given[row.question].text)
        assert row.positive_id not in row.negative_ids


def test_a_passage_of_one_sentence_gives_no_question(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", {"a.txt": "There is only one sentence here."})
    assert clozes(documents_of(docs), PIECES, count=5, seed=0) == []


async def test_the_passages_of_other_questions_are_looked_at_only_where_negatives_are_lacking(
    towers: IndexRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    may_answer = data._may_answer
    monkeypatch.setattr(data, "_may_answer", lambda *given: looked.append(given[0].id) or may_answer(*given))
    await mine(questions(), towers, PIECES, Mining(negatives=2, depth=6))
    assert len(looked) <= 6 * 30
    rows = all_rows(await mine(questions(), towers, PIECES, Mining(negatives=8, depth=4)))
    assert 0 < len(rows) < 30, "the first questions have no others before them"
    for row in rows:
        number = int(row.question.removeprefix("q"))
        earlier = {f"t{each}" for each in range(number)}
        assert len(earlier.intersection(row.negative_ids)) >= 4


class Counted(list):
    """Rows that count how often they are gone through."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def test_writing_the_data_goes_through_the_rows_a_few_times(tmp_path: Path) -> None:
    rows = Counted(Contrast(question=each.id, anchor=each.text, positive="p") for each in questions())
    config = Config(sources=(), mining={})
    TrainingFolder(tmp_path).write_data(config, {"": questions()}, {"": Mined(rows=rows)})
    assert len((tmp_path / "data" / "questions.jsonl").read_text().splitlines()) == 30
    assert rows.times < 10

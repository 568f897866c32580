from collections.abc import Mapping
from pathlib import Path

import pytest

from reground.core.answers import PHRASE
from reground.core.errors import DataError
from reground.core.evidence import Passage
from reground.evaluation.task import Score, Task
from reground.evaluation.tasks.qa import TASKS
from tests.evaluation.trajectories import answered, retrieval, write_jsonl


def question(id: str, text: str, golds: list[str], **metadata: object) -> dict[str, object]:
    return {"id": id, "question": text, "golden_answers": golds, "metadata": metadata}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_jsonl(
        tmp_path / "hotpotqa" / "questions.jsonl",
        [
            question("t1", "Which city?", ["Ghent"], split="train", gold_ids=["hp-1", "hp-2"]),
            question("d1", "Which year?", ["1564", "MDLXIV"], split="dev", gold_ids=["hp-1", "hp-2"], type="bridge"),
            question("d2", "Same country?", ["no"], split="dev", gold_ids=["hp-3", "hp-4"]),
        ],
    )
    write_jsonl(tmp_path / "hotpotqa" / "corpus.jsonl", [{"id": "hp-1", "title": "A", "text": "b"}])
    return tmp_path


async def scores(task: Task, index: int, text: str | None, *steps: object) -> Mapping[str, Score]:
    return await task.score(task.examples()[index], answered(text, *steps), None)  # type: ignore[arg-type]


def test_a_split_is_loaded_with_its_corpus(root: Path) -> None:
    dev, train = TASKS["hotpotqa"](root), TASKS["hotpotqa_train"](root)
    assert isinstance(dev, Task)
    assert [example.id for example in dev.examples()] == ["d1", "d2"]
    assert [example.id for example in train.examples()] == ["t1"]
    assert (dev.name, train.name, dev.primary, dev.form) == ("hotpotqa", "hotpotqa_train", "token F1", PHRASE)
    assert dev.corpus == root / "hotpotqa" / "corpus.jsonl"  # type: ignore[attr-defined]
    assert dev.examples()[0].metadata["type"] == "bridge"
    assert dev.solutions() == ["Which year?", "Same country?"]


async def test_the_phrase_is_scored_against_all_aliases(root: Path) -> None:
    task = TASKS["hotpotqa"](root)
    found = await scores(task, 0, "Some reasoning about 1999.\nAnswer: in MDLXIV")
    assert {name: score.value for name, score in found.items()} == {
        "exact match": 0.0,
        "cover-EM": 1.0,
        "token F1": pytest.approx(2 / 3),
        "hit": None,
        "gold recall": None,
        "abstained": 0.0,
    }
    assert found["hit"].why == found["gold recall"].why == "nothing was retrieved"
    assert set(found) == set(task.metrics)  # type: ignore[attr-defined]


async def test_what_was_retrieved_is_scored_over_all_steps(root: Path) -> None:
    first = retrieval(Passage(id="hp-9", text="born in 1600"), Passage(id="hp-2#3", text="x", title="The year 1564"))
    found = await scores(TASKS["hotpotqa"](root), 0, "Answer: 1564", first, retrieval("hp-2#1", "hp-12"))
    assert found["hit"].value == 1.0
    assert found["gold recall"].value == 0.5  # hp-2, by its pieces; hp-12 is not a piece of hp-1
    nothing = await scores(TASKS["hotpotqa"](root), 0, "Answer: 1564", retrieval())
    assert (nothing["hit"].value, nothing["gold recall"].value) == (0.0, 0.0)


async def test_what_cannot_be_scored_says_why(root: Path) -> None:
    task = TASKS["hotpotqa"](root)
    yes_no = await scores(task, 1, "Answer: no", retrieval("hp-3"))
    assert yes_no["hit"].value is None
    assert "no phrase" in yes_no["hit"].why
    assert yes_no["gold recall"].value == 0.5
    elsewhere = await scores(task, 0, "Answer: 1564", retrieval(Passage(id="wiki/7", text="1564")))
    assert elsewhere["hit"].value == 1.0
    assert elsewhere["gold recall"].value is None
    assert "another corpus" in elsewhere["gold recall"].why
    silent = await scores(task, 0, None)
    assert silent["token F1"] == Score(value=None, why="there is no answer")


async def test_gold_passages_known_in_part_are_left_out_of_recall(tmp_path: Path) -> None:
    folder = tmp_path / "2wikimultihopqa"
    gold = {"gold_ids": ["2w-1"], "split": "dev"}
    write_jsonl(
        folder / "questions.jsonl",
        [
            question("a", "q", ["x"], **gold, gold_titles_from="derived_incomplete"),
            question("b", "q", ["x"], **gold, gold_titles_from="derived"),
            question("c", "q", ["x"], split="dev", gold_ids=[]),
        ],
    )
    write_jsonl(folder / "corpus.jsonl", [{"id": "2w-1", "title": "", "text": "x"}])
    task = TASKS["2wikimultihopqa"](tmp_path)
    found = [(await scores(task, index, "x", retrieval("2w-1")))["gold recall"] for index in range(3)]
    assert [score.value for score in found] == [None, 1.0, None]
    assert "only in part" in found[0].why
    assert "not known" in found[2].why


async def test_popqa_trusts_the_subjects_passage_alone(tmp_path: Path) -> None:
    record = question("a", "What is X's job?", ["cook"], gold_ids=["pq-1", "pq-2"])
    write_jsonl(tmp_path / "popqa" / "questions_with_passages.jsonl", [record])
    write_jsonl(tmp_path / "popqa" / "corpus.jsonl", [{"id": "pq-1", "title": "", "text": "x"}])
    task = TASKS["popqa"](tmp_path)
    assert (await scores(task, 0, "cook", retrieval("pq-1")))["gold recall"].value == 1.0
    assert (await scores(task, 0, "cook", retrieval("pq-2")))["gold recall"].value == 0.0


def test_questions_about_namesakes_are_merged(tmp_path: Path) -> None:
    records = [
        question("1", "Who is X?", ["a", "b"]),
        question("2", "Y?", ["c"]),
        question("3", "Who is X?", ["b", "d"]),
    ]
    write_jsonl(tmp_path / "popqa" / "questions_all.jsonl", records)
    first, second = TASKS["popqa_all"](tmp_path).examples()
    assert (first.id, first.golden_answers, first.metadata) == ("1", ("a", "b", "d"), {"ambiguous": True})
    assert (second.id, second.metadata) == ("2", {})


def test_bracketed_alternatives_become_aliases(tmp_path: Path) -> None:
    golds = ["Detroit Red Wings (or Red Wings)"]
    write_jsonl(tmp_path / "bamtwoogle" / "questions.jsonl", [question("1", "q", golds), question("2", "r", ["b (c"])])
    first, second = TASKS["bamtwoogle"](tmp_path).examples()
    assert first.golden_answers == (*golds, "Detroit Red Wings", "Red Wings")
    assert second.golden_answers == ("b (c",)


@pytest.mark.parametrize(
    ("said", "value", "why"),
    [
        ("Answer: Yes, it could.", 1.0, ""), ("Answer: **no**", 0.0, ""), ("Answer: true", 1.0, ""),
        ("Answer: perhaps", 0.0, "neither yes nor no"), ("", 0.0, "neither yes nor no"), (None, None, "no answer"),
    ],
)  # fmt: skip
async def test_strategyqa_is_yes_or_no(tmp_path: Path, said: str | None, value: float | None, why: str) -> None:
    write_jsonl(tmp_path / "strategyqa" / "dev.jsonl", [{"id": "1", "question": "Q?", "golden_answers": [True]}])
    task = TASKS["strategyqa"](tmp_path)
    assert "yes" in task.form.instruction and "no" in task.form.short
    assert task.examples()[0].golden_answers == ("yes",)
    found = await scores(task, 0, said)
    assert list(found) == ["accuracy"] == [task.primary]
    assert found["accuracy"].value == value
    assert why in found["accuracy"].why


def test_an_absent_file_or_split_is_told(root: Path) -> None:
    with pytest.raises(DataError, match="--data DIR"):
        TASKS["musique"](root)
    path = write_jsonl(root / "hotpotqa" / "questions.jsonl", [question("1", "q", ["a"], split="train")])
    with pytest.raises(DataError, match="no questions of the split dev") as caught:
        TASKS["hotpotqa"](root)
    assert str(path) in str(caught.value)

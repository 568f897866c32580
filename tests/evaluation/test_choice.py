from pathlib import Path

import pytest

from reground.core.answers import CHOICE
from reground.evaluation.task import Task
from reground.evaluation.tasks.choice import TASKS, letters_of
from tests.evaluation.trajectories import answered, write_jsonl


def mmlu(id: str, subject: str, answer: str = "B") -> dict[str, object]:
    return {
        "id": id,
        "subject": subject,
        "question": f"Which {id}?",
        "choices": ["one", "two", "3", "4"],
        "answer": answer,
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "mmlu" / "test.jsonl", [mmlu("a", "astronomy"), mmlu("l", "professional_law", "D")])
    write_jsonl(tmp_path / "mmlu" / "dev.jsonl", [mmlu(f"{s}-dev", s) for s in ("astronomy", "philosophy", "virology")])
    options = ["(A)甲", "(B)乙", "(C)丙", "(D)丁"]
    base = {"passage": None, "question": " 下列正确的是 ", "options": options}
    write_jsonl(
        tmp_path / "agieval" / "jec-qa-kd.jsonl",
        [
            {**base, "id": "k0", "label": ["A", "C", "。"]},
            {**base, "id": "k1", "label": []},
            {**base, "id": "k2", "label": ["B"]},
        ],
    )
    write_jsonl(tmp_path / "agieval" / "jec-qa-ca.jsonl", [{**base, "id": "c0", "label": "B D"}])
    write_jsonl(tmp_path / "agieval" / "gaokao-history.jsonl", [{**base, "id": "h0", "label": "B", "passage": "材料"}])
    return tmp_path


async def test_mmlu_has_options_as_lines_and_groups(root: Path) -> None:
    task = TASKS["mmlu"](root)
    assert isinstance(task, Task)
    assert task.form is CHOICE
    first, second = task.examples()
    assert first.question == "Which a?\nA. one\nB. two\nC. 3\nD. 4"
    assert (first.metadata["group"], second.metadata["group"]) == ("STEM", "humanities")
    assert task.solutions() == [first.question, second.question]
    found = await task.score(first, answered("I think so.\nAnswer: B"), None)
    assert {name: score.value for name, score in found.items()} == {"exact match": 1.0, "option F1": 1.0}


def test_a_dev_question_that_is_tested_is_not_shown(root: Path) -> None:
    write_jsonl(root / "mmlu" / "test.jsonl", [mmlu("astronomy-dev", "astronomy")])
    shown = TASKS["mmlu"](root).demonstrations()
    assert [shot.question.splitlines()[0] for shot in shown] == ["Which philosophy-dev?", "Which virology-dev?"]


def test_a_group_is_a_task_with_demonstrations_of_its_own(root: Path) -> None:
    law = TASKS["mmlu_humanities"](root)
    assert [example.id for example in law.examples()] == ["l"]
    assert [shot.question.splitlines()[0] for shot in law.demonstrations()] == ["Which philosophy-dev?"]
    assert law.demonstrations()[0].answer == "B"
    assert len(TASKS["mmlu"](root).demonstrations()) == 3


async def test_several_options_are_scored_as_a_set(root: Path) -> None:
    task = TASKS["jec_qa_kd"](root)
    several, unlabelled, _ = task.examples()
    assert several.question.startswith("下列正确的是\nA. 甲\nB. 乙")
    assert "一个或多个" in several.question
    assert "Answer:" not in several.question
    found = await task.score(several, answered("Answer: A, C"), None)
    assert [score.value for score in found.values()] == [1.0, 1.0]
    part = await task.score(several, answered("Answer: ABD"), None)
    assert part["exact match"].value == 0.0
    assert part["option F1"].value == pytest.approx(2 * 1 / (3 + 2))
    none = await task.score(several, answered("Answer: 不知道"), None)
    assert (none["exact match"].value, none["exact match"].why) == (0.0, "the answer names no option")
    empty = await task.score(several, answered(None), None)
    assert empty["option F1"].value is None
    unscored = await task.score(unlabelled, answered("Answer: A"), None)
    assert {(score.value, score.why) for score in unscored.values()} == {(None, "the data give no right option")}


def test_files_are_joined_and_named_as_groups(root: Path) -> None:
    task = TASKS["jec_qa"](root)
    assert [(e.id, e.metadata["group"], e.golden_answers) for e in task.examples()] == [
        ("k0", "jec-qa-kd", ("AC",)),
        ("k1", "jec-qa-kd", ()),
        ("k2", "jec-qa-kd", ("B",)),
        ("c0", "jec-qa-ca", ("BD",)),
    ]
    history = TASKS["gaokao_history"](root).examples()[0]
    assert history.question.startswith("材料\n下列正确的是\nA. 甲")
    assert "只有一个" in history.question


@pytest.mark.parametrize(
    ("label", "letters"), [("C", "C"), ("A B D", "ABD"), (["D", "A"], "AD"), (["A", "。"], "A"), ([], ""), (None, "")]
)
def test_labels_of_every_kind(label: object, letters: str) -> None:
    assert letters_of(label) == letters

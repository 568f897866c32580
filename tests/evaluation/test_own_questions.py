"""A file of questions without answers as a training task."""

from __future__ import annotations

from pathlib import Path

import pytest

from reground.core.answers import Answer
from reground.core.errors import DataError
from reground.core.trajectory import Trajectory
from reground.evaluation.tasks import load_training_task


def test_lines_and_objects_are_questions(tmp_path: Path) -> None:
    plain, objects = tmp_path / "q.txt", tmp_path / "q.jsonl"
    plain.write_text("\ufeffWho wrote it?\n\n  When? \n", encoding="utf-8")
    objects.write_text('{"question": "Who wrote it?"}\n{"id": "b", "question": "When?", "golden_answers": ["1900"]}\n')
    found = [load_training_task(f"questions_train:{file}", tmp_path).examples() for file in (plain, objects)]
    assert [[(each.id, each.question) for each in some] for some in found] == [
        [("1", "Who wrote it?"), ("3", "When?")],
        [("1", "Who wrote it?"), ("b", "When?")],
    ]
    assert not found[1][1].golden_answers, "answers are not even read"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("q.txt", b"\n \n", "has no questions"),
        ("q.txt", b"\xff\xfe\x00bad", "cannot be read as questions"),
        ("q.jsonl", b'{"text": "Who?"}\n', "question"),
        ("absent.txt", None, "cannot be read as questions"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=why) as error:
        load_training_task(f"questions_train:{tmp_path / name}", tmp_path)
    assert name in str(error.value)


async def test_scored_is_whether_there_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("Who?")
    task = load_training_task(f"questions_train:{tmp_path / 'q.txt'}", tmp_path)
    (example,) = task.examples()
    for text, value in (("Kirk.", 1.0), (" ", 0.0)):
        told = Trajectory(id="1", question="Who?", method="m", steps=(), answer=Answer(text=text))
        assert (await task.score(example, told, None))["answered"].value == value

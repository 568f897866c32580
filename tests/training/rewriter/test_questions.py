"""The questions of a rewriter's training in two parts: none for validation that the warm-up learnt from."""

from __future__ import annotations

from pathlib import Path

import pytest

from reground.evaluation.task import Example
from reground.training.rewriter.warmup import demonstration, divided, learnt
from reground.training.rows import write_rows

DRAWN = [Example(id=f"q{number}", question=f"What is {number}?") for number in range(8)]


@pytest.mark.parametrize(
    ("known", "validation", "few"),
    [
        (set(), ["q0", "q1", "q2"], 0),
        ({"q0", "q1", "q3"}, ["q2", "q4", "q5"], 0),
        ({"q0", "q1", "q2", "q3", "q4", "q6", "q7"}, ["q5", "q6", "q7"], 2),
        ({each.id for each in DRAWN}, ["q5", "q6", "q7"], 3),
    ],
)
def test_validation_is_on_questions_that_the_warm_up_did_not_learn_from(
    known: set[str], validation: list[str], few: int
) -> None:
    parts = divided(DRAWN, validation=3, limit=None, known=known)
    assert [example.id for example in parts.validation] == validation
    assert [example.id for example in parts.learning] == [each.id for each in DRAWN if each.id not in validation]
    assert parts.known == few
    assert ("none of which was in the warm-up's data" in str(parts)) == (not few)
    assert divided(DRAWN, validation=3, limit=2, known=known).learning == parts.learning[:2]


def test_what_the_warm_up_learnt_from_stands_in_its_rows(tmp_path: Path) -> None:
    rows = tmp_path / "warmup.jsonl"
    assert learnt(rows) == set()
    write_rows(rows, [demonstration("q3", "What is 3?", "3"), demonstration("q5", "What is 5?", "5")])
    assert learnt(rows) == {"q3", "q5"}

"""Questions by id, by number, by position, and the papers' subsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError
from reground.evaluation.questions import SUBSETS, number_of, select
from reground.evaluation.runner import EvalSettings, choose, configuration
from reground.evaluation.task import Example
from reground.evaluation.tasks import load_task, task_names
from tests.data import need_data
from tests.evaluation.fakes import SumTask

EXAMPLES = [Example(id=f"T/{number}", question=str(number)) for number in (2, 3, 4, 7, 11)]


def ids(wanted: str, task: str = "t") -> list[str]:
    return [example.id for example in select(task, EXAMPLES, wanted)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("T/7", ["T/7"]),
        ("T/7, T/2,T/7", ["T/2", "T/7"]),
        ("3-7", ["T/3", "T/4", "T/7"]),
        ("1:2", ["T/2", "T/3"]),
        ("5:5,T/2", ["T/2", "T/11"]),
        ("11-11,2-3", ["T/2", "T/3", "T/11"]),
    ],
)
def test_a_selection_is_ids_numbers_and_positions(wanted: str, found: list[str]) -> None:
    assert ids(wanted) == found


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("T/8", r"t has no question with the id 'T/8'; did you mean"),
        ("nowhere", r"no question with the id 'nowhere'; ids look like T/2"),
        ("20-30", r"--ids 20-30: no id of t has such a number; ids look like T/2"),
        ("7-3", r"no id of t has such a number"),
        ("1:6", r"--ids 1:6: t has 5 questions"),
        (" , ", r"names no question"),
    ],
)
def test_what_chooses_nothing_is_named(wanted: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        ids(wanted)


def test_a_task_without_the_subset_says_which_it_has() -> None:
    with pytest.raises(ConfigurationError, match=r"no question with the id 'papers'; .*Its subsets: paper"):
        ids("papers", "mbpp")


@pytest.mark.parametrize(
    ("identity", "number"),
    [("HumanEval/32", 32), ("gsm8k-test-0007", 7), ("ClassEval_12/f_2", 12), ("11", 11), ("5a8b57f25542", None)],
)
def test_the_number_of_an_id_stands_alone(identity: str, number: int | None) -> None:
    assert number_of(identity) == number


@given(st.lists(st.integers(0, 200), unique=True, min_size=1), st.integers(0, 200), st.integers(0, 200))
def test_a_range_holds_exactly_the_numbers_within(numbers: list[int], first: int, last: int) -> None:
    examples = [Example(id=f"x-{number:03}", question="q") for number in numbers]
    expected = [f"x-{number:03}" for number in numbers if first <= number <= last]
    if expected:
        assert [example.id for example in select("t", examples, f"{first}-{last}")] == expected
    else:
        with pytest.raises(ConfigurationError):
            select("t", examples, f"{first}-{last}")


def test_a_run_takes_the_chosen_questions_and_keeps_their_ids() -> None:
    settings = EvalSettings(method="m", model="m", ids="q1,q3", limit=None)
    assert {example.id for example in choose(SumTask(5), settings)} == {"q1", "q3"}
    assert configuration(SumTask(5), settings).ids == ("q1", "q3")
    assert configuration(SumTask(5), EvalSettings(method="m", model="m")).ids is None


def test_a_limit_draws_from_the_chosen_questions() -> None:
    settings = EvalSettings(method="m", model="m", ids="1:4", limit=2)
    drawn = {example.id for example in choose(SumTask(6), settings)}
    assert len(drawn) == 2
    assert drawn <= {"q0", "q1", "q2", "q3"}


@pytest.mark.parametrize(
    ("name", "file", "size", "first", "last"),
    [
        ("mbpp", "mbpp/mbpp.jsonl", 165, "11", "175"),
        ("mbpp_plus", "mbpp/MbppPlus-OriginFmt.jsonl", 164, "2", "311"),
        ("gsm8k", "gsm8k/test.jsonl", 200, "gsm8k-test-0000", "gsm8k-test-0199"),
        ("gsm_hard", "gsm_hard/gsmhardv2.jsonl", 200, "gsm-hard-0000", "gsm-hard-0199"),
    ],
)
def test_the_papers_subsets_on_the_real_data(name: str, file: str, size: int, first: str, last: str) -> None:
    examples = load_task(name, need_data(*file.split("/")).parent.parent).examples()
    found = select(name, examples, "paper")
    assert (len(found), found[0].id, found[-1].id) == (size, first, last)


def test_every_subset_belongs_to_a_task_and_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "tasks.md").read_text(encoding="utf-8")
    assert set(SUBSETS) <= set(task_names())
    for name, subsets in SUBSETS.items():
        for subset, spec in subsets.items():
            assert f"| `{name}` | `{subset}` | `{spec}` |" in page, json.dumps([name, subset, spec])

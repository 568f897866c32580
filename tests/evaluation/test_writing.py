from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.evidence import Passage
from reground.evaluation.questions import select
from reground.evaluation.task import Task
from reground.evaluation.tasks import load_task, task_names
from reground.evaluation.tasks.writing import (
    DECIDED,
    Part,
    in_order,
    lacks,
    load_writing,
    names,
    parts,
    subtitles,
    words,
    years,
)
from tests.evaluation.trajectories import answered, retrieval

ARTICLE = """\
# The American Civil War

## Secession, 1860 to 1861
Abraham Lincoln won the election of 1860. South Carolina left first [1].

## The war, 1861 to 1865
Confederate guns fired on Fort Sumter on 12 April 1861 [1].

## The end
Robert E. Lee gave up at Appomattox in 1865."""
PASSAGE = Passage(
    id="war",
    title="Fort Sumter",
    text="Confederate guns fired on Fort Sumter, South Carolina, in April 1861. Lincoln was elected in 1860.",
)


def test_the_parts_of_a_text_are_its_headings_and_what_stands_below_them() -> None:
    assert parts("Before.\n# T\n\n## A\nOne.\n\nTwo.\n**B**\nThree.\n") == [
        Part(0, "", "Before."),
        Part(1, "T", ""),
        Part(2, "A", "One.\n\nTwo."),
        Part(2, "B", "Three."),
    ]
    assert [part.heading for part in subtitles(parts(ARTICLE))] == [
        "Secession, 1860 to 1861",
        "The war, 1861 to 1865",
        "The end",
    ]
    assert parts("#hashtag is no heading, nor is **bold** in a line") == [
        Part(0, "", "#hashtag is no heading, nor is **bold** in a line")
    ]
    assert parts("") == []


@given(st.text(st.sampled_from("#* ab1\n[]"), max_size=60))
def test_no_word_of_a_text_is_in_no_part(text: str) -> None:
    kept = " ".join(f"{part.heading} {part.text}" for part in parts(text))
    letters = [Counter(c for c in said if c.isalnum()) for said in (text, kept)]
    assert letters[0] == letters[1]


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        (ARTICLE, ""),
        ("Lincoln won.", "it does not begin with a title"),
        ("", "it does not begin with a title"),
        ("# T\n## A\nOne.\n## B\n## C\nThree.", "nothing stands below 'B'"),
        ("# T\n\nFirst.\n\n## A\nOne.\n## B\nTwo.", "it has 2 of at least 3 subtitles"),
    ],
)
def test_a_text_keeps_its_form_with_a_title_and_subtitles(text: str, lacking: str) -> None:
    assert lacks(parts(text)) == lacking


def test_years_names_and_words_are_counted() -> None:
    assert years(ARTICLE) == ["1860", "1861", "1865"]
    assert years("In the 1860s, after 1,861 days and 18610 hours, not in 3000.") == ["1860"]
    assert names(parts(ARTICLE)) == ["Lincoln", "Carolina", "Fort Sumter", "April", "E", "Lee", "Appomattox"]
    assert names(parts("## Jin Yong\nIn Hong Kong, Louis Cha founded Ming Pao. He wrote.")) == [
        "Hong Kong",
        "Louis Cha",
        "Ming Pao",
    ]
    assert words("It's a well-known war [1][2].") == 4


def test_a_timeline_goes_forward() -> None:
    assert in_order(parts(ARTICLE)) == 1.0
    assert in_order(parts("# T\n## 1865\nEnd.\n## A\nIn 1861.\n## B\nNo year.\n## C\nIn 1863 and 1850.")) == 0.5
    assert in_order(parts("# T\n## 1865\nEnd.")) is None


def test_the_tasks_are_the_papers_three_kinds_with_three_topics_each() -> None:
    tasks = {name: load_task(name) for name in task_names() if name.startswith("writing")}
    assert {name: len(task.examples()) for name, task in tasks.items()} == {
        "writing": 9,
        "writing_biography": 3,
        "writing_survey": 3,
        "writing_timeline": 3,
    }
    assert all(isinstance(task, Task) and task.name == name for name, task in tasks.items())
    examples = tasks["writing"].examples()
    assert len({example.id for example in examples}) == 9
    assert Counter(example.metadata["group"] for example in examples) == {"survey": 3, "biography": 3, "timeline": 3}
    papers = [example.id for example in examples if example.metadata["source"] == "paper"]
    assert [chosen.id for chosen in select("writing", examples, "paper")] == papers
    assert len(papers) == 4
    assert tasks["writing"].form.outlined


def example(identity: str = "timeline-american-civil-war"):
    return next(each for each in load_writing().examples() if each.id == identity)


async def test_what_is_counted_and_that_quality_is_left_to_people() -> None:
    shown = retrieval(PASSAGE)
    scores = await load_writing().score(example(), answered(ARTICLE, shown), None)
    assert {name: score.value for name, score in scores.items()} == {
        "quality": None,
        "form kept": 1.0,
        "words": 45,
        "subtitles": 3,
        "years": 3,
        "names": 7,
        "years read": pytest.approx(2 / 3),
        "names read": pytest.approx(4 / 7),
        "years in order": 1.0,
    }
    assert scores["quality"].why == DECIDED
    assert load_writing().primary == "quality"


async def test_what_cannot_be_said_is_unscored() -> None:
    scores = await load_writing().score(example(), answered("No year here."), None)
    unscored = {name: score.why for name, score in scores.items() if score.value is None}
    assert unscored == {
        "quality": DECIDED,
        "years read": "nothing was retrieved",
        "names read": "nothing was retrieved",
        "years in order": "fewer than two parts name a year",
    }
    assert (await load_writing().score(example(), answered("None.", retrieval(PASSAGE)), None))[
        "years read"
    ].why == "the answer has no years"
    for text in (None, "  "):
        scores = await load_writing().score(example(), answered(text), None)
        assert {name: (score.value, score.why) for name, score in scores.items()} == {
            "quality": (None, "there is no answer")
        }
    assert "years in order" not in await load_writing().score(example("biography-jin-yong"), answered(ARTICLE), None)

from __future__ import annotations

from collections import Counter

import pytest

from reground.evaluation.questions import select
from reground.evaluation.task import Task
from reground.evaluation.tasks import load_task, task_names
from reground.evaluation.tasks.writing import DECIDED, lacks, load_writing
from tests.evaluation.trajectories import answered

ARTICLE = """\
# The American Civil War

## Secession, 1860 to 1861
Abraham Lincoln won the election of 1860. South Carolina left first [1].

## The war, 1861 to 1865
Confederate guns fired on Fort Sumter on 12 April 1861 [1].

## The end
Robert E. Lee gave up at Appomattox in 1865."""


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        (ARTICLE, ""),
        ("Lincoln won.", "it does not begin with a title"),
        ("", "it does not begin with a title"),
        ("# T\n## A\nOne.\n## B\n## C\nThree.", "nothing stands below 'B'"),
        ("# T\n\nFirst.\n\n## A\nOne.\n## B\nTwo.", "it has 2 of at least 3 subtitles"),
        ("# T\n**A**\nOne.\n**B**:\nTwo.\n#tag\n\n## C\nIn **bold**.", ""),
        ("Before.\n# T\n## A\nOne.\n## B\nTwo.\n## C\nThree.", "it does not begin with a title"),
    ],
)
def test_a_text_keeps_its_form_with_a_title_and_subtitles(text: str, lacking: str) -> None:
    assert lacks(text) == lacking


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
    task, (example, *_) = load_writing(), load_writing().examples()
    scores = await task.score(example, answered(ARTICLE), None)
    assert {name: score.value for name, score in scores.items()} == {"quality": None, "form kept": 1.0, "words": 45}
    assert (scores["quality"].why, task.primary) == (DECIDED, "quality")
    words = (await task.score(example, answered("It's a well-known war [1][2]."), None))["words"]
    assert words.value == 4
    for text in (None, "  "):
        scores = await task.score(example, answered(text), None)
        assert {name: (score.value, score.why) for name, score in scores.items()} == {
            "quality": (None, "there is no answer")
        }

from __future__ import annotations

import json

from reground.core.language import Reply, TokenLogprob
from reground.core.trajectory import GenerateStep
from reground.view.page import as_json
from reground.view.story import story
from tests.view.samples import failed, told


async def test_each_revision_is_compared_with_the_text_it_revises() -> None:
    steps = story(await told())["steps"]
    revisions = [step["replies"][0]["changes"] for step in steps if step["name"] == "revise"]
    assert [[(taken, put) for taken, put, _ in each if taken or put] for each in revisions] == [
        [(" Danube.", " Danube river.")],
        [(" 2000 km.", " 2850 km [1].")],
        [(" 900 km.", " 1230 km [2].")],
    ]
    assert not any("changes" in step["replies"][0] for step in steps if step["name"] in ("draft", "query"))


async def test_passages_come_in_pieces_with_their_marks() -> None:
    found = [step["passages"] for step in story(await told())["steps"] if step["kind"] == "retrieve"]
    assert all("text" not in passage for passages in found for passage in passages)
    marks = {mark for passages in found for passage in passages for _, mark in passage["parts"]}
    assert marks == {"", "q", "s", "qs"}


async def test_the_sentences_say_whether_they_are_supported() -> None:
    answer = story(await told())["answer"]
    assert [each["supported"] for each in answer["sentences"]] == [True, False, None]
    assert [step["changes"] is not None for step in answer["steps"] if "changes" in step] == [True, True, True]


async def test_the_cost_of_a_step_is_told_twice_and_adds_up() -> None:
    whole = story(await told())
    spent = sum(stage["prompt"] + stage["completion"] for stage in whole["stages"])
    assert spent == whole["usage"]["prompt"] + whole["usage"]["completion"]
    assert sum(stage["calls"] for stage in whole["stages"]) == sum("seconds" in step for step in whole["steps"])


async def test_the_probabilities_of_tokens_become_their_mean() -> None:
    trajectory = await told()
    first = trajectory.steps[0]
    assert isinstance(first, GenerateStep)
    reply = Reply(text="ab", token_logprobs=(TokenLogprob(token="a", logprob=-1), TokenLogprob(token="b", logprob=-3)))
    step = first.model_copy(update={"replies": (reply,)})
    shown = story(trajectory.model_copy(update={"steps": (step,)}))["steps"][0]["replies"][0]
    assert shown["logprob"] == -2 and "token_logprobs" not in shown


def test_a_question_that_failed_has_a_story() -> None:
    whole = story(failed("x"))
    assert whole["answer"] is None and whole["steps"] == [] and whole["failure"]["type"] == "ModelError"
    assert json.loads(as_json(whole)) == whole

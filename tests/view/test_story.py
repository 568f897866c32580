import json

from reground.core.language import Message, Reply, TokenLogprob
from reground.core.trajectory import GenerateStep
from reground.view.contents import marked, story, text_before
from reground.view.server import as_json
from tests.view.samples import failed, told


async def test_each_revision_is_compared_with_the_text_it_revises():
    steps = story(await told())["steps"]
    revisions = [step["replies"][0]["changes"] for step in steps if step["name"] == "revise"]
    assert [[(taken, put) for taken, put, _ in each if taken or put] for each in revisions] == [
        [(" Danube.", " Danube river.")],
        [(" 2000 km.", " 2850 km [1].")],
        [(" 900 km.", " 1230 km [2].")],
    ]
    assert not any("changes" in step["replies"][0] for step in steps if step["name"] in ("draft", "query"))


async def test_passages_come_in_pieces_with_their_marks():
    found = [step["passages"] for step in story(await told())["steps"] if step["kind"] == "retrieve"]
    assert all("text" not in passage for passages in found for passage in passages)
    marks = {mark for passages in found for passage in passages for _, mark in passage["parts"]}
    assert marks == {"", "q", "s", "qs"}


async def test_the_sentences_say_whether_they_are_supported():
    answer = story(await told())["answer"]
    assert [each["supported"] for each in answer["sentences"]] == [True, False, None]
    assert [step["changes"] is not None for step in answer["steps"] if "changes" in step] == [True, True, True]


async def test_the_cost_of_a_step_is_told_twice_and_adds_up():
    whole = story(await told())
    spent = sum(stage["prompt"] + stage["completion"] for stage in whole["stages"])
    assert spent == whole["usage"]["prompt"] + whole["usage"]["completion"]
    assert sum(stage["calls"] for stage in whole["stages"]) == sum("seconds" in step for step in whole["steps"])


async def test_the_probabilities_of_tokens_become_their_mean():
    trajectory = await told()
    first = trajectory.steps[0]
    assert isinstance(first, GenerateStep)
    reply = Reply(text="ab", token_logprobs=(TokenLogprob(token="a", logprob=-1), TokenLogprob(token="b", logprob=-3)))
    step = first.model_copy(update={"replies": (reply,)})
    shown = story(trajectory.model_copy(update={"steps": (step,)}))["steps"][0]["replies"][0]
    assert shown["logprob"] == -2 and "token_logprobs" not in shown


def test_a_question_that_failed_has_a_story():
    whole = story(failed("x"))
    assert whole["answer"] is None and whole["steps"] == [] and whole["failure"]["type"] == "ModelError"
    assert json.loads(as_json(whole)) == whole


def pieces(text, query, *quotes):
    found = marked(text, query, quotes)
    assert "".join(piece for piece, _ in found) == text
    return [(piece, marks) for piece, marks in found if marks]


def test_the_words_of_the_query_are_marked_by_their_stems():
    text = "Rivers of Austria: the Danube flows there."
    assert pieces(text, "Which river flowed through the Danube's valley?") == [
        ("Rivers", "q"),
        ("Danube", "q"),
        ("flows", "q"),
    ]


def test_words_that_say_nothing_and_single_letters_are_not_marked():
    assert pieces("Which of the two is today's?", "which of the Halley's") == []
    assert pieces("It took 7 days.", "7") == [("7", "q")]


def test_writing_without_spaces_is_marked_by_pairs():
    assert pieces("東京の川は隅田川です。", "隅田川") == [("隅", "q"), ("田", "q"), ("川", "q")]


def test_a_supporting_sentence_is_found_whatever_its_white_space():
    text = "One.\nThe Danube is\n  2850 km long. Two."
    assert pieces(text, "", "The Danube is 2850 km long.") == [("The Danube is\n  2850 km long.", "s")]
    assert pieces(text, "Danube", "The Danube is 2850 km long.") == [
        ("The ", "s"),
        ("Danube", "qs"),
        (" is\n  2850 km long.", "s"),
    ]
    assert pieces(text, "", "Not in it.", "") == []


def test_nothing_to_mark():
    assert marked("", "query", ["quote"]) == []
    assert marked("text", "", []) == [("text", "")]


DRAFT = "Vienna lies on the Danube.\n\nThe Danube has 2000 km [1]."


def said(content, role="user"):
    return Message.model_validate({"role": role, "content": content})


def test_the_text_before_is_the_part_of_the_prompt_that_replies_wrote():
    prompt = (
        "Question:\nHow long?\n\nText:\nVienna lies on the Danube.\n\nThe Danube has 2000 km [2].\n\nRevise the text."
    )
    reply = "Vienna lies on the Danube.\n\nThe Danube has 2850 km."
    assert text_before([said(prompt)], reply, [DRAFT]) == "Vienna lies on the Danube.\n\nThe Danube has 2000 km [2]."


def test_a_label_before_the_text_is_left_out():
    prompt = "First answer: Vienna lies on the Danube.\nCorrect it."
    assert text_before([said(prompt)], "Vienna lies on the river Danube.", [DRAFT]) == "Vienna lies on the Danube."


def test_a_turn_of_the_model_counts_too():
    messages = [said("Plan."), said(DRAFT, "assistant"), said("Improve it.")]
    assert text_before(messages, DRAFT.replace("2000", "2850"), [DRAFT]) == DRAFT


def test_where_the_prompt_has_no_such_text_the_last_like_reply_is_the_one_before():
    earlier = ["He was born in Marton, a village in Yorkshire, in 1728.", "Marton; Yorkshire"]
    reply = "He was born in Foulby, a village in Yorkshire, in 1693."
    assert text_before([said("Where was he born?")], reply, earlier) == earlier[0]


def test_a_reply_of_another_kind_revises_nothing():
    assert text_before([said(f"{DRAFT}\nWrite a query.")], "danube length in km", [DRAFT]) is None
    assert text_before([said("Is it right?")], "Yes", ["Yes"]) is None
    assert text_before([said("Draft.")], DRAFT, []) is None

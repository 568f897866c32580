from __future__ import annotations

from reground.core.language import Message
from reground.view.revisions import text_before

DRAFT = "Vienna lies on the Danube.\n\nThe Danube has 2000 km [1]."


def said(content: str, role: str = "user") -> Message:
    return Message.model_validate({"role": role, "content": content})


def test_the_text_before_is_the_part_of_the_prompt_that_replies_wrote() -> None:
    prompt = (
        "Question:\nHow long?\n\nText:\nVienna lies on the Danube.\n\nThe Danube has 2000 km [2].\n\nRevise the text."
    )
    reply = "Vienna lies on the Danube.\n\nThe Danube has 2850 km."
    assert text_before([said(prompt)], reply, [DRAFT]) == "Vienna lies on the Danube.\n\nThe Danube has 2000 km [2]."


def test_a_label_before_the_text_is_left_out() -> None:
    prompt = "First answer: Vienna lies on the Danube.\nCorrect it."
    assert text_before([said(prompt)], "Vienna lies on the river Danube.", [DRAFT]) == "Vienna lies on the Danube."


def test_a_turn_of_the_model_counts_too() -> None:
    messages = [said("Plan."), said(DRAFT, "assistant"), said("Improve it.")]
    assert text_before(messages, DRAFT.replace("2000", "2850"), [DRAFT]) == DRAFT


def test_where_the_prompt_has_no_such_text_the_last_like_reply_is_the_one_before() -> None:
    earlier = ["He was born in Marton, a village in Yorkshire, in 1728.", "Marton; Yorkshire"]
    reply = "He was born in Foulby, a village in Yorkshire, in 1693."
    assert text_before([said("Where was he born?")], reply, earlier) == earlier[0]


def test_a_reply_of_another_kind_revises_nothing() -> None:
    assert text_before([said(f"{DRAFT}\nWrite a query.")], "danube length in km", [DRAFT]) is None
    assert text_before([said("Is it right?")], "Yes", ["Yes"]) is None
    assert text_before([said("Draft.")], DRAFT, []) is None

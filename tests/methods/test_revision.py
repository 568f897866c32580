import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import PROGRAM, TEXT
from reground.core.language import Reply
from reground.core.run import Run
from reground.methods.shared.revision import accepted, unlooped, without_echo
from tests.methods.helpers import notes

TEMPLATE = (
    "Question:\n{question}\n\nStep to check:\n{step}\n\nErrors found in it:\n{errors}\n\n"
    "Task: Write it again. Nothing else. {cite}"
)
sentences = st.lists(st.sampled_from(["It is.", "So be it!", "Why?", "Yes\n", "No, no.", "All of it"]), max_size=12)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("It is not so.", "It is not so."),
        ("Step to check:\nIt is not so.", "It is not so."),
        ("It is not so.\n\nErrors found in it:\nOK\n\nmore", "It is not so."),
        ("It is not so.\nTask: Write it again. Nothing else.\nIt is not so.", "It is not so."),
        ("Task: Write it again. Nothing else.\n\nIt is not so.", "It is not so."),
        ("My own label:\nIt is not so.", "My own label:\nIt is not so."),
        ("STEP 1:\nIt is not so.\nSTEP 2:\nIt is.", "STEP 1:\nIt is not so.\nSTEP 2:\nIt is."),
        ("Question:\n\nErrors found in it:", ""),
        ("Question:\nWho?\n\nStep to check:\nHe.\n\nTask: Write it again. Nothing else.\n\nIt is he.", "It is he."),
        ("", ""),
    ],
)
def test_what_is_repeated_of_the_prompt_is_taken_off(text, rest):
    assert without_echo(text, TEMPLATE)[0] == rest


REVISE = "Question:\n{question}\n\n{passages}\n\nText:\n{text}\n\nTask: Write the text again. {cite}"
PROMPT = "Question:\nWhich?\n\n\n\nText:\nIt is so.\n\nTask: Write the text again. Cite."


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (PROMPT, "It is so."),
        (PROMPT + "\n\nIt is not so.", "It is not so."),
        ("Question:\nWhich?\n\nText:\nIt is not so.", "It is not so."),
        ("Question:\nWhich?\n\nA long pass", ""),
    ],
)
def test_nothing_of_a_repeated_prompt_takes_the_place_of_the_text(text, rest):
    assert without_echo(text, REVISE, "It is so.")[0] == rest
    headed = "An answer is checked against documents.\n\n"
    assert without_echo(headed + text, headed + REVISE, "It is so.")[0] == rest


@pytest.mark.parametrize("word", ["NO CHANGE", "no change.", "**No changes**", "OK", "ok."])
def test_the_word_for_no_change_is_the_text_before(word):
    run = Run()
    assert accepted(Reply(text=word), run, TEXT, template=TEMPLATE, before="It is so.") == "It is so."
    assert notes(run, "nothing to change")[0].data["written"] == word
    assert accepted(Reply(text=word), run, TEXT, template=TEMPLATE, before="") == word


@pytest.mark.parametrize("gone", [Reply(text=""), Reply(text="DELETE"), Reply(text=" *Delete.* ")])
def test_a_text_vanishes_only_where_it_may(gone):
    kept = {"template": TEMPLATE, "before": "It is so."}
    assert accepted(gone, Run(), TEXT, deletions=("DELETE", ""), **kept) == ""
    assert accepted(gone, Run(), TEXT, **kept) != ""


@given(st.text())
def test_taking_echoes_off_only_ever_shortens(text):
    once = without_echo(text, TEMPLATE)[0]
    assert len(once) <= len(text)
    assert without_echo(once, TEMPLATE)[0] == once


def test_lines_of_the_text_under_revision_are_no_echo():
    text = "Question:\nWho?\n\nStep to check:\nHe.\nTask: Write it again. Nothing else. Or so he said."
    assert without_echo(text, TEMPLATE, text)[0] == text
    assert without_echo(text, TEMPLATE)[0] == "Who?"


@pytest.mark.parametrize("form", [TEXT, PROGRAM])
def test_a_reply_that_begins_with_a_label_and_was_cut_is_cut_and_no_loop(form):
    run = Run()
    reply = Reply(text="Step to check:\nIt is not", finish_reason="length")
    assert accepted(reply, run, form, template=TEMPLATE, before="It is so.") is None
    assert notes(run, "revision cut")[0].data["written"] == "It is not"
    assert not notes(run, "loop cut")


def test_a_reply_that_was_cut_in_an_echo_behind_its_end_is_whole_and_the_note_holds_the_rest():
    run = Run()
    reply = Reply(text="It is not so.\n\nErrors found in it:\nIt", finish_reason="length")
    assert accepted(reply, run, TEXT, template=TEMPLATE, before="It is so.") == "It is not so."
    assert notes(run, "echo cut")[0].data == {"kept": "It is not so.", "left_out": "Errors found in it:\nIt"}


def test_a_loop_ends_before_its_second_turn():
    assert unlooped("One. Two. Three. Two. Three. Two. Three. Tw") == "One. Two. Three."
    assert unlooped("Twice. Twice. Done.") == "Twice. Twice. Done."
    assert unlooped("a\nb\na\nb\na\n") == "a\nb"
    steps = "Step 1: Elbe.\nStep 2: It is long.\nStep 3: It is long.\n4) It is long.\nStep 5: It"
    assert unlooped(steps) == "Step 1: Elbe.\nStep 2: It is long.", "a number before it makes no new sentence"


@given(sentences)
def test_unlooping_keeps_a_beginning_and_settles(parts):
    text = " ".join(parts).strip()
    short = unlooped(text)
    assert text.startswith(short)
    assert bool(short) == bool(text)
    assert unlooped(short) == short


def test_an_echo_and_nothing_else_is_an_empty_revision():
    run = Run()
    assert accepted(Reply(text="Step to check:"), run, TEXT, template=TEMPLATE, before="") is None
    assert notes(run, "revision empty")


def test_code_in_a_fence_takes_the_place_of_code_in_none():
    reply = Reply(text="Corrected:\n\n```python\n    y = 2\n```")
    assert accepted(reply, Run(), PROGRAM, template=TEMPLATE, before="    y = 1") == "    y = 2"
    fenced = "```python\ny = 1\n```"
    assert accepted(Reply(text=fenced), Run(), PROGRAM, template=TEMPLATE, before=fenced) == fenced


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The capital of Australia is Sydney, its largest city.", "Canberra."),
        ("悉尼是澳大利亚的首都，也是最大的城市。", "堪培拉。"),
        ("It is a moon of Mars with a thick shell of ice.", "Europa orbits Jupiter."),
        ("Yes, they were both born in France.", "No."),
        ("STEP 1: Hit the stone with bare hands.", "STEP 1: Craft a pickaxe."),
        ("The king of England was Henry.", "Elizabeth I succeeded Mary."),
        ("The economy of Europe recovered slowly by itself.", "The Marshall Plan financed recovery."),
        ("I was born in Paris.", "I come from Rome."),
    ],
)
def test_a_right_correction_in_other_words_is_taken(before, after):
    assert accepted(Reply(text=after), Run(), TEXT, template=TEMPLATE, before=before) == after


def test_a_new_last_paragraph_is_no_note():
    before = "Franz Joseph ruled Austria."
    after = f"{before}\n\nWorld War I broke out after the murder in Sarajevo."
    assert accepted(Reply(text=after), Run(), TEXT, template=TEMPLATE, before=before) == after
    noted = f"{after}\n\nNote: I added a sentence."
    assert accepted(Reply(text=noted), Run(), TEXT, template=TEMPLATE, before=before) == after


def test_no_change_and_delete_stand_for_steps_too():
    before = "Ada was born in Paris.\n\nShe won a prize.\n\nShe met Babbage."
    kept = {"template": TEMPLATE, "before": before}
    reply = "Ada was born in London.\n\nDELETE\n\nNO CHANGE"
    assert accepted(Reply(text=reply), Run(), TEXT, **kept) == "Ada was born in London.\n\nShe met Babbage."
    assert accepted(Reply(text="NO CHANGE\n\nNO CHANGE\n\nNO CHANGE"), Run(), TEXT, **kept) == before
    assert accepted(Reply(text="DELETE: none of it is right."), Run(), TEXT, deletions=("DELETE",), **kept) == ""


@pytest.mark.parametrize("remark", ["No changes are necessary.", "All facts are correct.", "该陈述是正确的。"])
def test_a_reply_without_code_is_no_program(remark):
    code = "def f(x):\n    return x + 1"
    assert accepted(Reply(text=remark), Run(), PROGRAM, template=TEMPLATE, before=code) == code

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import PROGRAM, TEXT
from reground.core.language import Reply
from reground.core.run import Run
from reground.methods._revision import accepted, readable, unlooped, without_echo
from tests.methods.helpers import notes

PROMPT = (
    "Question:\nWhich?\n\nStep to check:\nIt is so.\n\nErrors found in it:\nOK\n\nTask: Write it again. Nothing else."
)
sentences = st.lists(st.sampled_from(["It is.", "So be it!", "Why?", "Yes\n", "No, no.", "All of it"]), max_size=12)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("It is not so.", "It is not so."),
        ("Step to check:\nIt is not so.", "It is not so."),
        ("It is not so.\n\nErrors found in it:\nOK\n\nmore", "It is not so."),
        ("It is not so.\nTask: Write it again. Nothing else.\nIt is not so.", "It is not so."),
        ("My own label:\nIt is not so.", "My own label:\nIt is not so."),
        ("Question:\n\nErrors found in it:", ""),
        ("", ""),
    ],
)
def test_what_is_repeated_of_the_prompt_is_taken_off(text, rest):
    assert without_echo(text, PROMPT) == rest


@given(st.text())
def test_taking_echoes_off_only_ever_shortens(text):
    once = without_echo(text, PROMPT)
    assert len(once) <= len(text)
    assert without_echo(once, PROMPT) == once


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


def test_only_a_reply_that_was_cut_is_taken_for_a_loop():
    looping = "Yes. " * 5
    assert readable(Reply(text=looping), TEXT) == looping.strip()
    assert readable(Reply(text=looping, finish_reason="length"), TEXT) == "Yes."
    assert readable(Reply(text=looping, finish_reason="length"), PROGRAM) == looping.strip()


def test_an_echo_and_nothing_else_is_an_empty_revision():
    run = Run()
    assert accepted(Reply(text="Step to check:"), run, TEXT, prompt=PROMPT) is None
    assert notes(run, "revision empty")


def test_without_a_prompt_nothing_is_taken_for_an_echo():
    text = "Step to check:\n\nIt is so."
    assert accepted(Reply(text=text), Run(), TEXT) == text

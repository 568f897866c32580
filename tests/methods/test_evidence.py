from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.answers import NUMBER, PHRASE, PLAN, PROGRAM, TEXT, Thought
from reground.core.errors import IndexRefused
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.methods._budget import tokens_of
from reground.methods._evidence import Evidence, clean_query, find
from tests.methods.helpers import PASSAGES, Failing, notes

ids = st.lists(st.sampled_from("abcde"), max_size=8)


@given(st.lists(ids, max_size=5))
def test_a_passage_keeps_its_number(batches):
    evidence = Evidence()
    for batch in batches:
        markers = evidence.add(Passage(id=key, text=key) for key in batch)
        assert [evidence.passages[m - 1].id for m in markers] == list(dict.fromkeys(batch))
    assert len({p.id for p in evidence.passages}) == len(evidence.passages)


def five() -> Evidence:
    evidence = Evidence()
    evidence.add([*PASSAGES, Passage(id="elbe", title="Elbe", text="The Elbe flows through Dresden.")])
    return evidence


def test_an_answer_cites_what_its_markers_name_and_holds_apart_what_it_was_shown():
    answer = five().answer("Long [2], short [4] and [2].", Run(), TEXT, shown=[1, 2])
    assert [passage.marker for passage in answer.citations] == [2, 4]
    assert [passage.marker for passage in answer.shown] == [2, 4, 1]
    assert answer.citations[0].passage_id == "danube"
    assert answer.citations[0].quote.startswith("The Danube is 2850 km")


def test_a_marker_without_a_passage_is_removed_from_text_and_steps_and_noted_once():
    evidence, run = five(), Run()
    for _ in range(2):
        answer = evidence.answer("The Danube [2][7].", run, TEXT, steps=[Thought(text="It is long [9].")])
    assert answer.text == "The Danube [2]."
    assert answer.steps[0].text == "It is long."
    assert [note.data["markers"] for note in notes(run, "unknown markers removed")] == [[7], [9]]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (TEXT, "The code is `a[7]`, built in [2019]."),
        (TEXT, "[7]"),
        (PHRASE, "The factors.\nAnswer: [3, 7]"),
        (NUMBER, "Step [7] gives\nAnswer: 12"),
        (PROGRAM, "def f(rows):\n    return rows[7]"),
        (PLAN, "STEP 1 takes [7] logs"),
    ],
)
def test_what_is_no_marker_or_is_the_answer_itself_stays(form, text):
    run = Run()
    answer = five().answer(text, run, form)
    assert (answer.text, run.steps) == (text, ())


def test_a_short_answer_loses_a_made_up_marker_and_nothing_else():
    assert five().answer("Answer: the Danube [7]", Run(), PHRASE).text == "Answer: the Danube"


def test_fitting_takes_the_best_first_and_one_at_least():
    evidence = Evidence()
    markers = evidence.add(PASSAGES)
    assert evidence.fitting(markers, tokens=100, most=None) == markers
    assert evidence.fitting(markers, tokens=100, most=1) == [1]
    assert evidence.fitting(markers, tokens=100, most=75) == [1, 2]
    assert evidence.fitting([], tokens=100, most=75) == []


@given(
    st.lists(st.integers(1, 120), min_size=1, max_size=6), st.integers(1, 900), st.integers(8, 60), st.integers(0, 90)
)
def test_passages_are_cut_until_all_fit_and_left_out_only_below_the_least_length(words, most, least, longer):
    evidence = Evidence()
    markers = evidence.add(Passage(id=str(i), text="river " * count) for i, count in enumerate(words))
    tokens = least + longer
    kept, length = evidence.cut(markers, tokens=tokens, most=most, least=least)

    def size(count, at):
        return tokens_of(evidence.show(markers[:count], tokens=at))

    assert kept == markers[: len(kept)]
    assert least <= length <= tokens
    assert size(len(kept), length) <= most or (len(kept) == 1 and length == least)
    if size(len(kept), length) <= most:
        assert length == tokens or size(len(kept), length + 1) > most, "no longer cut fits"
    assert kept == evidence.fitting(markers, tokens=least, most=most), "no further passage fits"


def test_without_a_limit_passages_are_cut_at_their_own_only():
    evidence = Evidence()
    markers = evidence.add(PASSAGES)
    assert evidence.cut(markers, tokens=100, most=None, least=10) == (markers, 100)
    assert evidence.cut([], tokens=100, most=50, least=10)[0] == []


def test_fresh_passages_are_those_without_a_number():
    evidence = Evidence()
    evidence.add(PASSAGES[:2])
    assert evidence.fresh(PASSAGES) == PASSAGES[2:]


async def test_a_failed_query_is_noted_and_finds_nothing():
    run = Run()
    assert await find(run, Failing(on="boom"), "boom now", k=2) == []
    (note,) = notes(run, "retrieval failed")
    assert note.data == {"query": "boom now", "why": "the index is on fire"}


async def test_an_empty_result_is_noted():
    run = Run()
    assert await find(run, Failing(nothing_for="void"), "void", k=2) == []
    assert notes(run, "nothing retrieved")[0].data == {"query": "void"}


async def test_a_refused_index_is_no_failed_query():
    with pytest.raises(IndexRefused):
        await find(Run(), Failing(on="x", error=IndexRefused), "x", k=1)


@pytest.mark.parametrize(
    ("reply", "query"),
    [
        ('Search query: "length of the Danube"', "length of the Danube"),
        ("**Query:** Danube length\nbecause ...", "Danube length"),
        ("\n\n- Query 1: Danube", "Danube"),
        ("Danube length", "Danube length"),
        ("query planning in databases", "query planning in databases"),
        ('  "" \n...', "the fallback"),
        ("[1] [2]", "the fallback"),
        ("Danube length [2]", "Danube length"),
        ("", "the fallback"),
    ],
)
def test_a_query_is_the_first_line_that_says_something(reply, query):
    assert clean_query(reply, fallback=" the fallback ") == query

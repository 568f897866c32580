from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import IndexRefused
from reground.core.evidence import Passage
from reground.core.run import Run
from reground.methods._budget import tokens_of
from reground.methods._evidence import Evidence, cited_markers, clean_query, find
from tests.methods.helpers import PASSAGES, Failing, notes

ids = st.lists(st.sampled_from("abcde"), max_size=8)


@given(st.lists(ids, max_size=5))
def test_a_passage_keeps_its_number(batches):
    evidence = Evidence()
    for batch in batches:
        markers = evidence.add(Passage(id=key, text=key) for key in batch)
        assert [evidence.passages[m - 1].id for m in markers] == list(dict.fromkeys(batch))
    assert len({p.id for p in evidence.passages}) == len(evidence.passages)


def test_citations_are_markers_in_the_text_and_then_the_support():
    evidence = Evidence()
    evidence.add(PASSAGES)
    cited = evidence.citations("Long [2], short [4; 9] and [2].", support=[1, 2])
    assert [c.marker for c in cited] == [2, 4, 1]
    assert cited[0].passage_id == "danube"
    assert cited[0].quote.startswith("The Danube is 2850 km")


def test_indices_in_code_are_no_citations():
    assert cited_markers("See [1].\n```python\nx = a[2]\n```\nand `b[3]`, [4]", most=5) == [1, 4]
    assert cited_markers("```python\nx[1]", most=5) == []


@given(st.text(alphabet="[]0123456789,; a", max_size=30), st.integers(0, 20))
def test_no_citation_names_a_passage_that_is_not_there(text, most):
    assert all(1 <= marker <= most for marker in cited_markers(text, most=most))


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

"""Queries in a rewriter's reply: none, one or several, whatever it wrote."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reground.methods.shared.queries import LONGEST, before, parse_queries
from reground.text.bm25 import count_words

SAID = [
    # as asked for
    ("I need a length.\nQueries: Seine length; Danube length **", ["Seine length", "Danube length"]),
    ("Query: Seine length **", ["Seine length"]),
    ("I know this.\nQueries: none **", []),
    # a trained rewriter
    ("Seine length;Danube length", ["Seine length", "Danube length"]),
    ("Seine length", ["Seine length"]),
    # none
    ("", []),
    (" \n ", []),
    ("**", []),
    ("Queries:", []),
    ("None.", []),
    ("No search is needed.", []),
    ("Queries: N/A", []),
    ("Queries: none needed **", []),
    ("Queries: 无", []),
    (";;; ; -", []),
    # the marker, repeated, in the wrong place, or forgotten
    ("Queries: Seine length ** Danube ** x; y", ["Seine length"]),
    ("**Queries:** Seine length; Danube length **", ["Seine length", "Danube length"]),
    ("** ** Seine length", ["Seine length"]),
    ("Queries: Seine length\n\nQuestion: Who?\nQueries: who", ["Seine length"]),
    # other labels, lists and quotes
    ('Search query: "Seine length"', ["Seine length"]),
    ("Better search query: Seine length", ["Seine length"]),
    ("Answer: Seine length; Danube length", ["Seine length", "Danube length"]),
    ("Answer: I need two lengths.\nQueries: Seine length", ["Seine length"]),
    ("Query 1: Seine length\n\nQuery 2: Danube length", ["Seine length", "Danube length"]),
    ("Queries:\n1. Seine length\n2. Danube length\n\nThey will help.", ["Seine length", "Danube length"]),
    ("- Seine length\n- Danube length\nThat is all.", ["Seine length", "Danube length"]),
    ("Queries: Seine length;\nDanube length", ["Seine length", "Danube length"]),
    ("Queries：塞纳河 长度；多瑙河 长度", ["塞纳河 长度", "多瑙河 长度"]),
    # a label in bold, where the marker of the end is that of bold type
    ("I need two lengths.\n**Queries:** Seine length; Danube length **", ["Seine length", "Danube length"]),
    ("I need one.\n**Queries**: Seine length**\nQueries: Danube length", ["Seine length"]),
    ("Seine length ** The next one\nQueries: Danube length", ["Seine length"]),
    # a fence around them
    ("```text\nSeine length\n```", ["Seine length"]),
    ("```plaintext\nQueries: Seine length; Danube length\n```", ["Seine length", "Danube length"]),
    # plain sentences
    ("I would look for the length of the Seine.\nThen I would compare.", ["I would look for the length of the Seine."]),
    # the same twice, and too many
    ("Seine length; seine, length; SEINE LENGTH!", ["Seine length"]),
    ("a1; a2; a3; a4; a5", ["a1", "a2", "a3"]),
    ("2001: A Space Odyssey director", ["2001: A Space Odyssey director"]),
]


@pytest.mark.parametrize(("text", "queries"), SAID, ids=[repr(text)[:40] for text, _ in SAID])
def test_what_a_rewriter_says_is_read(text, queries):
    assert parse_queries(text, most=3, stop="**") == queries


@given(text=st.text(), most=st.integers(1, 4), stop=st.sampled_from(["", "**", "###"]))
@example(text="Queries: _; _", most=2, stop="**")
@example(text="Query: Query: x", most=2, stop="")
def test_any_text_gives_a_few_different_queries_that_say_something(text, most, stop):
    found = parse_queries(text, most=most, stop=stop)
    assert len(found) <= most
    for query in found:
        assert any(char.isalnum() for char in query)
        assert ";" not in query
        assert "\n" not in query
        assert not stop or stop not in query
        assert query == query.strip()
    assert len({query.casefold() for query in found}) == len(found)


SANE = st.lists(st.sampled_from(["seine", "danube", "length", "km", "1889", "vienna"]), min_size=1, max_size=5)


@given(st.lists(SANE, min_size=1, max_size=4, unique_by=tuple), st.sampled_from([";", "; ", " ; "]), st.booleans())
def test_queries_joined_by_semicolons_come_back(wanted, separator, labelled):
    queries = [" ".join(words) for words in wanted]
    text = ("Thoughts first.\nQueries: " if labelled else "") + separator.join(queries)
    assert parse_queries(f"{text} **", most=4, stop="**") == queries


def test_a_query_without_end_is_cut():
    (query,) = parse_queries("length " * 500, most=1)
    assert count_words(query) == LONGEST
    assert count_words(parse_queries("长" * 500, most=1)[0]) == LONGEST


@pytest.mark.parametrize(
    ("text", "kept"),
    [("Answer: x ** y", "Answer: x "), ("**Answer:** x **", "  Answer:  x  "), ("x", "x"), ("", ""), ("**", " ")],
)
def test_the_text_before_the_marker(text, kept):
    assert before(text, "**").split() == kept.split()
    assert before(text, "") == text

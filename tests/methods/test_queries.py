"""Queries in a reply: none, one or several, whatever the model wrote."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reground.methods.rewrite_retrieve_read import before
from reground.text.excerpts import count_words
from reground.text.queries import LONGEST, clean_query, parse_queries

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
    ("**", []),
    ("Queries:", []),
    ("None.", []),
    ("No search is needed.", []),
    ("Queries: 无", []),
    (";;; ; -", []),
    # the marker, repeated, in the wrong place, or forgotten
    ("Queries: Seine length ** Danube ** x; y", ["Seine length"]),
    ("**Queries:** Seine length; Danube length **", ["Seine length", "Danube length"]),
    ("** ** Seine length", ["Seine length"]),
    ("Queries: Seine length\n\nQuestion: Who?\nQueries: who", ["Seine length"]),
    # other labels, lists and quotes
    ('Search query: "Seine length"', ["Seine length"]),
    ("Answer: I need two lengths.\nQueries: Seine length", ["Seine length"]),
    ("Query 1: Seine length\n\nQuery 2: Danube length", ["Seine length", "Danube length"]),
    ("Queries:\n1. Seine length\n2. Danube length\n\nThey will help.", ["Seine length", "Danube length"]),
    ("- Seine length\n- Danube length\nThat is all.", ["Seine length", "Danube length"]),
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
    # labels and lists in other languages, without bullets, and behind an introduction
    ("我需要长度。\n查询：塞纳河 长度；多瑙河 长度", ["塞纳河 长度", "多瑙河 长度"]),
    ("1、塞纳河 长度\n2、多瑙河 长度", ["塞纳河 长度", "多瑙河 长度"]),
    ("Here are the queries:\nSeine length\nDanube length\n\nThey will help.", ["Seine length", "Danube length"]),
    ("I need two facts:\n- the one\n- the other\nQueries: Seine length", ["Seine length"]),
    # JSON
    ('Queries: ["Seine length", "Danube length"] **', ["Seine length", "Danube length"]),
    (
        '```json\n{"thought": "Two.", "queries": ["Seine length", "Danube length"]}\n```',
        ["Seine length", "Danube length"],
    ),
    ('{"queries": [{"query": "Seine length"}, {"query": "Danube length"}]}', ["Seine length", "Danube length"]),
    ('{"queries": [], "reason": "It is known."}', []),
    # nothing to search for
    ("I don\u2019t need to search; I know the answer.", []),
    ("The question can be answered without searching.", []),
    ("Queries: none, because it is well known **", []),
    ("不需要搜索。", []),
]


@pytest.mark.parametrize(("text", "queries"), SAID, ids=[repr(text)[:40] for text, _ in SAID])
def test_what_a_rewriter_says_is_read(text, queries):
    assert parse_queries(before(text, "**"), most=3) == queries


@given(text=st.text(), most=st.integers(1, 4), stop=st.sampled_from(["", "**", "###"]))
@example(text="Queries: _; _", most=2, stop="**")
@example(text="Query: Query: x", most=2, stop="")
def test_any_text_gives_a_few_different_queries_that_say_something(text, most, stop):
    found = parse_queries(before(text, stop), most=most)
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
    assert parse_queries(before(f"{text} **", "**"), most=4) == queries


ONE = [
    ('Search query: "length of the Danube"', "length of the Danube"),
    ("**Query:** Danube length\nbecause ...", "Danube length"),
    ("\n\n- Query 1: Danube", "Danube"),
    ("- Danube length", "Danube length"),
    ("Sure! Here is a search query: Danube length", "Danube length"),
    ('Query: "Ada Lovelace" birth year', '"Ada Lovelace" birth year'),
    ("检索词：“多瑙河 长度”", "多瑙河 长度"),
    ("Suchanfrage: Länge der Donau", "Länge der Donau"),
    ("**Suggested terms:** Danube length", "Danube length"),
    ("I need its length.\nSearch query: Danube length", "Danube length"),
    ('Here is a search query:\n\n"length of the Danube"', "length of the Danube"),
    ("<query>Danube length</query>", "Danube length"),
    ('{"query": "Danube length"}', "Danube length"),
    ('{"name": "search", "arguments": {"query": "Danube length"}}', "Danube length"),
    ("```text\nDanube length\n```", "Danube length"),
    ("Danube length [2]", "Danube length"),
    ("No search is needed.", "the fallback"),
    ('{"query": null}', "the fallback"),
    ("", "the fallback"),
]


@pytest.mark.parametrize(("reply", "query"), ONE)
def test_one_query_is_read_without_what_stands_around_it(reply: str, query: str) -> None:
    assert clean_query(reply, fallback=" the fallback ") == query


@pytest.mark.parametrize(
    "query",
    [
        "Danube length",
        "Danube length:",
        "Danube; Rhine",
        "Rome: history",
        "2001: A Space Odyssey director",
        "query planning in databases",
        '"Ada Lovelace" birth year',
        '"Ada Lovelace" "Charles Babbage"',
        'intitle:"Ada Lovelace"',
        "`functools.partial` usage",
        "__init__ vs __new__ in Python",
        "python list[1] index",
        'python Literal["a", "b"]',
        "And Then There Were None",
        "None of the above meaning",
        "no search warrant exception",
        "多瑙河：长度",
    ],
)
def test_a_query_that_is_right_stays_as_it_is(query: str) -> None:
    assert clean_query(query, fallback="") == query
    assert parse_queries(query, most=3) == query.split("; ")


@pytest.mark.parametrize("word", ["length ", "长"])
def test_a_query_without_end_is_cut(word: str) -> None:
    (query,) = parse_queries(word * 500, most=1)
    assert count_words(query) == LONGEST
    assert clean_query(word * 500, fallback="") == query


@pytest.mark.parametrize(
    ("text", "kept"),
    [("Answer: x ** y", "Answer: x "), ("**Answer:** x **", "  Answer:  x  "), ("x", "x"), ("", ""), ("**", " ")],
)
def test_the_text_before_the_marker(text, kept):
    assert before(text, "**").split() == kept.split()
    assert before(text, "") == text

"""What becomes of texts, addresses and numbers from outside, and of JSON that nobody promised."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import RegroundError
from reground.web.engines.providers import read_searchr1
from reground.web.results import (
    MOST_CONTENT,
    MOST_RESULTS,
    MOST_SNIPPET,
    MOST_TITLE,
    WebResult,
    complaint,
    page_text,
    page_url,
    parse_results,
    plain,
)
from tests.web.engines.test_engines import PROVIDERS

FIELDS = st.sampled_from(
    (
        *("results", "result", "web", "organic", "document", "contents", "unresponsive_engines", "error", "id"),
        *("title", "url", "link", "href", "description", "content", "text", "raw_content", "score"),
        *("date", "page_age", "published_date", "publishedDate"),
    )
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.just("https://a.example/b")
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=6))


@pytest.mark.parametrize("name", PROVIDERS)
@given(data=st.dictionaries(FIELDS, JSON, max_size=6))
def test_no_json_breaks_a_reader(name, data):
    read = PROVIDERS[name].read
    try:
        results = read(data, "http://box")
    except (ValueError, RegroundError):
        return
    for each in results:
        assert isinstance(each, WebResult)
        assert each.url.startswith(("http://", "https://"))
        assert WebResult.model_validate_json(each.model_dump_json()) == each


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("the <strong>old</strong> bridge", "the old bridge"),
        ("one<br/>two<p class='a'>three", "one two three"),
        ("a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;", "a <b> & \"c\" 'd'"),
        ("Vec<String> and 1 < 2 > 0", "Vec<String> and 1 < 2 > 0"),
        ('<SCRIPT src="x">alert(1)</SCRIPT>', "alert(1)"),
        ("a\x1b[31mred\x00\nline", "a [31mred line"),
        (3, ""),
        (None, ""),
        (["a"], ""),
    ],
)
def test_markup_is_removed_and_text_is_kept(given_, expected):
    assert plain(given_, 100) == expected


@pytest.mark.parametrize(
    "url",
    [
        *("", "javascript:alert(1)", "ftp://a.example", "//a.example", "a.example", "http://", "http://[::1", None, 3),
        *("https://me:hush@a.example", "https://a.example:99999/", "https://a.example/a b", "https://a.example/\nb"),
        "https://a.example/" + "x" * 3000,
    ],
)
def test_what_cannot_be_opened_is_no_page(url):
    assert page_url(url) is None
    assert parse_results([{"title": "t", "url": url}]) == []


def test_lengths_and_the_number_of_results_are_bounded():
    item = {"title": "x" * 10**6, "url": "https://a.example", "snippet": "y" * 10**6, "text": "z\n" * 10**6}
    results = parse_results([item] * 500, content="text")
    assert len(results) == MOST_RESULTS
    first = results[0]
    assert (len(first.title), len(first.snippet)) == (MOST_TITLE, MOST_SNIPPET)
    assert len(first.content) <= MOST_CONTENT and "\n" in first.content
    assert page_text("") is None and page_text(" \n") is None and page_text(3) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"error": {"code": "RATE_LIMITED", "detail": "Too fast."}}, "RATE_LIMITED: Too fast."),
        ({"errors": [{"code": "A", "detail": "b"}]}, "A: b"),
        ({"message": "Unauthorized.", "statusCode": 403}, "Unauthorized."),
        ({"detail": {"error": "Unauthorized: key."}}, "Unauthorized: key."),
        ({"error": "No credits.", "tag": "NO_MORE_CREDITS"}, "NO_MORE_CREDITS: No credits."),
        ({"error": "\x1b[2J\x1b]0;T\x07no\nkey\x9b", "code": "A\x1b"}, "A: [2J ]0;T no key"),
        *(({}, ""), (None, ""), ([], ""), (3, ""), ({"error": None}, "")),
    ],
)
def test_complaints_in_every_form(data, said):
    assert complaint(data) == said


def read_one(document, **entry):
    data = {"result": [[{"document": document, **entry} if entry else document]]}
    (result,) = read_searchr1(json.loads(json.dumps(data)), base="http://box")
    return result


def test_searchr1_documents_in_every_form():
    scored = read_one({"id": "7/a", "contents": '"Bridge"\nIt opened.\nLater.'}, score=0.5)
    assert (scored.title, scored.content, scored.score) == ("Bridge", "It opened.\nLater.", 0.5)
    assert scored.url == "http://box/retrieve/7%2Fa"
    apart = read_one({"id": 7, "title": "Bridge", "text": "It opened.", "contents": '"Bridge"\nIt opened.'})
    assert (apart.title, apart.content, apart.score, apart.url) == (
        *("Bridge", "It opened.", None),
        "http://box/retrieve/7",
    )
    bare = read_one("Only a text")
    assert (bare.title, bare.content) == ("", "Only a text")
    assert bare.url == read_one("Only a text").url != read_one("Another").url
    assert read_one({"contents": "a\nb", "url": "https://a.example"}).url == "https://a.example"
    assert read_searchr1({"result": [[{"id": 1}, 3, None]]}, base="http://box") == []

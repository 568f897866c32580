"""Every provider: what it is asked, and what becomes of its answers, its errors, and of JSON that nobody promised."""

import asyncio
import json
import traceback
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import ConfigurationError, RegroundError
from reground.testing.search_engines import KEY, MockEngines, Page
from reground.web.engines.providers import (
    BRAVE,
    EXA,
    SEARCHR1,
    SEARXNG,
    SERPER,
    TAVILY,
    HttpEngine,
    brave_rate,
    read_searchr1,
)
from reground.web.results import (
    MOST_CONTENT,
    MOST_RESULTS,
    MOST_SNIPPET,
    MOST_TITLE,
    Engine,
    EngineBusy,
    EngineError,
    WebResult,
    complaint,
    page_text,
    page_url,
    parse_results,
    plain,
)
from tests.models.clocks import Clock

PROVIDERS = {each.name: each for each in (BRAVE, SERPER, TAVILY, EXA, SEARXNG, SEARCHR1)}
KEYED = ("brave", "serper", "tavily", "exa")
PAGES = [
    Page("Old bridge", "https://example.org/old", "The old bridge opened in 1874 &amp; still stands."),
    Page("New bridge", "https://example.org/new?a=1", "The new bridge opened in 1990."),
    Page("Ferry", "https://example.org/ferry", "A ferry crosses the river."),
]


def build(name, server, clock, **settings):
    base, settings = server.url(name), {"uniform": lambda low, high: high, **settings}
    return HttpEngine(PROVIDERS[name], base=base, clock=clock.now, sleep=clock.sleep, **settings)


@asynccontextmanager
async def asking(name, monkeypatch, pages=PAGES, headers=None, key=KEY, **settings):
    """A server, an engine that asks it, and the clock."""
    if name in KEYED:
        monkeypatch.setenv(PROVIDERS[name].key_env, key)
    clock = Clock()
    async with MockEngines(pages, headers=headers) as server:
        engine = build(name, server, clock, **settings)
        try:
            yield server, engine, clock
        finally:
            await engine.aclose()


ALL = pytest.mark.parametrize("name", PROVIDERS)
WITH_KEY = pytest.mark.parametrize("name", KEYED)


@ALL
async def test_results_are_those_of_the_pages(name, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, clock):
        assert isinstance(engine, Engine)
        results = await engine.search("  bridge\n opened ", k=5)
        assert [each.title for each in results] == ["Old bridge", "New bridge"]
        assert "The old bridge opened in 1874 & still stands." in results[0].snippet
        assert "<" not in results[0].snippet
        if name == "searchr1":
            assert results[0].url == server.url(name) + "/retrieve/1"
        else:
            assert [each.url for each in results] == ["https://example.org/old", "https://example.org/new?a=1"]
        if name in ("tavily", "exa", "searchr1"):
            assert results[1].content.startswith("The new bridge opened in 1990.")
        assert clock.slept == []


SENT = {
    "brave": {"q": "bridge", "count": "3", "result_filter": "web", "text_decorations": "false"},
    "serper": {"q": "bridge", "num": 3},
    "tavily": {"query": "bridge", "max_results": 3, "search_depth": "basic", "include_raw_content": "text"},
    "exa": {"query": "bridge", "numResults": 3, "contents": {"text": {"maxCharacters": 20_000}}},
    "searxng": {"q": "bridge", "format": "json"},
    "searchr1": {"queries": ["bridge"], "topk": 3, "return_scores": True},
}
HEADERS = {
    "brave": ("X-Subscription-Token", KEY),
    "serper": ("X-API-KEY", KEY),
    "tavily": ("Authorization", f"Bearer {KEY}"),
    "exa": ("x-api-key", KEY),
}


@ALL
async def test_parameters_and_key(name, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, _):
        await engine.search("bridge", k=3)
        (asked,) = server.asked
        assert asked.wanted == SENT[name]
        assert asked.headers["User-Agent"].startswith("reground/")
        if name in HEADERS:
            header, value = HEADERS[name]
            assert asked.headers[header] == value
        else:
            assert KEY not in str(asked.headers)


@pytest.mark.parametrize(("name", "letters", "words"), [("brave", 400, 50), ("tavily", 400, 400), ("exa", 2000, 400)])
async def test_a_long_query_is_cut_to_what_the_provider_takes(name, letters, words, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, _):
        await engine.search("bridge over the river " * 500, k=1)
        sent = server.asked[0].wanted
        query = sent.get("q") or sent["query"]
        assert len(query) <= letters and len(query.split()) <= words
        assert query.split()[-1] in ("bridge", "over", "the", "river")


@WITH_KEY
def test_a_missing_key_is_named_before_anything_is_spent(name, monkeypatch):
    variable = PROVIDERS[name].key_env
    for value in ("", "  "):
        monkeypatch.setenv(variable, value)
        with pytest.raises(ConfigurationError, match=variable):
            PROVIDERS[name].create("")
    monkeypatch.setenv(variable, "schlüssel")
    with pytest.raises(ConfigurationError, match="no key has"):
        PROVIDERS[name].create("")
    monkeypatch.setenv(variable, KEY)
    assert PROVIDERS[name].create("").name == name
    assert PROVIDERS[name].create("").may_store is False
    with pytest.raises(ConfigurationError, match="takes no address"):
        PROVIDERS[name].create("http://localhost")


@WITH_KEY
async def test_a_wrong_key_is_no_passing_fault_and_stays_secret(name, monkeypatch):
    wrong = "wrong-key-9876543210"
    async with asking(name, monkeypatch, key=wrong) as (server, engine, clock):
        with pytest.raises(EngineError, match=PROVIDERS[name].key_env) as caught:
            await engine.search("bridge", k=1)
        assert not isinstance(caught.value, EngineBusy)
        shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
        assert wrong not in shown + repr(engine) + engine.name
        assert len(server.asked) == 1 and clock.slept == []
        for fault in (f'json:{{"error": "bad {wrong}"}}', f"400:{wrong}", f"500:{wrong}"):
            server.misbehave(*[fault] * 4)
            with pytest.raises(EngineError) as caught:
                await engine.search("bridge", k=1)
            assert wrong not in str(caught.value) and "[key]" in str(caught.value)


@WITH_KEY
async def test_without_quota_another_engine_may_answer(name, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, clock):
        server.misbehave("quota")
        with pytest.raises(EngineBusy, match=f"{PROVIDERS[name].key_env} has no quota left"):
            await engine.search("bridge", k=1)
        assert len(server.asked) == 1 and clock.slept == []


async def test_brave_says_when_the_month_is_over_and_how_fast_it_may_be_asked(monkeypatch):
    headers = {"X-RateLimit-Remaining": "1, 0", "X-RateLimit-Reset": "1, 1419704"}
    async with asking("brave", monkeypatch, headers=headers) as (server, engine, clock):
        server.misbehave("quota")
        with pytest.raises(EngineBusy) as caught:
            await engine.search("bridge", k=1)
        assert caught.value.retry_after == 1419704
        clock.slept.clear()
        await engine.search("bridge", k=1)
        assert clock.slept == pytest.approx([1.0])
        server.headers["X-RateLimit-Policy"] = "50;w=1, 0;w=2592000"  # the rate of the plan
        for _ in range(50):
            await engine.search("bridge", k=1)
        assert sum(clock.slept) == pytest.approx(2.98)  # a full bucket is not given with the new rate


@pytest.mark.parametrize("policy", ["", "1", ";w=", "a;w=b", "1;w=0", "-1;w=1", "5;w=99999999", "nan;w=1", "1;w=nan"])
def test_a_policy_that_says_nothing_changes_nothing(policy):
    assert brave_rate({"X-RateLimit-Policy": policy}) is None


async def test_searxng_says_how_json_is_allowed(monkeypatch):
    async with asking("searxng", monkeypatch) as (server, engine, clock):
        server.misbehave("status:403", "429")
        with pytest.raises(EngineError, match=r"search\.formats") as caught:
            await engine.search("bridge", k=1)
        assert not isinstance(caught.value, EngineBusy)
        with pytest.raises(EngineBusy, match=r"server\.limiter"):
            await engine.search("bridge", k=1)
        assert clock.slept == []


async def test_searxng_without_any_engine_that_answers_is_busy(monkeypatch):
    async with asking("searxng", monkeypatch) as (server, engine, _):
        server.misbehave('json:{"results": [], "unresponsive_engines": [["google", "timeout"], 3, ["b", null]]}')
        with pytest.raises(EngineBusy, match="google: timeout"):
            await engine.search("bridge", k=1)


@pytest.mark.parametrize("name", ["searxng", "searchr1"])
class TestAddresses:
    def test_the_address_is_part_of_the_name(self, name):
        engine = PROVIDERS[name].create("https://box.example:8443/search-r/")
        assert engine.name == f"{name}:https://box.example:8443/search-r"
        assert engine.may_store is (name == "searchr1")

    @pytest.mark.parametrize("wrong", ["", "localhost:8080", "ftp://a", "http://", "http://a:99999", "http://a/?b=c"])
    def test_what_is_no_address_is_refused(self, name, wrong):
        with pytest.raises(ConfigurationError, match=f"{name}:http://localhost:8080"):
            PROVIDERS[name].create(wrong)

    @pytest.mark.parametrize("secret", ["http://me:hush@box", "http://box/?api_key=hush", "http://[box/?key=hush"])
    def test_a_secret_in_it_is_refused_and_not_repeated(self, name, secret):
        with pytest.raises(ConfigurationError) as caught:
            PROVIDERS[name].create(secret)
        assert "hush" not in str(caught.value)


ALL = pytest.mark.parametrize("name", PROVIDERS)
LIMITED = pytest.mark.parametrize("name", [name for name in PROVIDERS if name != "searxng"])
PASSING = ["status:500", "status:502", "status:408", "status:503", "cut", "hang-up", "page", "malformed", "json:[1]"]


@ALL
@pytest.mark.parametrize("fault", PASSING)
async def test_a_passing_fault_is_tried_again(name, fault, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, clock):
        server.misbehave(fault)
        assert len(await engine.search("bridge", k=1)) == 1
        assert len(server.asked) == 2
        assert 1.0 in clock.slept or fault == "hang-up"  # aiohttp repeats a GET at once if nothing was answered


@LIMITED
async def test_429_waits_as_long_as_asked_but_not_for_an_hour(name, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, clock):
        server.misbehave("429:3", "429")
        assert len(await engine.search("bridge", k=1)) == 1
        assert clock.slept[:2] == [3.5, 2.0]
        server.misbehave("429:3600")
        with pytest.raises(EngineBusy, match="asks to wait 3600 s") as caught:
            await engine.search("bridge", k=1)
        assert caught.value.retry_after == 3600.0 and len(server.asked) == 4


@ALL
async def test_waits_double_and_attempts_end(name, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, clock):
        server.misbehave(*["status:500"] * 9)
        with pytest.raises(EngineBusy, match=r"500.*4 attempts"):
            await engine.search("bridge", k=1)
        assert len(server.asked) == 4 and [each for each in clock.slept if each >= 1] == [1.0, 2.0, 4.0]


@ALL
@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_a_refused_request_is_not_repeated(name, status, monkeypatch):
    async with asking(name, monkeypatch) as (server, engine, _):
        server.misbehave(f"status:{status}")
        with pytest.raises(EngineError, match=str(status)) as caught:
            await engine.search("bridge", k=1)
        assert not isinstance(caught.value, EngineBusy) and len(server.asked) == 1


@pytest.mark.parametrize("fault", ["stall:5", "halt:5"])
async def test_a_slow_reply_gives_way(fault, monkeypatch):
    async with asking("brave", monkeypatch, timeout=0.1) as (server, engine, clock):
        server.misbehave(fault)
        with pytest.raises(EngineBusy, match=r"within 0\.1 s"):
            await engine.search("bridge", k=1)
        assert clock.slept == []


async def test_engines_do_not_share_keys_or_connections(monkeypatch):
    monkeypatch.setenv("BRAVE_API_KEY", f"brave-{KEY}")
    monkeypatch.setenv("SERPER_API_KEY", f"serper-{KEY}")
    async with MockEngines(PAGES) as server:
        engines = [build(name, server, Clock()) for name in ("brave", "serper", "searxng")]
        await asyncio.gather(*(each.search("bridge", k=1) for each in engines))
        seen = {each.provider: str(each.headers) for each in server.asked}
        assert "serper-" not in seen["brave"] and "brave-" not in seen["serper"] and KEY not in seen["searxng"]
        await engines[0].aclose()
        assert len(await engines[1].search("bridge", k=1)) == 1  # another engine's connections stay open
        assert len(await engines[0].search("bridge", k=1)) == 1  # and a closed engine opens new ones
        for each in engines:
            await each.aclose()


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

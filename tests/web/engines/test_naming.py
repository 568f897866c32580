"""Engines by name, from files and from plug-ins."""

import logging
import re
import sys

import pytest

from reground.core.errors import ConfigurationError
from reground.testing.search_engines import KEY
from reground.web.engines import Fallback, engine, engines
from reground.web.results import Engine, EngineBusy, EngineError, WebResult
from tests.models.clocks import Clock
from tests.web.engines.test_engines import KEYED, PROVIDERS


def test_every_engine_is_listed_with_what_it_needs():
    assert set(engines()) == {*PROVIDERS, "ddgs"}
    for name in KEYED:
        assert PROVIDERS[name].key_env in engines()[name].summary
    for name, entry in engines().items():
        assert entry.summary.startswith(f"`{name}")


def test_one_and_several(monkeypatch):
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    assert engine("brave").name == "brave"
    both = engine(" brave , searxng:http://localhost:8080/ ")
    assert isinstance(both, Engine)
    assert both.name == "brave,searxng:http://localhost:8080"


@pytest.mark.parametrize("name", ["bing", "google", "Bing", "google:abc"])
def test_retired_engines_say_so(name):
    with pytest.raises(ConfigurationError, match=r"(retired|closed).*take (brave|serper)"):
        engine(name)


@pytest.mark.parametrize(("name", "hint"), [("brav", "brave"), ("searx:http://a", "searxng"), ("", "there are")])
def test_unknown_names(name, hint):
    with pytest.raises(ConfigurationError, match=hint):
        engine(name)


OWN = """
from reground.web.results import WebResult

async def search(query, k):
    return [WebResult(title=query, url="https://a.example")] * 3

def plain(query, k):
    return [{"title": "<b>T</b>", "url": "https://a.example", "snippet": query, "score": k, "content": "All."}, "junk"]
plain.may_store = True

def broken(query, k):
    raise ValueError("no luck")

def none(query, k):
    return None
"""


class TestFiles:
    @pytest.fixture
    def own(self, tmp_path):
        path = tmp_path / "my_engine.py"
        path.write_text(OWN)
        return path

    async def test_functions_async_and_not(self, own):
        first = engine(str(own))
        assert re.fullmatch(r"my_engine\.py:search-[0-9a-f]{8}", first.name) and not first.may_store
        assert [each.title for each in await first.search("q", k=2)] == ["q", "q"]
        second = engine(f"{own}:plain")
        assert second.may_store
        (result,) = await second.search("q", k=5)
        assert (result.title, result.snippet, result.score, result.content) == ("T", "q", 5.0, "All.")

    @pytest.mark.parametrize("function", ["broken", "none"])
    async def test_its_errors_name_it(self, own, function):
        with pytest.raises(EngineError, match=rf"my_engine\.py:{function}"):
            await engine(f"{own}:{function}").search("q", k=1)

    def test_what_is_not_there(self, own, tmp_path):
        with pytest.raises(ConfigurationError, match="plain"):
            engine(f"{own}:plane")
        with pytest.raises(ConfigurationError, match="no search engine file"):
            engine(str(tmp_path / "missing.py"))


class TestPlugins:
    @pytest.fixture
    def installed(self, tmp_path, monkeypatch):
        (tmp_path / "their_engine.py").write_text(
            '"""`theirs:PLACE`: another engine."""\n'
            "class E:\n    name, may_store = 'theirs', True\n"
            "    async def search(self, query, /, *, k): return []\n"
            "def create(argument): return E() if argument == 'here' else None\n"
        )
        info = tmp_path / "theirs-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[reground.engines]\ntheirs = their_engine\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        yield
        sys.modules.pop("their_engine", None)

    def test_an_entry_point_is_an_engine(self, installed):
        assert engines()["theirs"].summary == "`theirs:PLACE`: another engine."
        assert engine("theirs:here").name == "theirs"


PAGE = WebResult(title="t", url="https://a.example")


class Scripted:
    """An engine that fails or answers as told; the last entry from then on."""

    def __init__(self, name, *script, may_store=True):
        self.name, self.may_store = name, may_store
        self.script = list(script)
        self.asked = 0
        self.closed = False

    async def search(self, query, *, k):
        self.asked += 1
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        return step[:k]

    async def aclose(self):
        self.closed = True


async def test_the_first_that_answers_and_none_is_an_answer(caplog):
    first, second = Scripted("a", EngineError("a broke"), []), Scripted("b", [PAGE], may_store=False)
    both = Fallback([first, second])
    assert isinstance(both, Engine) and (both.name, both.may_store) == ("a,b", False)
    with caplog.at_level(logging.WARNING):
        assert await both.search("q", k=3) == [PAGE]
    assert "a broke" in caplog.text
    assert await both.search("q", k=3) == []
    assert (first.asked, second.asked) == (2, 1)
    await both.aclose()
    assert first.closed and second.closed


async def test_all_reasons_are_told():
    both = Fallback([Scripted("a", EngineError("a broke")), Scripted("b", EngineError("b refused"))])
    with pytest.raises(EngineError, match=r"a broke; b refused") as caught:
        await both.search("q", k=1)
    assert not isinstance(caught.value, EngineBusy)
    both = Fallback([Scripted("a", EngineError("a broke")), Scripted("b", EngineBusy("b is full"))])
    with pytest.raises(EngineBusy) as caught:
        await both.search("q", k=1)
    assert caught.value.retry_after is None


async def test_a_busy_engine_is_left_out_for_as_long_as_it_says():
    clock = Clock()
    first = Scripted("a", EngineBusy("a is full", retry_after=60.0), [PAGE])
    second = Scripted("b", [], EngineBusy("b is full", retry_after=90.0))
    both = Fallback([first, second], clock=clock.now)
    assert await both.search("q", k=1) == []
    clock.time += 20
    with pytest.raises(EngineBusy, match="a asked to wait 40 s more; b is full") as caught:
        await both.search("q", k=1)
    assert caught.value.retry_after == pytest.approx(40.0)
    assert first.asked == 1
    clock.time += 40
    assert await both.search("q", k=1) == [PAGE]


async def test_a_bug_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        await Fallback([Scripted("a", ZeroDivisionError()), Scripted("b", [PAGE])]).search("q", k=1)

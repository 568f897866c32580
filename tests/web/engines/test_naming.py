"""Engines by name, from files and from plug-ins."""

import re
import sys

import pytest

from reground.core.errors import ConfigurationError
from reground.testing.search_engines import KEY
from reground.web.engines import engine, engines
from reground.web.results import Engine, EngineError
from tests.web.engines.asking import KEYED, PROVIDERS


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

    def test_what_is_no_engine_is_refused(self, installed):
        with pytest.raises(ConfigurationError, match="theirs"):
            engine("theirs:nowhere")

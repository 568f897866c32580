"""The package ddgs behind the port."""

import threading

import pytest

from reground.core.errors import ConfigurationError
from reground.web.engines import engine
from reground.web.engines.ddgs import THREAD, ddgs_engine
from reground.web.results import Engine, EngineBusy, EngineError
from tests.models.clocks import Clock

exceptions = pytest.importorskip("ddgs.exceptions")
PAGE = {"title": "Bridge", "href": "https://a.example", "body": "It opened."}


class FakeDdgs:
    """`DDGS.text` with given results or an exception; `asked` are its arguments."""

    def __init__(self, reply):
        self.reply = reply
        self.asked = []

    def text(self, query, **options):
        self.asked.append((query, options, threading.current_thread().name))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


def over(reply, backend="auto"):
    fake, clock = FakeDdgs(reply), Clock()
    return fake, clock, ddgs_engine(lambda: fake, backend, clock=clock.now, sleep=clock.sleep)


async def test_results_and_arguments():
    fake, _, ddgs = over([PAGE, {"title": "x", "href": "nowhere"}, PAGE])
    assert isinstance(ddgs, Engine) and (ddgs.name, ddgs.may_store) == ("ddgs", False)
    (result,) = await ddgs.search(" old\nbridge ", k=1)
    assert (result.title, result.url, result.snippet) == ("Bridge", "https://a.example", "It opened.")
    assert fake.asked == [("old bridge", {"max_results": 1, "backend": "auto"}, THREAD)]


@pytest.mark.parametrize(
    ("error", "kind", "why"),
    [
        (exceptions.TimeoutException("timed out"), EngineBusy, "timed out"),
        (exceptions.RatelimitException("202"), EngineBusy, "202"),
        (exceptions.DDGSException("No results found."), EngineBusy, "nothing was found, or"),
        (KeyError("li"), EngineError, "KeyError"),
    ],
)
async def test_its_exceptions(error, kind, why):
    _, _, ddgs = over(error)
    with pytest.raises(kind, match=why) as caught:
        await ddgs.search("q", k=1)
    assert type(caught.value) is kind


async def test_it_keeps_to_twenty_a_minute():
    _, clock, ddgs = over([PAGE])
    for _ in range(3):
        await ddgs.search("q", k=1)
    assert clock.slept == pytest.approx([3.0, 3.0])


def test_by_name():
    assert engine("ddgs").name == "ddgs"
    assert engine("ddgs:wikipedia").name == "ddgs:wikipedia"
    with pytest.raises(ConfigurationError, match="wikipedia"):
        engine("ddgs:wikipedias")

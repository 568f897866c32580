"""The next engine answers when the one before it does not."""

import logging

import pytest

from reground.web.engines import Fallback
from reground.web.results import Engine, EngineBusy, EngineError, WebResult
from tests.models.clocks import Clock

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

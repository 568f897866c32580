import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.budget import Budget
from reground.core.errors import AuthenticationError, ModelError, TransientModelError
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.run import Run
from reground.models.scripted import ScriptedModel
from reground.models.wrappers import Retry
from tests.models.clocks import Clock

ASK = (Message(role="user", content="q"),)


def retrying(script, clock, **settings):
    settings.setdefault("uniform", lambda low, high: high)
    model = ScriptedModel(script)
    return model, Retry(model, clock=clock.now, sleep=clock.sleep, **settings)


async def test_a_call_that_succeeds_is_made_once():
    clock = Clock()
    model, retry = retrying(["fine"], clock)
    assert (await retry.generate(ASK, Sampling()))[0].text == "fine"
    assert retry.name == model.name
    assert clock.slept == []


async def test_waits_double_up_to_the_cap():
    clock = Clock()
    _, retry = retrying([TransientModelError("busy")] * 5 + ["fine"], clock, base=1.0, cap=5.0)
    assert (await retry.generate(ASK, Sampling()))[0].text == "fine"
    assert clock.slept == [2.0, 4.0, 5.0, 5.0, 5.0]


async def test_a_wait_is_anywhere_between_nothing_and_all():
    bounds = []
    clock = Clock()
    _, retry = retrying(
        [TransientModelError("busy"), "fine"], clock, uniform=lambda low, high: bounds.append((low, high)) or 0.25
    )
    await retry.generate(ASK, Sampling())
    assert bounds == [(0.0, 1.0)]
    assert clock.slept == [0.25]


@given(st.floats(0, 200))
def test_retry_after_is_never_undercut(asked):
    clock = Clock()
    _, retry = retrying([TransientModelError("busy", retry_after=asked), "fine"], clock)
    asyncio.run(retry.generate(ASK, Sampling()))
    assert asked <= clock.slept[0] <= asked + 0.5


@pytest.mark.parametrize("error", [ModelError("no"), AuthenticationError("no"), ValueError("no")])
async def test_what_is_not_transient_is_not_tried_again(error):
    clock = Clock()
    model, retry = retrying([error, "fine"], clock)
    with pytest.raises(type(error)) as caught:
        await retry.generate(ASK, Sampling())
    assert caught.value is error
    assert len(model.calls) == 1


async def test_attempts_are_counted_and_told():
    clock = Clock()
    model, retry = retrying(lambda *_: TransientModelError("busy"), clock, attempts=3, base=1.0)
    with pytest.raises(TransientModelError, match=r"^busy \(gave up after 3 attempts and 6 s\)$"):
        await retry.generate(ASK, Sampling())
    assert len(model.calls) == 3


async def test_one_attempt_is_no_retry():
    clock = Clock()
    _, retry = retrying([TransientModelError("busy")], clock, attempts=1)
    with pytest.raises(TransientModelError, match=r"^busy$"):
        await retry.generate(ASK, Sampling())


async def test_the_deadline_ends_it_before_a_wait_that_would_pass_it():
    clock = Clock()
    model, retry = retrying(lambda *_: TransientModelError("busy"), clock, attempts=100, base=1.0, deadline=20.0)
    with pytest.raises(TransientModelError, match="gave up"):
        await retry.generate(ASK, Sampling())
    assert sum(clock.slept) <= 20.0
    assert clock.slept == [2.0, 4.0, 8.0]
    assert len(model.calls) == 4


async def test_a_server_that_asks_for_more_than_the_deadline_is_told_of():
    clock = Clock()
    _, retry = retrying([TransientModelError("quota", retry_after=3600)], clock)
    with pytest.raises(TransientModelError, match="asks to wait 3600 s") as caught:
        await retry.generate(ASK, Sampling())
    assert caught.value.retry_after == 3600
    assert clock.slept == []


async def test_samples_that_arrived_are_kept_and_the_seed_moves_on():
    clock = Clock()
    partial = TransientModelError("cut")
    partial.paid = [Reply(text="a"), Reply(text="b")]
    model, retry = retrying([partial, "c"], clock)
    replies = await retry.generate(ASK, Sampling(n=3, seed=5, temperature=1))
    assert [reply.text for reply in replies] == ["a", "b", "c"]
    assert (model.calls[1][1].n, model.calls[1][1].seed) == (1, 7)


@pytest.mark.parametrize("last", [TransientModelError("busy"), ModelError("refused")])
async def test_what_arrived_is_told_when_the_rest_fails_for_good(last):
    partial = TransientModelError("cut")
    partial.paid = [Reply(text="a", usage=Usage(calls=1, prompt=9))]
    _, retry = retrying([partial, last], Clock(), attempts=2)
    run = Run(budget=Budget(tokens=500))
    with pytest.raises(ModelError):
        await run.generate(retry, "Why?", name="x", sampling=Sampling(n=3, temperature=1))
    assert (run.usage.calls, run.usage.prompt) == (1, 9)

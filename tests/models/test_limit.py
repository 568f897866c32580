import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.errors import ModelError
from reground.core.http import Bucket
from reground.core.language import Message, Reply, Sampling, Usage
from reground.models.scripted import ScriptedModel
from reground.models.wrappers import Limit
from tests.models.clocks import Clock

ASK = (Message(role="user", content="q"),)


class Slow:
    """A model that counts who is inside and lets them out when told."""

    name = "slow/model"

    def __init__(self):
        self.inside = self.most = 0
        self.order = []
        self.open = asyncio.Event()
        self.closed = False

    async def generate(self, messages, sampling):
        self.order.append(messages[-1].content)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.open.wait()
        finally:
            self.inside -= 1
        return [Reply(text=messages[-1].content)]

    async def aclose(self):
        self.closed = True


def ask(limit, text):
    return limit.generate((Message(role="user", content=text),), Sampling())


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_no_more_at_once_than_connections_and_first_come_first_served():
    model = Slow()
    limit = Limit(model, connections=3)
    tasks = [asyncio.create_task(ask(limit, str(number))) for number in range(10)]
    await turns()
    assert model.inside == 3
    model.open.set()
    replies = await asyncio.gather(*tasks)
    assert model.most == 3
    assert model.order == [str(number) for number in range(10)]
    assert [reply.text for (reply,) in replies] == model.order


async def test_a_cancelled_call_gives_its_slot_back():
    model = Slow()
    limit = Limit(model, connections=1)
    first, second, third = (asyncio.create_task(ask(limit, text)) for text in "abc")
    await turns()
    first.cancel()
    second.cancel()
    await turns()
    assert model.order[-1] == "c"
    model.open.set()
    assert (await third)[0].text == "c"


async def test_a_failed_call_gives_its_slot_back():
    limit = Limit(ScriptedModel([ModelError("no"), "fine"]), connections=1)
    with pytest.raises(ModelError):
        await ask(limit, "a")
    assert (await ask(limit, "b"))[0].text == "fine"


async def test_requests_a_minute():
    clock = Clock()
    limit = Limit(ScriptedModel(lambda *_: "x"), requests_per_minute=30, clock=clock.now, sleep=clock.sleep)
    began = clock.time
    for _ in range(65):
        await ask(limit, "q")
    assert clock.time - began == pytest.approx(120)  # 5 at once, and 60 at one in two seconds


async def test_tokens_a_minute_are_corrected_by_usage():
    used = Usage(calls=1, prompt=10, completion=10)
    model = ScriptedModel(lambda *_: Reply(text="x", usage=used))

    class Reporting:
        name = model.name

        async def generate(self, messages, sampling):
            return [Reply(text="x", usage=used)]

    clock = Clock()
    limit = Limit(Reporting(), tokens_per_minute=600, clock=clock.now, sleep=clock.sleep)
    began = clock.time
    for _ in range(100):
        await limit.generate(ASK, Sampling(max_tokens=90))  # estimated at 94, spends 20
    spent, elapsed = 100 * 20, clock.time - began
    assert spent - 100 <= elapsed * 10 <= spent + 100


async def test_requests_beyond_the_first_are_charged():
    class Topping:
        name = "m"

        async def generate(self, messages, sampling):
            return [Reply(text="x", usage=Usage(calls=3))]

    clock = Clock()
    limit = Limit(Topping(), requests_per_minute=60, clock=clock.now, sleep=clock.sleep)
    began = clock.time
    for _ in range(10):
        await ask(limit, "q")
    assert clock.time - began == pytest.approx(3 * 9 + 1 - 10)  # 28 requests before the last call, 10 of them at once


def test_one_limit_serves_event_loops_in_turn():
    limit = Limit(ScriptedModel(lambda *_: "x"), connections=1)

    async def crowd():
        return len(await asyncio.gather(*(ask(limit, "q") for _ in range(3))))

    assert [asyncio.run(crowd()) for _ in range(2)] == [3, 3]


@settings(max_examples=60)
@given(st.floats(1, 6000), st.lists(st.integers(1, 300), min_size=1, max_size=30))
def test_a_bucket_keeps_to_its_rate(rate, amounts):
    clock = Clock()

    async def take_all():
        bucket = Bucket(rate, clock=clock.now, sleep=clock.sleep)
        for amount in amounts:
            before = clock.time
            await bucket.take(amount)
            taken.append((before, clock.time, amount))

    taken = []
    began = clock.time
    asyncio.run(take_all())
    burst = max(1.0, rate / 6)
    spent = 0.0
    for _, at, amount in taken:
        # Debt aside, what was spent before a request was let in never exceeds what had flowed in.
        assert spent + min(amount, burst) <= burst + (at - began) * rate / 60 + 1e-6 * rate + 1e-6
        spent += amount


async def test_the_tokens_of_a_failed_attempt_are_free_for_the_next():
    clock = Clock()
    model = ScriptedModel([*[ModelError("503")] * 5, "fine"])
    limit = Limit(model, tokens_per_minute=6000, clock=clock.now, sleep=clock.sleep)
    for _ in range(5):
        with pytest.raises(ModelError):
            await limit.generate(ASK, Sampling(max_tokens=2000))
    await limit.generate(ASK, Sampling(max_tokens=2000))
    assert sum(clock.slept) == 0

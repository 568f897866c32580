import asyncio

import pytest

from reground.core.http import Bucket
from tests.models.clocks import Clock

RATE = 60_000  # a minute: 1,000 a second, and 10,000 at once


class Stopped(Clock):
    """A clock that stands still: who sleeps by it wakes only when cancelled."""

    async def sleep(self, seconds):
        self.slept.append(seconds)
        await asyncio.Event().wait()


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


def emptied(clock):
    return Bucket(RATE, clock=clock.now, sleep=clock.sleep)


async def test_who_waits_gets_what_is_given_back_in_order_of_arrival():
    clock, served = Stopped(), []
    bucket = emptied(clock)
    await bucket.take(40_000)

    async def take(name, amount):
        await bucket.take(amount)
        served.append(name)

    tasks = [asyncio.create_task(take(*each)) for each in [("large", 5_000), ("small", 1), ("last", 4_000)]]
    await turns()
    bucket.settle(-31_000)  # 1,000 are there: enough for the small one, whose turn it is not
    await turns()
    assert served == []
    bucket.settle(-4_000)
    await turns()
    assert served == ["large"]
    bucket.settle(-4_000)
    await turns()
    assert served == ["large", "small"]
    bucket.settle(-1)
    await asyncio.gather(*tasks)
    assert served == ["large", "small", "last"]
    assert clock.slept == pytest.approx([35, 4, 0.001, 0.001])


async def test_who_is_cancelled_while_waiting_leaves_the_turn_to_the_next():
    clock = Stopped()
    bucket = emptied(clock)
    await bucket.take(10_000)
    first, second = (asyncio.create_task(bucket.take(amount)) for amount in (9_000, 2_000))
    await turns()
    first.cancel()
    await turns()
    assert first.cancelled() and clock.slept == pytest.approx([9, 2])
    bucket.settle(-2_000)
    await asyncio.wait_for(second, 5)

"""Which hosts are this machine, which names a server may be asked by, and how fast another one is asked."""

import asyncio

import pytest

from reground.core.http import Bucket, is_loopback, names_this
from tests.models.clocks import Clock


@pytest.mark.parametrize(
    ("named", "listening", "found"),
    [
        ("localhost:8766", "127.0.0.1", True),
        ("[::1]:8766", "::1", True),
        ("10.0.0.5:8766", "127.0.0.1", False),
        ("10.0.0.5:8766", "0.0.0.0", True),
        ("LOCALHOST", "box.lan", True),
        ("evil.example:80", "0.0.0.0", False),
        ("localhost.evil.example", "box.lan", False),
        ("127.0.0.1.evil.example:80", "box.lan", False),
        ("", "box.lan", False),
        ("arena.lan:80", "arena.lan", True),
        ("192.168.0.7:80", "box.lan", True),
    ],
)
def test_a_host_is_an_address_or_this_machine(named, listening, found):
    assert names_this(named, listening) is found


@pytest.mark.parametrize(
    ("host", "found"),
    [("127.0.0.9", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("0.0.0.0", False), ("a.b", False)],
)
def test_loopback_is_this_machine_alone(host, found):
    assert is_loopback(host) is found


class Stopped(Clock):
    """A clock that stands still: who sleeps by it wakes only when cancelled."""

    async def sleep(self, seconds):
        self.slept.append(seconds)
        await asyncio.Event().wait()


@pytest.fixture
def clock():
    return Stopped()


@pytest.fixture
def bucket(clock):
    """A thousand a second, and ten thousand at once."""
    return Bucket(60_000, clock=clock.now, sleep=clock.sleep)


async def turns():
    for _ in range(20):
        await asyncio.sleep(0)


async def test_who_waits_gets_what_is_given_back_in_order_of_arrival(clock, bucket):
    served = []
    await bucket.take(40_000)

    async def take(name, amount):
        await bucket.take(amount)
        served.append(name)

    tasks = [asyncio.create_task(take(*each)) for each in [("large", 5_000), ("small", 1), ("last", 4_000)]]
    await turns()
    # First 1,000 are there: enough for the small one, whose turn it is not.
    for given, now_served in ((31_000, []), (4_000, ["large"]), (4_000, ["large", "small"])):
        bucket.settle(-given)
        await turns()
        assert served == now_served
    bucket.settle(-1)
    await asyncio.gather(*tasks)
    assert served == ["large", "small", "last"]
    assert clock.slept == pytest.approx([35, 4, 0.001, 0.001])


async def test_who_is_cancelled_while_waiting_leaves_the_turn_to_the_next(clock, bucket):
    await bucket.take(10_000)
    first, second = (asyncio.create_task(bucket.take(amount)) for amount in (9_000, 2_000))
    await turns()
    first.cancel()
    await turns()
    assert first.cancelled() and clock.slept == pytest.approx([9, 2])
    bucket.settle(-2_000)
    await asyncio.wait_for(second, 5)

"""Branches that all end, and blocking work in a thread that a cancelled task does not wait for."""

import asyncio
import threading
import time

import pytest

from reground.core.concurrency import gather, in_daemon


async def after(turns, result):
    for _ in range(turns):
        await asyncio.sleep(0)
    if isinstance(result, Exception):
        raise result
    return result


async def test_results_come_in_order_and_others_finish_when_one_fails():
    assert await gather(after(3, "a"), after(0, "b")) == ["a", "b"]
    assert await gather() == []
    slow = asyncio.ensure_future(after(5, "done"))
    with pytest.raises(ZeroDivisionError):
        await gather(after(0, ZeroDivisionError()), slow)
    assert slow.result() == "done"


async def test_cancelling_reaches_every_branch():
    branches = [asyncio.ensure_future(asyncio.Event().wait()) for _ in range(2)]
    task = asyncio.create_task(gather(*branches))
    await after(2, None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(branch.cancelled() for branch in branches)


async def test_the_result_and_the_error_of_the_work_come_back():
    assert await in_daemon(lambda: threading.current_thread().name, name="some-work") == "some-work"
    with pytest.raises(ZeroDivisionError):
        await in_daemon(lambda: 1 // 0, name="some-work")


def test_a_cancelled_task_and_its_loop_end_before_the_work_does():
    over = threading.Event()

    async def main():
        task = asyncio.create_task(in_daemon(lambda: over.wait(60), name="some-work"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 10
    assert any(thread.name == "some-work" for thread in threading.enumerate())
    over.set()

"""Blocking work in a thread that a cancelled task does not wait for."""

import asyncio
import threading
import time

import pytest

from reground.core.concurrency import in_daemon


async def test_the_result_and_the_error_of_the_work_come_back():
    assert await in_daemon(lambda: threading.current_thread().name, name="some-work") == "some-work"
    with pytest.raises(ZeroDivisionError):
        await in_daemon(lambda: 1 // 0, name="some-work")


def test_a_cancelled_task_and_its_loop_end_before_the_work_does():
    over = threading.Event()

    async def main() -> None:
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

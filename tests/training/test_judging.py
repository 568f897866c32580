"""Judging ends cleanly: what still waits is cancelled, and nothing is left unawaited."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings

from reground.training.ppo.optimise import Judged, Judging


def test_what_still_waits_at_the_end_is_cancelled() -> None:
    begun, ended = threading.Event(), list[str]()

    async def slow(question: str, text: str) -> Judged:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(text)
            raise
        return {"score": 0.0}

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with Judging(slow) as judging:
            first = judging.submit("", "first")
            assert begun.wait(10)
            last = [judging.submit("", "last") for _ in range(100)]
        gc.collect()
    assert "first" in ended
    assert all(each.cancelled() for each in (first, *last))
    assert not [str(each.message) for each in warned]

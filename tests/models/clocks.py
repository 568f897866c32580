"""A clock that only moves when somebody sleeps by it."""

import asyncio


class Clock:
    """`now` and `sleep` for constructors that take them; `slept` is every wait in order."""

    def __init__(self):
        self.time = 1000.0
        self.slept = []

    def now(self):
        return self.time

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)

"""Small games with known values, and wrappers that delay, record or break them."""

from __future__ import annotations

import asyncio
from random import Random

from hypothesis import strategies as st

from reground.treesearch.mcts import Child

trees = st.recursive(st.floats(-1, 2), lambda inner: st.lists(inner, min_size=1, max_size=4), max_leaves=25)


class Leaves:
    """A game written down: a list offers its items, a number is a leaf that pays so much.

    A simulation plays at random, and is the same for the same place and visit. `noise` turns a leaf's number into the
    probability of a reward of 1.
    """

    def __init__(self, seed=0, *, noise=False):
        self.seed = seed
        self.noise = noise

    async def expand(self, state, path, /):
        return [Child(state=item, label=str(i)) for i, item in enumerate(state)] if isinstance(state, list) else []

    async def simulate(self, state, path, visit, /):
        return self.reward(state, path, visit)

    def reward(self, state, path, visit):
        chance = Random(f"{self.seed} {path} {visit}")
        while isinstance(state, list):
            state = chance.choice(state)
        return float(chance.random() < state) if self.noise else state


class Uneven:
    """Another game, whose calls take uneven time, drawn by `timing`."""

    def __init__(self, game, timing):
        self.game = game
        self.timing = timing

    async def expand(self, state, path, /):
        await self._wait(path)
        return await self.game.expand(state, path)

    async def simulate(self, state, path, visit, /):
        await self._wait(path, visit)
        return await self.game.simulate(state, path, visit)

    async def _wait(self, *call):
        for _ in range(Random(f"{self.timing} {call}").randrange(6)):
            await asyncio.sleep(0)


class Died(Exception):
    """What a game raises when its calls have run out."""


class Recorded:
    """Another game, whose results are kept in `journal` and taken from there; `calls` counts the others.

    The calls end with Died after `limit`.
    """

    def __init__(self, game, journal, limit=None):
        self.game = game
        self.journal = journal
        self.limit = limit
        self.calls = 0

    async def expand(self, state, path, /):
        return await self._once(("expand", path), lambda: self.game.expand(state, path))

    async def simulate(self, state, path, visit, /):
        return await self._once(("simulate", path, visit), lambda: self.game.simulate(state, path, visit))

    async def _once(self, key, call):
        if key not in self.journal:
            if self.calls == self.limit:
                raise Died(f"after {self.limit} calls")
            self.calls += 1
            self.journal[key] = await call()
        return self.journal[key]

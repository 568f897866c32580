"""The same search as a plain function: no tasks, no clock, one table. It is what the engine is held against."""

from __future__ import annotations

import math
from collections import defaultdict
from random import Random


def reference(game, root, settings):
    """Visits, value and rewards by path, of a game of `Leaves`.

    Selection i sees the rewards of simulations 0 to i - in_flight; the rest count as visits that bring the mean so
    far (of the node, or of its parent when it has none).
    """
    visits, values, rewards = defaultdict(int), defaultdict(float), defaultdict(list)
    pending, started, taken = defaultdict(int), defaultdict(int), defaultdict(int)
    children = {}
    flights = []

    def state_at(path):
        state = root
        for index in path:
            state = state[index]
        return state

    def enter(path):
        taken[path] += 1
        pending[path] += 1

    def choose(path):
        order = children[path]
        for child in order:
            if not taken[child]:
                return child
        total = taken[path] - 1  # all that went through here before this one, finished or not
        mean_here = values[path] / visits[path] if visits[path] else 0.0

        def score(child):
            mean = values[child] / visits[child] if visits[child] else mean_here
            n = visits[child] + pending[child]
            v = values[child] + pending[child] * mean
            return v / n + settings.c * math.sqrt(math.log(total) / n)

        return max(order, key=score)

    def open_node(path):
        state = state_at(path)
        found = [(*path, i) for i in range(len(state))] if isinstance(state, list) else []
        lot = Random(f"{settings.seed}/{'-'.join(map(str, path)) or 'root'}")
        children[path] = [child for _, child in sorted((lot.random(), child) for child in found)]

    def select():
        path = ()
        enter(path)
        while children.get(path):
            path = choose(path)
            enter(path)
        if path not in children and (path == () or started[path]):
            open_node(path)
            if children[path]:
                path = choose(path)
                enter(path)
        visit = started[path]
        started[path] += 1
        return path, visit

    def settle(path, visit):
        reward = game.reward(state_at(path), path, visit)
        rewards[path].append(reward)
        for depth in range(len(path) + 1):
            node = path[:depth]
            visits[node] += 1
            pending[node] -= 1
            values[node] += reward

    for _ in range(settings.simulations):
        if len(flights) == settings.in_flight:
            settle(*flights.pop(0))
        flights.append(select())
    for flight in flights:
        settle(*flight)
    return {node: (visits[node], values[node], tuple(rewards[node])) for node in visits}

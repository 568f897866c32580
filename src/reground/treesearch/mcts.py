"""Monte Carlo tree search with UCB1 (CR-Planner, section 2.3), with concurrent simulations and a reproducible tree.

One simulation is the paper's four steps. *Selection* goes down from the root by UCB1 to a node without children.
*Expansion*: if that node was simulated before, or is the root, it gets its children, and one of them is taken.
*Simulation* continues from there to a reward. *Back-propagation* adds the reward and a visit to every node on the way.

With several in flight, the i-th selection sees exactly the rewards of simulations 0 to i - in_flight and counts the
unfinished ones as visits that bring the mean so far. Rewards enter the tree in the order of selection, whichever comes
first. So timing changes neither the tree nor its calls, which replay needs. A new simulation starts as soon as the
oldest ends, without waiting for a whole batch. A selection that reaches a node whose children are still being made
waits for them.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

S = TypeVar("S")

Path: TypeAlias = tuple[int, ...]
"""A node's place: the index of the child taken at each level. The root is ()."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one search. Raises ValueError, naming the setting, for an invalid value.

    CR-Planner's paper gives neither the number of simulations nor c.

    simulations: their number, the paper's N steps. c: the weight of exploration in UCB1, in units of the reward;
    sqrt(2) is UCB1's own for rewards between 0 and 1.
    in_flight: maximum number of unfinished simulations. One is the serial algorithm; the tree depends on this number,
    never on timing. Keep it well below `simulations`: a selection does not see the last `in_flight` rewards. Where
    calls take uneven time, twice the model's slots keeps them full, with the model's own limit on calls at once.
    seed: for the order in which new siblings are tried and ties are broken. Nothing else is random.
    """

    simulations: int = 100
    c: float = math.sqrt(2)
    in_flight: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.simulations, self.in_flight) < 1:
            raise ValueError(f"simulations and in_flight must be at least 1, not {self.simulations}, {self.in_flight}")
        if not 0 <= self.c < math.inf:
            raise ValueError(f"c must be a finite number, not negative, not {self.c!r}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node(Generic[S]):
    """One node after the search. Its visits are its own simulations and those of its children.

    label: the action that leads here from the parent, or its kind, for display. value: the cumulative reward, the v of
    UCB1. rewards: those of the simulations that began at this node, in order of selection. copies: the number of
    candidates of the expansion that were this one (see `mcts.Child.key`). data: the expansion's data about it (see
    `mcts.Child.data`). expanded: whether it was expanded.
    """

    state: S
    label: str = ""
    visits: int = 0
    value: float = 0.0
    rewards: tuple[float, ...] = ()
    copies: int = 1
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    expanded: bool = False
    children: tuple[Node[S], ...] = field(default=(), repr=False)

    @property
    def mean(self) -> float | None:
        """Mean reward per visit, v/n; None without a visit."""
        return self.value / self.visits if self.visits else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tree(Generic[S]):
    """The result of a search.

    stopped: why the search ended before its last simulation, if it did. metadata: the caller's JSON values, such as
    the question's id.
    """

    root: Node[S]
    settings: Settings
    stopped: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def walk(root: Node[S]) -> Iterator[tuple[Path, Node[S]]]:
    """Every node with its place: parents before children, siblings in order, depth first."""
    waiting: list[tuple[Path, Node[S]]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        waiting += [((*path, index), child) for index, child in reversed(list(enumerate(node.children)))]


def address(path: Path, visit: int | None = None) -> str:
    """A name for a node, or for its `visit`-th simulation, for a run's span: "root", "0-2", "0-2-v1"."""
    place = "-".join(map(str, path)) or "root"
    return place if visit is None else f"{place}-v{visit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Child(Generic[S]):
    """A possible next state.

    label: a description for display. key: siblings with the same key are one child, the first of them; None equals no
    other. data: the caller's JSON values, such as the log-probability of the sample.
    """

    state: S
    label: str = ""
    key: Hashable = None
    data: Mapping[str, Any] = field(default_factory=dict)


class Problem(Protocol[S]):
    """The problem to search. Both coroutines must depend only on their arguments, or be recorded under them."""

    async def expand(self, state: S, path: Path, /) -> Sequence[Child[S]]:
        """The children of `state`; empty if it is terminal. Called at most once per node."""
        ...

    async def simulate(self, state: S, path: Path, visit: int, /) -> float:
        """Continue from `state` to an end and return the reward; higher is better.

        visit: the number of earlier simulations from this node. `path` and `visit` together name the call
        (`tree.address`), the same in every search with the same settings.
        """
        ...


def ucb1(value: float, visits: float, parent_visits: float, c: float) -> float:
    """UCB1 as in section 2.3: v/n + c * sqrt(ln n_parent / n); infinite without a visit."""
    if not visits:
        return math.inf
    return value / visits + c * math.sqrt(math.log(parent_visits) / visits)


async def search(
    problem: Problem[S],
    state: S,
    settings: Settings,
    /,
    *,
    until: tuple[type[Exception], ...] = (),
    watch: Callable[[int, float], None] = lambda number, reward: None,
) -> Tree[S]:
    """Search from `state`.

    until: errors of the problem that end the search without failing it, such as the end of a budget. The tree then
        holds every finished simulation and the reason why it is shorter.
    watch: is told each simulation's number, from 1, and reward when it enters the tree, in the order of selection.

    Any other error of the problem is raised, the first in the order of selection, after the simulations in flight have
    finished, because they are paid for. Cancellation reaches them at once. Raises ValueError for a reward that is no
    finite number.
    """
    return await _Search(problem, settings, watch, _Branch(state)).run(until)


@dataclass(slots=True, eq=False)
class _Branch(Generic[S]):
    """A node while it is searched."""

    state: S
    label: str = ""
    index: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)
    copies: int = 1
    visits: int = 0
    value: float = 0.0
    pending: int = 0  # simulations through this node whose reward has not entered the tree
    started: int = 0  # simulations that began at this node
    rewards: list[float] = field(default_factory=list)
    opening: asyncio.Event | None = None  # while its children are being made
    children: list[_Branch[S]] | None = None
    order: list[_Branch[S]] = field(default_factory=list)  # its children in random order
    tried: int = 0  # the number of `order` that were taken


@dataclass(slots=True, eq=False)
class _Flight(Generic[S]):
    """A simulation in flight: the nodes from the root to the one that is simulated."""

    line: list[_Branch[S]]
    visit: int = 0
    task: asyncio.Task[float] = field(init=False)

    @property
    def path(self) -> Path:
        return tuple([branch.index for branch in self.line[1:]])

    def begin(self) -> None:
        """Take the next ordinal of the node at the end of the line."""
        self.visit = self.line[-1].started
        self.line[-1].started += 1


@dataclass(eq=False)
class _Search(Generic[S]):
    problem: Problem[S]
    settings: Settings
    watch: Callable[[int, float], None]
    root: _Branch[S]
    window: deque[_Flight[S]] = field(default_factory=deque)
    failing: bool = False
    errors: list[Exception] = field(default_factory=list)

    async def run(self, until: tuple[type[Exception], ...]) -> Tree[S]:
        try:
            for _ in range(self.settings.simulations):
                if len(self.window) == self.settings.in_flight:
                    await self._settle(self.window.popleft())
                line = await self._select()
                if self.failing:
                    break
                self._start(_Flight(line))
            while self.window:
                await self._settle(self.window.popleft())
        finally:  # there are tasks only if the search was cancelled
            tasks = [flight.task for flight in self.window]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for error in self.errors:
            if not isinstance(error, until):
                raise error
        stopped = str(self.errors[0]) or type(self.errors[0]).__name__ if self.errors else None
        return Tree(root=_freeze(self.root), settings=self.settings, stopped=stopped)

    async def _select(self) -> list[_Branch[S]]:
        line = [self.root]
        while True:
            branch = line[-1]
            branch.pending += 1
            if branch.opening is not None:
                await branch.opening.wait()
            if not branch.children:
                return line
            line.append(self._choose(branch))

    def _choose(self, parent: _Branch[S]) -> _Branch[S]:
        """The next untried child in a random order, else the one with the highest UCB1; ties are broken at random."""
        if parent.tried < len(parent.order):
            parent.tried += 1
            return parent.order[parent.tried - 1]
        if len(parent.order) == 1:
            return parent.order[0]
        expected = parent.value / parent.visits if parent.visits else 0.0
        total = parent.visits + parent.pending - 1  # without this selection, which has only entered the parent

        def score(child: _Branch[S]) -> float:
            """UCB1 with each unfinished simulation as a visit that brings the mean so far, or the parent's."""
            mean = child.value / child.visits if child.visits else expected
            return ucb1(child.value + child.pending * mean, child.visits + child.pending, total, self.settings.c)

        return max(parent.order, key=score)  # the first of equals, which are in random order

    def _start(self, flight: _Flight[S]) -> None:
        leaf = flight.line[-1]
        opens = leaf.children is None and (leaf is self.root or leaf.started > 0)
        # marked before the task, because the next selection comes before the task's first step
        if opens:
            leaf.opening = asyncio.Event()
        else:
            flight.begin()
        flight.task = asyncio.get_running_loop().create_task(self._play(flight, leaf.opening))
        self.window.append(flight)

    async def _play(self, flight: _Flight[S], opening: asyncio.Event | None) -> float:
        try:
            if opening is not None:
                await self._open(flight, opening)
            reward = await self.problem.simulate(flight.line[-1].state, flight.path, flight.visit)
            if not math.isfinite(reward):
                raise ValueError(f"the reward of {address(flight.path, flight.visit)} must be finite, not {reward!r}")
            return reward
        except BaseException:
            self.failing = True
            raise

    async def _open(self, flight: _Flight[S], opening: asyncio.Event) -> None:
        """Give a leaf its children and take one, without another selection in between."""
        leaf, path = flight.line[-1], flight.path
        try:
            branches: dict[Hashable, _Branch[S]] = {}
            for each in await self.problem.expand(leaf.state, path):
                key = object() if each.key is None else each.key
                branch = branches.setdefault(key, _Branch(each.state, each.label, len(branches), each.data, copies=0))
                branch.copies += 1
            leaf.children = list(branches.values())
            lot = Random(f"{self.settings.seed}/{address(path)}")  # the same on every machine and version of Python
            leaf.order = sorted(leaf.children, key=lambda _: lot.random())
            if leaf.children:
                child = self._choose(leaf)
                child.pending += 1
                flight.line.append(child)
            flight.begin()
        finally:
            leaf.opening = None
            opening.set()

    async def _settle(self, flight: _Flight[S]) -> None:
        """Wait for a simulation and let its reward enter the tree."""
        try:
            reward = await flight.task
        except Exception as error:
            self.errors.append(error)
            return
        for branch in flight.line:
            branch.pending -= 1
            branch.visits += 1
            branch.value += reward
        flight.line[-1].rewards.append(reward)
        self.watch(self.root.visits, reward)


def _freeze(root: _Branch[S]) -> Node[S]:
    """The tree as immutable nodes, built from the leaves up without recursion."""
    branches = [root]
    for branch in branches:  # grows while it is read: parents stand before their children
        branches += branch.children or ()
    frozen: dict[int, Node[S]] = {}
    for branch in reversed(branches):
        children = tuple([frozen.pop(id(child)) for child in branch.children or ()])
        fields = {name: getattr(branch, name) for name in ("state", "label", "visits", "value", "copies", "data")}
        rewards, expanded = tuple(branch.rewards), branch.children is not None
        frozen[id(branch)] = Node(**fields, rewards=rewards, expanded=expanded, children=children)
    return frozen[id(root)]

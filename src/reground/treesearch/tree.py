"""A searched tree: nodes with visits and values, and the settings of a search.

Trees may be deep, so nothing here recurses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one search. Raises ValueError, naming the setting, for an invalid value.

    CR-Planner's paper gives neither the number of simulations nor c.
    """

    simulations: int = 100
    """Number of simulations: the paper's N steps."""

    c: float = math.sqrt(2)
    """Weight of exploration in UCB1, in units of the reward; sqrt(2) is UCB1's own for rewards between 0 and 1."""

    in_flight: int = 1
    """Maximum number of unfinished simulations. One is the serial algorithm; the tree depends on this number,
    never on timing. Keep it well below `simulations`: a selection does not see the last `in_flight` rewards. Where
    calls take uneven time, twice the model's slots keeps them full, with the model's own limit on calls at once."""

    max_depth: int | None = None
    """Nodes this deep are not expanded (the root has depth 0); None is no limit."""

    seed: int = 0
    """Seed for the order in which new siblings are tried and ties are broken. Nothing else is random."""

    def __post_init__(self) -> None:
        for name in ("simulations", "in_flight"):
            _require(_whole(getattr(self, name)), name, "a whole number, at least 1", getattr(self, name))
        weight = isinstance(self.c, int | float) and math.isfinite(self.c) and self.c >= 0
        _require(weight, "c", "a finite number, not negative", self.c)
        deep = self.max_depth is None or _whole(self.max_depth)
        _require(deep, "max_depth", "a whole number, at least 1, or None for no limit", self.max_depth)
        _require(isinstance(self.seed, int), "seed", "a whole number", self.seed)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _require(holds: bool, name: str, what: str, got: object) -> None:
    if not holds:
        raise ValueError(f"{name} must be {what}, not {got!r}")


S = TypeVar("S")

Path: TypeAlias = tuple[int, ...]
"""A node's place: the index of the child taken at each level. The root is ()."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node(Generic[S]):
    """One node after the search. Its visits are its own simulations and those of its children."""

    state: S
    label: str = ""
    """The action that leads here from the parent, or its kind, for display."""

    visits: int = 0
    value: float = 0.0
    """Cumulative reward: the v of UCB1."""

    rewards: tuple[float, ...] = ()
    """Rewards of the simulations that began at this node, in order of selection."""

    copies: int = 1
    """The number of candidates of the expansion that were this one (see `mcts.Child.key`)."""

    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The expansion's data about it (see `mcts.Child.data`)."""

    expanded: bool = False
    """Whether it was expanded."""

    children: tuple[Node[S], ...] = field(default=(), repr=False)

    @property
    def mean(self) -> float | None:
        """Mean reward per visit, v/n; None without a visit."""
        return self.value / self.visits if self.visits else None

    @property
    def terminal(self) -> bool:
        """Whether expansion found no children."""
        return self.expanded and not self.children


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tree(Generic[S]):
    """The result of a search."""

    root: Node[S]
    settings: Settings
    stopped: str | None = None
    """Why the search ended before its last simulation, if it did."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The caller's data: JSON values, such as the question's id."""


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

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

    simulations: their number, the paper's N steps. c: the weight of exploration in UCB1, in units of the reward;
    sqrt(2) is UCB1's own for rewards between 0 and 1.
    in_flight: maximum number of unfinished simulations. One is the serial algorithm; the tree depends on this number,
    never on timing. Keep it well below `simulations`: a selection does not see the last `in_flight` rewards. Where
    calls take uneven time, twice the model's slots keeps them full, with the model's own limit on calls at once.
    max_depth: nodes this deep are not expanded (the root has depth 0); None is no limit.
    seed: for the order in which new siblings are tried and ties are broken. Nothing else is random.
    """

    simulations: int = 100
    c: float = math.sqrt(2)
    in_flight: int = 1
    max_depth: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        def require(holds: bool, name: str, what: str) -> None:
            if not holds:
                raise ValueError(f"{name} must be {what}, not {getattr(self, name)!r}")

        for name in ("simulations", "in_flight"):
            require(is_count(getattr(self, name), least=1), name, "a whole number, at least 1")
        require(is_finite(self.c) and self.c >= 0, "c", "a finite number, not negative")
        is_depth = self.max_depth is None or is_count(self.max_depth, least=1)
        require(is_depth, "max_depth", "a whole number, at least 1, or None for no limit")
        require(isinstance(self.seed, int), "seed", "a whole number")


def is_count(value: object, *, least: int | None = None) -> bool:
    """Whether a value is a whole number, of at least `least`, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)


def is_finite(value: object) -> bool:
    """Whether a value is a number that a float can hold, and no bool."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


S = TypeVar("S")

Path: TypeAlias = tuple[int, ...]
"""A node's place: the index of the child taken at each level. The root is ()."""


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

    @property
    def terminal(self) -> bool:
        """Whether expansion found no children."""
        return self.expanded and not self.children


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

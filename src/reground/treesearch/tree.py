"""A searched tree: nodes with visits and values, and the preferences between siblings for training.

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

    virtual_loss: float = 0.0
    """How far below the mean so far an unfinished simulation is counted, in units of the reward. 0 expects it to bring
    that mean, which comes nearest to the serial search; more spreads simulations in flight over more branches."""

    max_depth: int | None = None
    """Nodes this deep are not expanded (the root has depth 0); None is no limit."""

    seed: int = 0
    """Seed for the order in which new siblings are tried and ties are broken. Nothing else is random."""

    def __post_init__(self) -> None:
        for name in ("simulations", "in_flight"):
            _require(_whole(getattr(self, name)), name, "a whole number, at least 1", getattr(self, name))
        for name in ("c", "virtual_loss"):
            _require(_weight(getattr(self, name)), name, "a finite number, not negative", getattr(self, name))
        deep = self.max_depth is None or _whole(self.max_depth)
        _require(deep, "max_depth", "a whole number, at least 1, or None for no limit", self.max_depth)
        _require(isinstance(self.seed, int), "seed", "a whole number", self.seed)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _weight(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Preference(Generic[S]):
    """The best of some siblings, and a worse one (CR-Planner, section 2.3)."""

    path: Path
    """Their parent's place; `lineage` gives the nodes that led there."""

    parent: Node[S]
    chosen: Node[S]
    rejected: Node[S]
    margin: float
    """Difference of their mean rewards, above 0."""


def walk(root: Node[S]) -> Iterator[tuple[Path, Node[S]]]:
    """Every node with its place: parents before children, siblings in order, depth first."""
    waiting: list[tuple[Path, Node[S]]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        waiting += [((*path, index), child) for index, child in reversed(list(enumerate(node.children)))]


def lineage(root: Node[S], path: Path) -> tuple[Node[S], ...]:
    """The nodes from the root to `path`, both included. Raises IndexError when there is no such node."""
    line = [root]
    for index in path:
        line.append(line[-1].children[index])
    return tuple(line)


def most_visited(node: Node[S]) -> Node[S]:
    """The best child after the search: most visits, then the higher mean, then the first.

    Raises ValueError when the node has no child.
    """
    return max(node.children, key=lambda child: (child.visits, child.mean or 0.0))


def pairs(root: Node[S], *, min_visits: int = 1, min_margin: float = 0.0) -> Iterator[Preference[S]]:
    """Preferences of a whole tree: at each parent, the child with the highest mean against every lower sibling.

    Children with fewer than `min_visits` visits (at least 1) take no part. A sibling is lower when its mean is, and
    by `min_margin` or more. Where several share the highest mean, the most visited of them is chosen.
    """
    if min_visits < 1:
        raise ValueError(f"min_visits must be at least 1, not {min_visits!r}")
    for path, parent in walk(root):
        known = [(child.value / child.visits, child) for child in parent.children if child.visits >= min_visits]
        if len(known) < 2:
            continue
        best, chosen = max(known, key=lambda pair: (pair[0], pair[1].visits))
        for mean, child in known:
            if mean < best and best - mean >= min_margin:
                yield Preference(path=path, parent=parent, chosen=chosen, rejected=child, margin=best - mean)


def address(path: Path, visit: int | None = None) -> str:
    """A name for a node, or for its `visit`-th simulation, for a run's span: "root", "0-2", "0-2-v1"."""
    place = "-".join(map(str, path)) or "root"
    return place if visit is None else f"{place}-v{visit}"

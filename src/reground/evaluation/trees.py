"""Trees of a search as JSON files.

    {"format": "reground.tree", "version": 1, "settings": {...}, "stopped": null, "metadata": {...}, "nodes": [
      {"parent": null, "label": "", "state": ..., "visits": 8, "value": 3.0, "rewards": [], "copies": 1, "data": {},
       "expanded": true},
      {"parent": 0, ...}]}

Nodes are in one list, parents before their children and siblings in order, so that a deep tree needs no nesting. The
last field of the file is the checksum of `core.files`; a file of another program has none and is read unchecked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, JsonValue, ValidationError

from reground.core.errors import DataError
from reground.core.files import replace_lines, with_sum, without_sum
from reground.core.language import Number, Value, first_fault
from reground.treesearch.mcts import Node, Settings, Tree

S = TypeVar("S")

FORMAT = "reground.tree"
VERSION = 1


class _Entry(Value):
    """A node of a file. parent: its parent's place in the list, None for the first."""

    parent: Annotated[int, Field(ge=0)] | None
    label: str
    state: Any
    visits: int
    value: Number
    rewards: tuple[Number, ...]
    copies: Annotated[int, Field(ge=1)]
    data: dict[str, JsonValue] = Field(default_factory=dict)
    expanded: bool


class _File(Value):
    """The content of a file."""

    format: Literal["reground.tree"]
    version: Literal[1]
    settings: Settings
    stopped: str | None = None
    metadata: dict[str, JsonValue]
    nodes: Annotated[tuple[_Entry, ...], Field(min_length=1)]


def tree_text(tree: Tree[S], encode: Callable[[S, S | None], Any]) -> str:
    """A tree as JSON. Raises ValueError or TypeError where a state or the metadata is not JSON.

    encode: a state as a JSON value. It also gets the parent's state (None for the root), so a state that holds
        everything before it can be written as the difference.
    """
    nodes: list[dict[str, Any]] = []
    waiting: list[tuple[int | None, S | None, Node[S]]] = [(None, None, tree.root)]
    while waiting:
        parent, before, node = waiting.pop()
        waiting += [(len(nodes), node.state, child) for child in reversed(node.children)]
        entry = {name: getattr(node, name) for name in _Entry.model_fields if name != "parent"}
        nodes.append({"parent": parent, **entry, "state": encode(node.state, before), "data": dict(node.data)})
    about = {"format": FORMAT, "version": VERSION, "settings": asdict(tree.settings), "stopped": tree.stopped}
    content = {**about, "metadata": dict(tree.metadata), "nodes": nodes}
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def tree_of(text: str | bytes, decode: Callable[[Any, S | None], S]) -> Tree[S]:
    """The tree of `tree_text`. Raises ValueError for a text that is none.

    decode: the inverse of `encode`, given the parent's state (None for the root); what it raises as ValueError,
        TypeError or LookupError becomes part of the error.
    """
    try:
        file = _File.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ValueError(f"not a tree of version {VERSION}: {first_fault(error)}") from None
    return Tree(root=_root(file.nodes, decode), settings=file.settings, stopped=file.stopped, metadata=file.metadata)


def write_tree(path: Path, tree: Tree[S], encode: Callable[[S, S | None], Any]) -> None:
    """Replace a file whole: a reader sees the old tree or the new one. Raises what `tree_text` does, StorageError."""
    replace_lines(path, [with_sum(tree_text(tree, encode))])


def read_tree(path: Path, decode: Callable[[Any, Any], Any] = lambda value, parent: value) -> Tree[Any]:
    """Read a file of `write_tree`; without `decode`, states are the JSON values of the file. Raises DataError."""
    try:
        return tree_of(without_sum(path.read_bytes()), decode)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from None
    except ValueError as error:
        raise DataError(str(error), path=path) from error.__cause__


def _root(entries: tuple[_Entry, ...], decode: Callable[[Any, S | None], S]) -> Node[S]:
    below: list[list[Node[S]]] = [[] for _ in entries]
    states: list[S] = []
    for number, entry in enumerate(entries):
        parent = entry.parent
        if (parent is None) != (number == 0) or (parent or 0) > max(0, number - 1):
            raise ValueError(f"node {number}: parent {parent} must be an earlier node, none for the first")
        try:
            states.append(decode(entry.state, None if parent is None else states[parent]))
        except (ValueError, TypeError, LookupError) as error:
            raise ValueError(f"node {number}: its state cannot be read: {error}") from error
    for number, entry in reversed(list(enumerate(entries))):  # from the leaves up
        values = {name: getattr(entry, name) for name in _Entry.model_fields if name not in ("parent", "state")}
        node = Node(**values, state=states[number], children=tuple(below[number][::-1]))
        below[entry.parent or 0].append(node)
    return node

"""Reads and writes trees as JSON files.

    {"format": "reground.tree", "version": 1, "settings": {...}, "stopped": null, "metadata": {...}, "nodes": [
      {"parent": null, "label": "", "state": ..., "visits": 8, "value": 3.0, "rewards": [], "copies": 1, "data": {},
       "expanded": true},
      {"parent": 0, ...}]}

The last field of the file is "sum": the CRC-32 (eight hexadecimal digits) of its UTF-8 bytes without that field, from
the first brace to the last. A file of another program has none and is read unchecked.

Nodes are in one list, parents before their children and siblings in order, so that a deep tree needs no nesting.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from reground.treesearch.mcts import Node, Settings, Tree, is_count, is_finite

S = TypeVar("S")

FORMAT = "reground.tree"
VERSION = 1
_SUM = re.compile(rb',"sum":"([0-9a-f]{8})"\}\s*\Z')


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "parent": lambda value: value is None or is_count(value),
    "label": lambda value: isinstance(value, str),
    "state": lambda value: True,
    "visits": is_count,
    "value": is_finite,
    "rewards": lambda value: isinstance(value, list) and all(map(is_finite, value)),
    "copies": lambda value: is_count(value, least=1),
    "expanded": lambda value: isinstance(value, bool),
}


class TreeFileError(ValueError):
    """A tree file or its content is invalid; the message names the file and the node."""


def tree_to_dict(tree: Tree[S], encode: Callable[[S, S | None], Any]) -> dict[str, Any]:
    """A tree as JSON values.

    encode: a state as a JSON value. It also gets the parent's state (None for the root), so a state that holds
        everything before it can be written as the difference.
    """
    nodes: list[dict[str, Any]] = []
    waiting: list[tuple[int | None, S | None, Node[S]]] = [(None, None, tree.root)]
    while waiting:
        parent, before, node = waiting.pop()
        waiting += [(len(nodes), node.state, child) for child in reversed(node.children)]
        entry = {name: getattr(node, name) for name in _FIELDS if name not in ("parent", "state")}
        given = {"parent": parent, "state": encode(node.state, before), "data": dict(node.data)}
        nodes.append(entry | given | {"rewards": list(node.rewards)})
    return {
        "format": FORMAT,
        "version": VERSION,
        "settings": dataclasses.asdict(tree.settings),
        "stopped": tree.stopped,
        "metadata": dict(tree.metadata),
        "nodes": nodes,
    }


def tree_from_dict(data: Any, decode: Callable[[Any, S | None], S]) -> Tree[S]:
    """The tree of `tree_to_dict`.

    decode: the inverse of its `encode`, given the parent's state (None for the root); what it raises as ValueError,
        TypeError or LookupError becomes part of a TreeFileError.

    Raises TreeFileError when `data` is no tree, is of another version, or does not add up.
    """
    _check(isinstance(data, dict) and data.get("format") == FORMAT, f'not a tree: it needs "format": "{FORMAT}"')
    version = data.get("version")
    _check(version == VERSION and not isinstance(version, bool), f"version {version!r}, and this reads {VERSION}")
    stopped, metadata, nodes = data.get("stopped"), data.get("metadata"), data.get("nodes")
    _check(stopped is None or isinstance(stopped, str), "stopped must be text or null")
    _check(isinstance(metadata, dict), "metadata must be an object")
    _check(isinstance(nodes, list) and bool(nodes), "nodes must be a list that is not empty")
    _check(isinstance(data.get("settings"), dict), "settings must be an object")
    try:
        settings = Settings(**data["settings"])
    except (TypeError, ValueError) as error:
        raise TreeFileError(f"settings: {error}") from None
    return Tree(root=_tree(nodes, decode), settings=settings, stopped=stopped, metadata=metadata)


def write_tree(path: Path, tree: Tree[S], encode: Callable[[S, S | None], Any]) -> None:
    """Replace a file whole: a reader sees the old tree or the new one. See `tree_to_dict` for `encode`.

    Raises ValueError or TypeError, and leaves the file as it was, when a state or the metadata is not JSON.
    """
    data = json.dumps(tree_to_dict(tree, encode), ensure_ascii=False, allow_nan=False).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(b'%s,"sum":"%08x"}\n' % (data[:-1], zlib.crc32(data)))
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def read_tree(path: Path, decode: Callable[[Any, Any], Any] = lambda value, parent: value) -> Tree[Any]:
    """Read a file of `write_tree`; without `decode`, states are the JSON values that the file holds.

    Raises TreeFileError, naming the file and what is wrong.
    """
    try:
        data = path.read_bytes()
        if found := _SUM.search(data, max(0, len(data) - 40)):
            data = data[: found.start()] + b"}"
            _check(zlib.crc32(data) == int(found[1], 16), "its checksum does not match, so the file is damaged")
        return tree_from_dict(json.loads(data), decode)
    except TreeFileError as error:
        raise TreeFileError(f"{path}: {error}") from error.__cause__
    except OSError as error:
        raise TreeFileError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise TreeFileError(f"{path}: not JSON: {error}") from None


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise TreeFileError(what)


def _tree(entries: list[Any], decode: Callable[[Any, S | None], S]) -> Node[S]:
    children: list[list[int]] = [[] for _ in entries]
    states: list[S] = []
    for number, entry in enumerate(entries):
        _check_entry(entry, number)
        parent = entry["parent"]
        try:
            states.append(decode(entry["state"], None if parent is None else states[parent]))
        except (ValueError, TypeError, LookupError) as error:
            raise TreeFileError(f"node {number}: its state cannot be read: {error}") from error
        if parent is not None:
            children[parent].append(number)
    nodes: dict[int, Node[S]] = {}
    for number in range(len(entries) - 1, -1, -1):  # from the leaves up
        below = tuple([nodes.pop(child) for child in children[number]])
        nodes[number] = _node(entries[number], states[number], below, number)
    return nodes[0]


def _check_entry(entry: Any, number: int) -> None:
    _check(isinstance(entry, dict), f"node {number} must be an object")
    for name, fits in _FIELDS.items():
        _check(name in entry, f"node {number}: {name} is missing")
        if not fits(entry[name]):
            shown = repr(entry[name])
            raise TreeFileError(f"node {number}: {name} cannot be {shown[:37] + '...' if len(shown) > 40 else shown}")
    _check(isinstance(entry.get("data", {}), dict), f"node {number}: data must be an object")
    parent = entry["parent"]
    placed = parent is None if number == 0 else parent is not None and 0 <= parent < number
    _check(placed, f"node {number}: parent {parent!r} must be null for the first and an earlier node for the others")


def _node(entry: Mapping[str, Any], state: S, children: tuple[Node[S], ...], number: int) -> Node[S]:
    """A node whose sums are those of its rewards and its children."""
    rewards = tuple(map(float, entry["rewards"]))
    visits, value = entry["visits"], float(entry["value"])
    expected = len(rewards) + sum(child.visits for child in children)
    _check(visits == expected, f"node {number}: {visits} visits, and {expected} by its rewards and children")
    total = math.fsum([*rewards, *(child.value for child in children)])
    # the search added the rewards in another order, so the last digits of sums may differ
    adds_up = math.isclose(value, total, rel_tol=1e-6, abs_tol=1e-6)
    _check(adds_up, f"node {number}: value {value!r}, and {total!r} by its rewards and children")
    _check(entry["expanded"] or not children, f"node {number}: it has children and is not expanded")
    known = {name: entry[name] for name in ("label", "visits", "copies", "expanded")}
    return Node(**known, state=state, value=value, rewards=rewards, data=entry.get("data", {}), children=children)

"""A search tree as plain data for a page, and what a node says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reground.core.language import storable
from reground.treesearch.files import FORMAT
from reground.treesearch.mcts import ucb1
from reground.treesearch.tree import Node, Tree, walk

_HEAD = 64  # bytes, in which a tree's file says what it is


def tree_files(place: Path) -> list[Path]:
    """The tree files of a path: the file itself, or those of a training's folder."""
    if place.is_dir():
        return sorted((place if place.name == "trees" else place / "trees").glob("*.json"))
    if place.suffix != ".json" or not place.is_file():
        return []
    with place.open("rb") as file:
        return [place] if FORMAT.encode() in file.read(_HEAD) else []


def flat_tree(tree: Tree[Any]) -> dict[str, Any]:
    """A tree as JSON values: its nodes in one list, parents before their children, each with its parent's place."""
    places: dict[tuple[int, ...], int] = {}
    nodes: list[dict[str, Any]] = []
    for path, node in walk(tree.root):
        places[path] = len(nodes)
        parent = places[path[:-1]] if path else None
        above = nodes[parent]["visits"] if parent is not None else 0
        nodes.append(
            {
                "parent": parent,
                "label": node.label or "ROOT",
                "said": said(node),
                "visits": node.visits,
                "mean": node.mean,
                "priority": priority(node, above, tree.settings.c) if node.visits and path else None,
                "copies": node.copies,
                "rewards": list(node.rewards),
                "terminal": node.terminal,
                "passage": _passage(node.state),
                "data": storable(dict(node.data)),
            }
        )
    return {"nodes": nodes, "stopped": tree.stopped, "metadata": storable(dict(tree.metadata))}


def priority(node: Node[Any], above: int, c: float) -> float:
    """UCB1 among its siblings: which branch would be tried next. above: the parent's visits. Those never tried are
    last."""
    return ucb1(node.value, node.visits, max(above, 1), c) if node.visits else -1e300


def said(node: Node[Any]) -> str:
    """What a state says: an observation's text with a document's title, or the question at the root."""
    state = node.state
    if not isinstance(state, dict):
        return str(state)
    passage = state.get("passage")
    title = passage.get("title") if isinstance(passage, dict) else None
    texts = (title, state.get("question") or state.get("text"))
    return ": ".join(str(text) for text in texts if text)


def _passage(state: Any) -> str | None:
    """The whole text of a state's document."""
    passage = state.get("passage") if isinstance(state, dict) else None
    text = passage.get("text") if isinstance(passage, dict) else None
    return text if isinstance(text, str) else None
